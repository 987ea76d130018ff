"""Success by iteration, for datasets that are iterations, such as a loop's.

A *series* is the iterations of one split in a folder (see `runs.iterations`), or the datasets
called `iteration_0001` and so on in any other folder. The numbers equal those in a loop's
`metrics.jsonl`, but appear as soon as an episode ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.metrics.rates import Rate, bounds, mean_of_tasks
from webtraj.store.places import is_url
from webtraj.view.source import Source
from webtraj.view.table import Table

__all__ = ["MOST_TASKS", "Series", "iterations_data", "series_of"]

MOST_TASKS = 1000
"""The most tasks listed; of more, those with the lowest latest success are kept."""

_SPLITS = {"train_trajectories": "train", "test_trajectories": "test"}
_PROCESSED = "processed"
_TITLES = {"test": "evaluation", "train": "episodes to train on"}
_LOOP = "state.jsonl"
_METRICS = "metrics.jsonl"
_MEASURED = (
    "reward", "groups", "groups_kept", "ratio", "clipped", "entropy", "mismatch", "staleness"
)  # fmt: skip


@dataclasses.dataclass(slots=True)
class Series:
    """Successive iterations of one split."""

    home: str
    """The folder that holds them: a path or URL."""
    split: str
    """`train`, `test`, or empty without splits."""
    recorded: dict[int, Source] = dataclasses.field(default_factory=dict)

    @property
    def shift(self) -> int:
        """The dataset's iteration number minus the loop's number for it.

        In both splits, iteration k runs with the weights of iteration k - 1. In a loop, the test
        split therefore evaluates iteration k - 1, and is shown as that.
        """
        in_loop = self.split == "test" and not is_url(self.home)
        return int(in_loop and (Path(self.home) / _LOOP).exists())


def series_of(sources: Iterable[Source]) -> list[Series]:
    """Return the series that datasets form, in their order; evaluations come first."""
    found: dict[tuple[str, str], Series] = {}
    for source in sources:
        if source.iteration is None:
            continue
        layout = source.place.layout
        url = str(layout.root.absolute()) if layout else source.place.url
        *above, folder = ["", *url.rstrip("/").split("/")[:-1]]
        split = _SPLITS.get(folder, "")
        home = "/".join(above[1:] if split else [*above[1:], folder])
        series = found.setdefault((home, split), Series(home, split))
        series.recorded.setdefault(source.iteration, source)
    homes = {home for home, split in found if split}
    for home, split in list(found):
        place, _, name = home.rpartition("/")
        if not split and name == _PROCESSED and place in homes:
            del found[home, split]  # Selected episodes say nothing about the success rate.
    order = list(dict.fromkeys(home for home, _ in found))
    return sorted(found.values(), key=lambda one: (order.index(one.home), one.split != "test"))


def iterations_data(
    table: Table, sources: Iterable[Source], *, writing: Iterable[str] = ()
) -> dict[str, Any]:
    """Return success by iteration and task as JSON data.

    ::

        {"series": [{"title": "evaluation", "split": "test", "after": 1, "points": [
           {"at": 1, "dataset": "test-iteration_0002", "iteration": 2, "writing": False,
            "mean": {"value": 0.8, "low": 0.74, "high": 0.86, "tasks": 3},
            "all": {"successes": 77, "graded": 96, "low": 0.71, "high": 0.87}}]}],
         "tasks": [{"task": "miniwob/click-test", "rates": [[0, 0, 31, 32, 0.84, 0.99]]}],
         "left_out": 0,
         "gradient": [{"title": "policy gradient", "points": [
           {"at": 2, "dataset": "train-iteration_0002", "iteration": 2, "reward": 0.41,
            "groups": 24, "groups_kept": 16, "ratio": 1.0, ...}]}]}

    A task's rate is its series, its point there, successes, graded episodes, and the ends of the
    95 % interval. `gradient` is what a loop's `metrics.jsonl` says of its `policy_gradient`.

    Args:
        table: The episodes.
        sources: The episodes' datasets.
        writing: The names of datasets that are being written.
    """
    every = series_of(sources)
    counts = table.success({source.name for one in every for source in one.recorded.values()})
    now = set(writing)
    several_homes = len({one.home for one in every}) > 1
    told: list[dict[str, Any]] = []
    tasks: dict[str, list[list[Any]]] = {}
    for one in every:
        points: list[dict[str, Any]] = []
        for number, source in sorted(one.recorded.items()):
            rates = counts.get(source.name)
            if not rates:
                continue
            for task, rate in rates.items():
                numbers = [*rate.counts, *(rate.interval or (None, None))]
                tasks.setdefault(task, []).append([len(told), len(points), *numbers])
            overall = Rate.total(rates.values())
            solved, graded = overall.counts
            points.append(
                {
                    "at": number - one.shift,
                    "dataset": source.name,
                    "iteration": number,
                    "writing": source.name in now,
                    "mean": mean_of_tasks([rate.counts for rate in rates.values()]),
                    "all": {"successes": solved, "graded": graded, **bounds(overall.interval)},
                }
            )
        if points:
            name = one.home.rpartition("/")[2] or "iterations"
            title = _TITLES.get(one.split, name)
            if several_homes and one.split:
                title = f"{name}: {title}"
            told.append({"title": title, "split": one.split, "after": one.shift, "points": points})
    kept = sorted(tasks, key=lambda task: (_latest(tasks[task]), task))[:MOST_TASKS]
    return {
        "series": told,
        "tasks": [{"task": task, "rates": tasks[task]} for task in sorted(kept)],
        "left_out": len(tasks) - len(kept),
        "gradient": [
            {"title": f"{name}: policy gradient" if several_homes else "policy gradient",
             "points": points}
            for name, points in _gradients(every)
        ],
    }  # fmt: skip


def _gradients(every: Iterable[Series]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each loop's name and what its trainings on groups measured, by iteration."""
    from webtraj.loop.metrics import read_lines

    for one in every:
        if one.split != "train" or is_url(one.home):
            continue
        try:
            lines = read_lines(Path(one.home) / _METRICS)
        except (errors.CorruptDataError, OSError):
            continue  # A resumed loop makes the file again.
        points = []
        for line in lines:
            told, number = line.get("policy_gradient"), line["iteration"]
            shown = one.recorded.get(number)
            if isinstance(told, Mapping) and shown:
                values = {
                    name: float(told[name])
                    for name in _MEASURED
                    if isinstance(told.get(name), int | float)
                }
                where = {"at": number, "dataset": shown.name, "iteration": number}
                points.append({**where, **values})
        if points:
            yield one.home.rpartition("/")[2], points


def _latest(rates: list[list[Any]]) -> float:
    """Return a task's latest success rate in the first series that has the task."""
    first = rates[0][0]
    *_, last = (rate for rate in rates if rate[0] == first)
    return float(last[2] / last[3])
