"""`MetricsReport`: metrics of many episodes, in total and by group.

`metrics.json`, beside a run's plan, holds a report::

    {"kind": "metrics", "version": 1, "webtraj_version": "0.2.0", "source": "...", "run": "...",
     "planned": 64, "played": 64, "unreadable": [],
     "overall": {"crash_rule": "typed", "total": 66, ...},
     "by": {"task": {"miniwob/click-test": {...}, ...}, "level": {...}, ...},
     "left_out": []}

The fields of `overall`, and of each group in `by`, are those of `RolloutMetrics`. A rate has its
`value`, `numerator` and `denominator`, and `low` and `high`, the ends of its 95 % interval. Unknown
values are null. Within a version, names do not change but may be added. Readers must reject other
versions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

import webtraj
from webtraj import datasets, errors
from webtraj.agents.models.accounting import Price
from webtraj.datasets.progress import count_items
from webtraj.metrics.facts import CrashRule, EpisodeFacts, Origin, check_rule, step_facts
from webtraj.metrics.tally import RolloutMetrics, Tally
from webtraj.runs.run import EpisodeResult, Run, run_ids
from webtraj.store import records
from webtraj.store.tries import find_superseded, pick_counting
from webtraj.trajectory import Count, counts_for_agent

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.datasets.place import Place
    from webtraj.store.index import EpisodeSummary
    from webtraj.store.storage import Storage
    from webtraj.trajectory import EpisodeTrajectory

__all__ = [
    "DEFAULT_GROUPINGS",
    "GROUPINGS",
    "MAX_GROUPS",
    "Measuring",
    "MetricsReport",
    "measure",
    "measure_results",
    "measure_trajectories",
    "metrics_key",
    "plain",
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
    "perturbation": lambda facts: facts.perturbation or ("none" if facts.steps else "unknown"),
}
"""Groupings of episodes, by name."""

DEFAULT_GROUPINGS = ("task", "group", "site", "difficulty", "level", "policy")

_TIMED = ("policy", "run")
"""Groupings whose groups have the machine to themselves, so that wall time is meaningful."""

MAX_GROUPS = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReport:
    """Metrics of many episodes."""

    overall: RolloutMetrics
    """Metrics of all episodes."""
    by: Mapping[str, Mapping[str, RolloutMetrics]] = dataclasses.field(default_factory=dict)
    """Metrics by grouping and group: `by["task"]["miniwob/click-test"]`."""
    source: str = ""
    """The measured dataset."""
    run: str = ""
    """The run, if all episodes are of one run."""
    planned: int | None = None
    """Rows in the run's plan."""
    played: int | None = None
    """Rows of the plan with a try that counts."""
    unreadable: tuple[str, ...] = ()
    """Ids of episodes whose steps could not be read; they count by their summaries only."""
    left_out: tuple[str, ...] = ()
    """Groupings left out because they have too many groups."""

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data, the content of `metrics.json`."""
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
    """Builds a report from episodes that are added one by one.

    Args:
        by: Groupings, from `GROUPINGS`.
        crash_rule: Rule that decides which episodes crashed: "typed" or "webgym".
        ks: Values of k for pass@k and pass^k. Default: 1, 2, 4, 8 and so on, up to the number of
            attempts.
        prices: Prices of models, as `accounting.account_for` takes them.
        max_groups: Leave out groupings with more groups than this, to bound memory; None keeps all.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    def __init__(
        self,
        *,
        by: Iterable[str] = DEFAULT_GROUPINGS,
        crash_rule: CrashRule = "typed",
        ks: Iterable[int] | None = None,
        prices: Mapping[str, Price] | None = None,
        max_groups: int | None = MAX_GROUPS,
    ) -> None:
        self._by = tuple(dict.fromkeys(by))
        for name in self._by:
            if name not in GROUPINGS:
                raise errors.InvalidInputError(
                    f"Cannot group episodes by {name!r:.60}; expected one of "
                    f"{', '.join(GROUPINGS)}."
                )
        self._rule = check_rule(crash_rule)
        self._ks = None if ks is None else tuple(ks)
        for k in self._ks or ():
            if k < 1:
                raise errors.InvalidInputError(
                    f"The k of pass@k and pass^k must be 1 or more; got {k}."
                )
        self.prices = prices
        self._max_groups = max_groups
        self._overall = self._tally()
        self._groups: dict[str, dict[str, Tally]] = {name: {} for name in self._by}
        self._left_out: list[str] = []
        self._unreadable: list[str] = []

    def add(self, facts: EpisodeFacts) -> None:
        """Add an episode.

        Raises:
            InvalidInputError: The crash rule needs the episode's steps, which were not read.
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
        """Add an episode whose record could not be read, and list it in the report.

        It is counted by its summary, except under WebGym's crash rule, which needs the steps.
        """
        self._unreadable.append(facts.episode_id)
        if self._rule == "typed":
            self.add(facts)

    def report(self, *, wall_seconds: float | None = None, **about: Any) -> MetricsReport:
        """Return the report of the episodes added so far.

        Args:
            wall_seconds: Duration, if known better than from the episodes' times.
            about: The report's fields that describe the source.
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
    """Sort numbers by size, levels by difficulty, and everything else by name.

    >>> sorted(["unknown", "10", "hard", "9", "easy"], key=_in_order)
    ['9', '10', 'easy', 'hard', 'unknown']
    """
    if key.isdecimal():
        return (0, int(key), key)
    return (1, _LEVELS.index(key), key) if key in _LEVELS else (2, 0, key)


