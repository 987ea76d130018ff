"""The content of a report on datasets and iterations: their metrics and differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import webtraj
from webtraj import errors
from webtraj.datasets.place import absolute_place
from webtraj.metrics.comparison import Comparison, Point, Subject, compare
from webtraj.metrics.metrics_report import plain
from webtraj.metrics.success import SuccessPoint, SuccessSeries, TaskSuccess, series_data

__all__ = ["Report", "make_report"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report."""

    title: str
    subjects: tuple[Subject, ...]
    comparisons: tuple[Comparison, ...]
    """Each subject compared with the first; with iterations, also the last with the first."""

    @property
    def points(self) -> tuple[tuple[str, Point], ...]:
        """Every point, with a unique name."""
        several = len(self.subjects) > 1
        found = []
        for subject in self.subjects:
            for point in subject.points:
                name = subject.name if several or not point.label else ""
                found.append((": ".join(filter(None, (name, point.label))), point))
        return tuple(found)

    @property
    def main_points(self) -> tuple[tuple[str, Point], ...]:
        """The main point of each subject, named as in `points`."""
        mains = [id(subject.main) for subject in self.subjects]
        return tuple((name, point) for name, point in self.points if id(point) in mains)

    def iterations(self) -> dict[str, Any]:
        """Return success by iteration as JSON data, from `series_data`."""
        splits: dict[tuple[str, str], list[SuccessPoint]] = {}
        for subject in self.subjects:
            for point in subject.points:
                if point.iteration is not None:
                    splits.setdefault((subject.name, point.split), []).append(
                        SuccessPoint(
                            iteration=point.iteration,
                            dataset=absolute_place(point.place),
                            success=TaskSuccess.of(point.report),
                        )
                    )
        ordered = sorted(splits.items(), key=lambda one: one[0][1] != "test")
        return series_data(
            SuccessSeries(home=home, split=split, points=tuple(points))
            for (home, split), points in ordered
        )

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data that every reader accepts."""
        data: dict[str, Any] = {
            "kind": "report",
            "webtraj_version": webtraj.__version__,
            "title": self.title,
            "subjects": [
                {
                    "name": subject.name,
                    "points": [
                        {
                            "label": point.label,
                            "place": point.place,
                            "iteration": point.iteration,
                            "split": point.split,
                            "note": point.note,
                            "faults": dict(point.faults),
                            "metrics": point.report.to_data(),
                        }
                        for point in subject.points
                    ],
                    "numbers": [dict(numbers) for numbers in subject.numbers],
                }
                for subject in self.subjects
            ],
            "comparisons": [comparison.to_data() for comparison in self.comparisons],
            "iterations": self.iterations(),
        }
        readable: dict[str, Any] = plain(data)
        return readable


def make_report(subjects: Sequence[Subject], *, title: str = "") -> Report:
    """Return a report on subjects.

    Args:
        subjects: The subjects, in order; the others are compared with the first.
        title: The title. Default: the subjects' names.

    Raises:
        InvalidInputError: There are no subjects, or two have the same name.
    """
    if not subjects:
        raise errors.InvalidInputError("No dataset given; a report needs at least one.")
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise errors.InvalidInputError(
            f"A dataset was given twice: {', '.join(map(repr, names)):.300}. Give each one once."
        )
    comparisons = []
    for subject in subjects:
        if subject.first is not subject.main:
            prefix = f"{subject.name}: " if len(subjects) > 1 else ""
            comparisons.append(
                compare(
                    f"{prefix}{subject.first.label}", subject.first,
                    f"{prefix}{subject.main.label}", subject.main,
                )
            )  # fmt: skip
    first = subjects[0]
    comparisons += [
        compare(first.name, first.main, other.name, other.main) for other in subjects[1:]
    ]
    return Report(
        title=title or f"Rollouts: {', '.join(names)}",
        subjects=tuple(subjects),
        comparisons=tuple(comparisons),
    )
