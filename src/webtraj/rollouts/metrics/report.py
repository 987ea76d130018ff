"""`MetricsReport`: the metrics of many episodes, together and by what they have in common.

`metrics.json`, beside a run's plan, holds a report::

    {"kind": "metrics", "version": 1, "webtraj_version": "0.2.0", "source": "...", "run": "...",
     "planned": 64, "played": 64, "unreadable": [],
     "overall": {"crash_rule": "typed", "total": 66, ...},
     "by": {"task": {"miniwob/click-test": {...}, ...}, "level": {...}, ...},
     "left_out": []}

What stands in `overall`, and for each group in `by`, are the fields of `RolloutMetrics` by their
names. A rate has its `value`, `numerator` and `denominator`, and `low` and `high`, the ends of its
95 % interval; a value that is not known is null. Names do not change within a version; new ones
may come. What has another version is not to be read by guessing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

import webtraj
from webtraj import errors
from webtraj.agents.models.accounting import Price
from webtraj.rollouts.metrics.crashes import CrashRule, check_rule
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.tally import RolloutMetrics, Tally
from webtraj.store import records
from webtraj.trajectory import Count

if TYPE_CHECKING:
    from webtraj.rollouts.runs import Run

__all__ = [
    "DEFAULT_GROUPINGS",
    "GROUPINGS",
    "Measuring",
    "MetricsReport",
    "metrics_key",
    "read_metrics",
    "to_bytes",
    "write_metrics",
]

VERSION = 1

GROUPINGS: Mapping[str, Callable[[EpisodeFacts], str]] = {
    "task": lambda facts: facts.task,
    "group": lambda facts: facts.task_group,
    "site": lambda facts: facts.origin.site,
    "difficulty": lambda facts: str(facts.origin.difficulty or "unknown"),
    "level": lambda facts: facts.origin.level,
    "policy": lambda facts: facts.policy,
    "run": lambda facts: facts.origin.run,
}
"""What episodes can be grouped by."""

DEFAULT_GROUPINGS = ("task", "group", "site", "difficulty", "level", "policy")

_TIMED = ("policy", "run")
"""What has the machine to itself, so that its wall time means something."""

_MAX_GROUPS = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """The metrics of many episodes."""

    overall: RolloutMetrics
    """Of all of them."""
    by: Mapping[str, Mapping[str, RolloutMetrics]] = dataclasses.field(default_factory=dict)
    """Of those that have something in common: `by["task"]["miniwob/click-test"]`."""
    source: str = ""
    """The dataset that they are from."""
    run: str = ""
    """The run, if it is one run's episodes."""
    planned: int | None = None
    """How many rows that run's plan has,"""
    played: int | None = None
    """and of how many of them there is an episode."""
    unreadable: tuple[str, ...] = ()
    """Episodes whose steps could not be read, and that count by their summaries alone."""
    left_out: tuple[str, ...] = ()
    """Groupings that had more groups than were wanted."""

    def to_data(self) -> dict[str, Any]:
        """Returns the report as JSON data: what `metrics.json` holds."""
        return {
            "kind": "metrics",
            "version": VERSION,
            "webtraj_version": webtraj.__version__,
            "source": self.source,
            "run": self.run,
            "planned": self.planned,
            "played": self.played,
            "unreadable": list(self.unreadable),
            "overall": self.overall.to_data(),
            "by": {
                name: {key: metrics.to_data() for key, metrics in groups.items()}
                for name, groups in self.by.items()
            },
            "left_out": list(self.left_out),
        }


