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
from webtraj.metrics.success import SuccessPoint, SuccessSeries, TaskSuccess, series_data
from webtraj.store.places import is_url
from webtraj.view.source import Source
from webtraj.view.table import Table

__all__ = ["iterations_data"]

_SPLITS = {"train_trajectories": "train", "test_trajectories": "test"}
_PROCESSED = "processed"
_METRICS = "metrics.jsonl"
_MEASURED = (
    "reward", "groups", "groups_kept", "ratio", "clipped", "entropy", "mismatch", "staleness"
)  # fmt: skip


@dataclasses.dataclass(slots=True)
class _Series:
    """Successive iterations of one split."""

    home: str
    """The folder that holds them: a path or URL."""
    split: str
    """`train`, `test`, or empty without splits."""
    recorded: dict[int, Source] = dataclasses.field(default_factory=dict)


def _series_of(sources: Iterable[Source]) -> list[_Series]:
    """Return the series that datasets form, in their order; evaluations come first."""
    found: dict[tuple[str, str], _Series] = {}
    for source in sources:
        if source.iteration is None:
            continue
        layout = source.place.layout
        url = str(layout.root.absolute()) if layout else source.place.url
        *above, folder = ["", *url.rstrip("/").split("/")[:-1]]
        split = _SPLITS.get(folder, "")
        home = "/".join(above[1:] if split else [*above[1:], folder])
        series = found.setdefault((home, split), _Series(home, split))
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
    """Return success by iteration and task as JSON data, with metrics of a loop's trainings.

    The data is `series_data` and, from `policy_gradient` in a loop's `metrics.jsonl`::

        {"gradient": [{"title": "policy gradient", "points": [
           {"at": 2, "dataset": "train-iteration_0002", "iteration": 2, "reward": 0.41,
            "groups": 24, "groups_kept": 16, "ratio": 1.0, ...}]}]}

    Args:
        table: The episodes.
        sources: The episodes' datasets.
        writing: The names of datasets that are being written.
    """
    every = _series_of(sources)
    rates = table.success({source.name for one in every for source in one.recorded.values()})
    now = set(writing)
    several_homes = len({one.home for one in every}) > 1
    measured = (
        SuccessSeries(
            home=one.home,
            split=one.split,
            points=tuple(
                SuccessPoint(
                    iteration=number,
                    dataset=source.name,
                    success=TaskSuccess(rates.get(source.name, {})),
                    writing=source.name in now,
                )
                for number, source in one.recorded.items()
            ),
        )
        for one in every
    )
    return {
        **series_data(measured),
        "gradient": [
            {"title": f"{name}: policy gradient" if several_homes else "policy gradient",
             "points": points}
            for name, points in _gradients(every)
        ],
    }  # fmt: skip


def _gradients(every: Iterable[_Series]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each loop's name and its policy-gradient measurements, by iteration."""
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
