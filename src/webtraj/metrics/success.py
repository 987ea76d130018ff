"""Success by task and by iteration.

Loops, the viewer and reports take these numbers from here. `rates.success_rate` decides which
episodes count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj.metrics.rates import Rate, bounds, mean_of_tasks
from webtraj.store.places import is_url

if TYPE_CHECKING:
    from webtraj.metrics.metrics_report import MetricsReport

__all__ = ["SuccessPoint", "SuccessSeries", "TaskSuccess", "series_data"]

_MOST_TASKS = 1000
"""The most tasks listed; of more, those with the lowest latest success are kept."""

_TITLES = {"test": "evaluation", "train": "episodes to train on"}
_LOOP = "state.jsonl"


@dataclasses.dataclass(frozen=True, slots=True)
class TaskSuccess:
    """The success rates of some episodes, by task."""

    by_task: Mapping[str, Rate]

    @classmethod
    def of(cls, report: MetricsReport) -> TaskSuccess:
        """Return the rates of a report that was grouped by task."""
        return cls({name: metrics.success_rate for name, metrics in report.by["task"].items()})

    @property
    def overall(self) -> Rate:
        """The success rate of all episodes."""
        return Rate.total(self.by_task.values())

    @property
    def mean(self) -> dict[str, Any]:
        """The mean over tasks as JSON data, from `mean_of_tasks`."""
        return mean_of_tasks([rate.counts for rate in self.by_task.values()])

    def to_data(self) -> dict[str, Any]:
        """Return the mean and each task's rate as JSON data."""
        rates = {name: rate.to_data() for name, rate in self.by_task.items()}
        return {"mean": self.mean, "by_task": rates}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SuccessPoint:
    """The success of one iteration."""

    iteration: int
    dataset: str
    """The iteration's dataset: its name in a viewer, or its place."""
    success: TaskSuccess
    writing: bool = False
    """Whether the dataset is still being written."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SuccessSeries:
    """The success of a split's successive iterations."""

    home: str
    """The folder of the iterations: a path or URL."""
    split: str
    """`train`, `test`, or empty without splits."""
    points: tuple[SuccessPoint, ...]


def _shift(home: str, split: str) -> int:
    """Return a dataset's iteration number minus the number under which it is shown.

    In both splits, iteration k runs with the weights of iteration k - 1. In a loop, the test split
    therefore evaluates iteration k - 1, and is shown there.
    """
    in_loop = split == "test" and not is_url(home)
    return int(in_loop and (Path(home) / _LOOP).exists())


def series_data(series: Iterable[SuccessSeries]) -> dict[str, Any]:
    """Return success by iteration and task as JSON data.

    ::

        {"series": [{"title": "evaluation", "split": "test", "after": 1, "points": [
           {"at": 1, "dataset": "test-iteration_0002", "iteration": 2, "writing": False,
            "mean": {"value": 0.8, "low": 0.74, "high": 0.86, "tasks": 3},
            "all": {"successes": 77, "graded": 96, "low": 0.71, "high": 0.87}}]}],
         "tasks": [{"task": "miniwob/click-test", "rates": [[0, 0, 31, 32, 0.84, 0.99]]}],
         "left_out": 0}

    A rate in `tasks` lists the indices of the series and the point, the successes, the graded
    episodes, and the ends of the 95 % interval. Points and tasks without graded episodes are left
    out.
    """
    given = list(series)
    several_homes = len({one.home for one in given}) > 1
    shown: list[dict[str, Any]] = []
    tasks: dict[str, list[list[Any]]] = {}
    for one in given:
        shift = _shift(one.home, one.split)
        points: list[dict[str, Any]] = []
        for point in sorted(one.points, key=lambda point: point.iteration):
            overall = point.success.overall
            solved, graded = overall.counts
            if not graded:
                continue
            for task, rate in point.success.by_task.items():
                if rate.interval is not None:
                    numbers = [*rate.counts, *rate.interval]
                    tasks.setdefault(task, []).append([len(shown), len(points), *numbers])
            points.append(
                {
                    "at": point.iteration - shift,
                    "dataset": point.dataset,
                    "iteration": point.iteration,
                    "writing": point.writing,
                    "mean": point.success.mean,
                    "all": {"successes": solved, "graded": graded, **bounds(overall.interval)},
                }
            )
        if points:
            name = one.home.rstrip("/").rpartition("/")[2] or "iterations"
            title = _TITLES.get(one.split, name)
            if several_homes and one.split:
                title = f"{name}: {title}"
            shown.append({"title": title, "split": one.split, "after": shift, "points": points})
    kept = sorted(tasks, key=lambda task: (_latest(tasks[task]), task))[:_MOST_TASKS]
    return {
        "series": shown,
        "tasks": [{"task": task, "rates": tasks[task]} for task in sorted(kept)],
        "left_out": len(tasks) - len(kept),
    }


def _latest(rates: Sequence[Sequence[Any]]) -> float:
    """Return a task's latest success rate in the first series that has the task."""
    first = rates[0][0]
    *_, last = (rate for rate in rates if rate[0] == first)
    return float(last[2] / last[3])