class Measuring:
    """Makes a report of episodes that come one by one.

    Args:
        by: What to group by, of `GROUPINGS`.
        crash_rule: By which rule an episode is said to have crashed: "typed" or "webgym".
        ks: Which pass@k to give; by default 1, 2, 4, 8 and so on, as far as there are attempts.
        prices: What models cost, as `accounting.account_for` takes them.
        max_groups: A grouping with more groups is left out, so that memory stays bounded; None
            keeps them all.

    Raises:
        InvalidInputError: An argument is wrong.
    """

    def __init__(
        self,
        *,
        by: Iterable[str] = DEFAULT_GROUPINGS,
        crash_rule: CrashRule = "typed",
        ks: Iterable[int] | None = None,
        prices: Mapping[str, Price] | None = None,
        max_groups: int | None = _MAX_GROUPS,
    ) -> None:
        self._by = tuple(dict.fromkeys(by))
        for name in self._by:
            if name not in GROUPINGS:
                raise errors.InvalidInputError(
                    f"Episodes cannot be grouped by {name!r:.60}; expected one of "
                    f"{', '.join(GROUPINGS)}."
                )
        self._rule = check_rule(crash_rule)
        self._ks = None if ks is None else tuple(ks)
        if any(k < 1 for k in self._ks or ()):
            raise errors.InvalidInputError(f"pass@k takes k from 1; got {self._ks}.")
        self.prices = prices
        self._max_groups = max_groups
        self._overall = self._tally()
        self._groups: dict[str, dict[str, Tally]] = {name: {} for name in self._by}
        self._left_out: list[str] = []
        self._unreadable: list[str] = []

    def add(self, facts: EpisodeFacts) -> None:
        """Takes an episode.

        Raises:
            InvalidInputError: The crash rule needs its steps, and they were not read.
        """
        self._overall.add(facts)
        for name, groups in self._groups.items():
            if name in self._left_out:
                continue
            key = GROUPINGS[name](facts)
            if key not in groups:
                if len(groups) == self._max_groups:
                    self._left_out.append(name)
                    groups.clear()
                    continue
                groups[key] = self._tally(timed=name in _TIMED)
            groups[key].add(facts)

    def add_unreadable(self, facts: EpisodeFacts) -> None:
        """Takes an episode whose record could not be read, and names it in the report.

        It counts by its summary, but not by WebGym's crash rule, which cannot be told without
        steps.
        """
        self._unreadable.append(facts.episode_id)
        if self._rule == "typed":
            self.add(facts)

    def report(self, *, wall_seconds: float | None = None, **about: Any) -> MetricsReport:
        """Returns the report of what was taken so far.

        Args:
            wall_seconds: How long it took, if that is known better than by the episodes' times.
            about: What the report says of where they are from.
        """
        by = {
            name: {key: groups[key].metrics() for key in sorted(groups, key=_in_order)}
            for name, groups in self._groups.items()
            if name not in self._left_out
        }
        return MetricsReport(
            overall=self._overall.metrics(wall_seconds=wall_seconds),
            by=by,
            unreadable=tuple(self._unreadable),
            left_out=tuple(self._left_out),
            **about,
        )

    def _tally(self, *, timed: bool = True) -> Tally:
        return Tally(self._rule, ks=self._ks, priced=self.prices is not None, timed=timed)


_LEVELS = ("easy", "medium", "hard")


def _in_order(key: str) -> tuple[Any, ...]:
    """Orders numbers by size, levels by how hard they are, and all else by name.

    >>> sorted(["unknown", "10", "hard", "9", "easy"], key=_in_order)
    ['9', '10', 'easy', 'hard', 'unknown']
    """
    if key.isdecimal():
        return (0, int(key), key)
    return (1, _LEVELS.index(key), key) if key in _LEVELS else (2, 0, key)


# `metrics.json`, kept beside a run's plan.


def metrics_key(run: Run) -> str:
    """Returns the key of a run's metrics in its dataset."""
    return f"runs/{run.run_id}/metrics.json"


def to_bytes(report: MetricsReport, *, indent: bool = True) -> bytes:
    """Returns the content of a report's file, or with `indent=False` one line of JSON.

    Text that is no Unicode has question marks, and a number that JSON's readers cannot hold is
    null: episodes from elsewhere may have either.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    return orjson.dumps(_readable(report.to_data()), option=option) + b"\n"


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    return value


_LARGEST = 2**63 - 1


def write_metrics(run: Run, report: MetricsReport) -> None:
    """Writes a run's metrics, over those that were written before.

    Raises:
        StorageError: They cannot be written; those from before are still there.
    """
    run.storage.write(metrics_key(run), to_bytes(report))


def read_metrics(run: Run) -> Mapping[str, Any]:
    """Returns what a run's `metrics.json` holds.

    Raises:
        StorageMissingError: There is none; `webtraj metrics` makes one.
        CorruptDataError: It is none.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    key = metrics_key(run)
    content = run.storage.read(key)
    try:
        data = orjson.loads(content)
        header = records.read_object(_Header, data)
        if header.kind != "metrics":
            raise ValueError(f"expected the kind 'metrics', got {header.kind!r:.50}")
    except ValueError as error:
        raise errors.CorruptDataError(
            f"{key!r} in {run.storage.url!r} holds no metrics: {error!r:.200}. `webtraj metrics "
            "--write` writes them anew."
        ) from error
    if header.version > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{key!r} has version {header.version}; this webtraj reads up to {VERSION}. Install a "
            "newer one."
        )
    metrics: dict[str, Any] = data
    return metrics


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    kind: str
    version: Count