# `metrics.json`, kept beside a run's plan.


def metrics_key(run: Run) -> str:
    """Return the key of a run's metrics in its dataset."""
    return f"runs/{run.run_id}/metrics.json"


def to_bytes(report: MetricsReport, *, indent: bool = True) -> bytes:
    """Return the content of a report's file, or one line of JSON with `indent=False`.

    Invalid Unicode becomes question marks, and integers too large for JSON readers become null:
    imported episodes may have either.
    """
    option = orjson.OPT_INDENT_2 if indent else 0
    return orjson.dumps(plain(report.to_data()), option=option) + b"\n"


# Data that every JSON reader accepts.

_LARGEST = 2**63 - 1


def plain(value: Any) -> Any:
    r"""Return JSON data with valid Unicode, and None for numbers that JSON cannot hold.

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


def write_metrics(run: Run, report: MetricsReport) -> None:
    """Write a run's metrics, replacing earlier ones.

    Raises:
        StorageError: The metrics cannot be written; the earlier ones are kept.
    """
    run.storage.write(metrics_key(run), to_bytes(report))


def read_metrics(run: Run) -> Mapping[str, Any]:
    """Return the content of a run's `metrics.json`.

    Raises:
        StorageMissingError: The file does not exist; `webtraj metrics` makes it.
        CorruptDataError: The file is not a metrics report.
        UnsupportedSchemaError: The file was written by a newer webtraj.
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
            f"Cannot read metrics from {key!r} in {run.storage.url!r}: {error!r:.200}. Write them "
            "again with `webtraj metrics --write`."
        ) from error
    if header.version > VERSION:
        raise errors.UnsupportedSchemaError(
            f"{key!r} has version {header.version}; this webtraj reads up to {VERSION}. Install a "
            "newer webtraj."
        )
    metrics: dict[str, Any] = data
    return metrics


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    kind: str
    version: Count


# Measuring: a dataset, one of its runs, or results, in constant memory.

_EPISODES_AHEAD = 8


def measure(
    dataset: Dataset | Place,
    *,
    run: str | None = None,
    steps: bool = True,
    plans: Storage | None = None,
    **options: Any,
) -> MetricsReport:
    """Return the metrics of a dataset's episodes, or of one of its runs.

    The tasks' difficulty and domain come from the plans of the dataset's runs.

    Args:
        dataset: The dataset, part of one, or its folder or URL.
        run: A run's id, or "last" for the latest.
        steps: Whether to read the episodes themselves. If not, only the index is read, and metrics
            that need steps are null. An unreadable episode is listed and counts by its summary.
        plans: The storage with the runs' plans, if it is not the dataset's own. For a processed
            dataset, this is the storage of its source.
        options: Options of `Measuring`: `by`, `crash_rule`, `ks`, `prices`, `max_groups`.

    Raises:
        InvalidInputError: There is no such run, or an option is invalid.
        StorageError: The dataset cannot be read.
    """
    measuring = Measuring(**options)
    if not isinstance(dataset, datasets.Dataset):
        dataset = datasets.open_dataset(dataset, blobs="lazy")
    storage = dataset.place.storage if plans is None else plans
    known = _Plans(storage, run_ids(storage))
    about: dict[str, Any] = {"source": dataset.url}
    summaries = dataset.summaries
    if run is not None:
        chosen = Run.find(storage, run)
        summaries = [s for s in summaries if chosen.place_of(s.episode_id) is not None]
        rows = {
            chosen.place_of(one.episode_id)
            for one in summaries
            if counts_for_agent(one.outcome, one.end_reason)
        }
        about |= {
            "run": chosen.run_id,
            "planned": known.length(chosen.run_id),
            "played": len({place[0] for place in rows if place is not None}),
        }
    if steps:
        _add_records(measuring, dataset, summaries, known)
    else:
        for summary in summaries:
            facts = EpisodeFacts.of_summary(summary, known.origin(summary.episode_id))
            measuring.add(_mark_superseded(facts, dataset))
    return measuring.report(**about)


