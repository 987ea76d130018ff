"""A report: subjects, their comparisons and charts. `page` writes it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import webtraj
from webtraj import errors
from webtraj.reporting.comparing import Comparison, compare
from webtraj.reporting.sources import Point, Subject

if TYPE_CHECKING:
    from webtraj.reporting.figures import Picture

__all__ = ["Report", "make_report", "plain"]

# Data that every JSON reader accepts.

_LARGEST = 2**63 - 1


def plain(value: Any) -> Any:
    r"""Return JSON data with valid Unicode, and None for numbers that JSON lacks.

    >>> plain({"a": ["\ud800b", float("inf")]})
    {'a': ['?b', None]}
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report."""

    title: str
    subjects: tuple[Subject, ...]
    comparisons: tuple[Comparison, ...]
    """Each subject compared with the first; with iterations, also the last with the first."""

    @property
    def points(self) -> tuple[tuple[str, Point], ...]:
        """Every point with a unique name."""
        several = len(self.subjects) > 1
        found = []
        for subject in self.subjects:
            for point in subject.points:
                parts = [subject.name] if several or not point.label else []
                found.append((": ".join([*parts, *([point.label] if point.label else [])]), point))
        return tuple(found)

    @property
    def main_points(self) -> tuple[tuple[str, Point], ...]:
        """The main point of each subject, with the same names."""
        mains = [id(subject.main) for subject in self.subjects]
        return tuple((name, point) for name, point in self.points if id(point) in mains)

    def pictures(self) -> list[Picture]:
        """Draw the charts.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        from webtraj.reporting import figures

        mains = self.main_points
        drawn: list[Picture | None] = [
            figures.success_over_iterations(self.subjects),
            figures.success_by_group(mains, "task"),
            figures.success_by_group(mains, "level"),
            figures.outcomes(self.points),
            figures.time_by_phase(self.points),
        ]
        several = len(self.comparisons) > 1
        for number, comparison in enumerate(self.comparisons, start=1):
            picture = figures.differences(comparison)
            if picture is not None and several:
                title = f"{picture.title}: {comparison.second_name} minus {comparison.first_name}"
                picture = dataclasses.replace(picture, name=f"{picture.name}_{number}", title=title)
            drawn.append(picture)
        for number, subject in enumerate(self.subjects, start=1):
            picture = figures.loop_numbers(subject)
            if picture is not None and len(self.subjects) > 1:
                picture = dataclasses.replace(
                    picture,
                    name=f"{picture.name}_{number}",
                    title=f"{picture.title}: {subject.name}",
                )
            drawn.append(picture)
        return [picture for picture in drawn if picture is not None]

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        return {
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
        }


def make_report(subjects: Sequence[Subject], *, title: str = "") -> Report:
    """Return a report on some subjects.

    Args:
        subjects: The subjects, in order; the others are compared with the first.
        title: The title; by default made of the subjects' names.

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