def measure_results(
    results: Iterable[EpisodeResult],
    *,
    policy: str = "",
    seconds: float | None = None,
    **options: Any,
) -> MetricsReport:
    """Return the metrics of results, such as `RolloutSummary.results`, without their steps.

    Args:
        results: The results of one run, every try.
        policy: The agent's name.
        seconds: Duration of the rollout.
        options: Options of `Measuring`.

    Raises:
        InvalidInputError: An option is invalid, or the crash rule needs steps.
    """
    measuring = Measuring(**options)
    played = tuple(results)
    counted = {id(result) for result in pick_counting(played)}
    for result in played:
        facts = EpisodeFacts.of_result(result, policy)
        superseded = id(result) not in counted
        measuring.add(dataclasses.replace(facts, superseded=superseded))
    return measuring.report(wall_seconds=seconds)


def measure_trajectories(
    trajectories: Iterable[EpisodeTrajectory], **options: Any
) -> MetricsReport:
    """Return the metrics of episodes from any source.

    Raises:
        InvalidInputError: An option is invalid.
    """
    measuring = Measuring(**options)
    found = [
        EpisodeFacts.of_trajectory(one, steps=step_facts(one, measuring.prices))
        for one in trajectories
    ]
    gone = find_superseded(found)
    for facts in found:
        measuring.add(dataclasses.replace(facts, superseded=facts.episode_id in gone))
    return measuring.report()


class _Plans:
    """The plans of a dataset's runs, each read when first needed."""

    def __init__(self, storage: Storage, known: Sequence[str]) -> None:
        self._storage = storage
        self._known = dict.fromkeys(known)
        self._rows: dict[str, list[Origin]] = {}

    def length(self, run_id: str) -> int:
        """Return the number of rows in a run's plan."""
        return len(self._origins(run_id))

    def origin(self, episode_id: str) -> Origin | None:
        """Return an episode's origin; None if it belongs to no run of the dataset."""
        run_id = episode_id.rsplit("-", 2)[0]
        place = Run(self._storage, run_id).place_of(episode_id) if run_id in self._known else None
        if place is None:
            return None
        row, number = place
        origins = self._origins(run_id)
        if row >= len(origins):
            return None
        return dataclasses.replace(origins[row], number=number) if number else origins[row]

    def _origins(self, run_id: str) -> list[Origin]:
        if run_id not in self._rows:
            plan = Run(self._storage, run_id).read_plan()
            self._rows[run_id] = [Origin.of(planned, run_id, 0) for planned in plan]
        return self._rows[run_id]


def _add_records(
    measuring: Measuring, dataset: Dataset, summaries: Sequence[EpisodeSummary], plans: _Plans
) -> None:
    """Read and add episodes; those of a bucket are read ahead."""
    lazy = dataset.of(summaries, blobs="lazy")

    def read(summary: EpisodeSummary) -> EpisodeFacts | None:
        origin = plans.origin(summary.episode_id)
        try:
            trajectory = lazy[summary.episode_id]
            steps = step_facts(trajectory, measuring.prices)
        except errors.DatasetError:
            return None
        return EpisodeFacts.of_trajectory(trajectory, origin, steps=steps)

    read_all = dataset.place.map(read, summaries, workers=_EPISODES_AHEAD)
    found = zip(summaries, read_all, strict=True)
    sized = count_items(found, "Measuring episodes", len(summaries), size=lambda item: item[0].size)
    for summary, facts in sized:
        if facts is None:
            facts = EpisodeFacts.of_summary(summary, plans.origin(summary.episode_id))
            measuring.add_unreadable(_mark_superseded(facts, dataset))
        else:
            measuring.add(_mark_superseded(facts, dataset))


def _mark_superseded(facts: EpisodeFacts, dataset: Dataset) -> EpisodeFacts:
    """Return the facts, marked if another try counts instead."""
    gone = facts.episode_id in dataset.superseded
    return dataclasses.replace(facts, superseded=True) if gone else facts
