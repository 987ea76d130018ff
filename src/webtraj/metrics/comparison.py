"""Compare the metrics of datasets and iterations, and say whether a difference may be chance.

A subject is a dataset, one of its runs, or a loop's save path. It has one point, or one for each
iteration and split. `compare` gives the differences of two points.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import orjson

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.metrics.facts import Fault, fault_of
from webtraj.metrics.live import flat
from webtraj.metrics.metrics_report import MetricsReport, measure
from webtraj.metrics.rates import (
    CONFIDENCE,
    Rate,
    bounds,
    difference_interval,
    mcnemar_p,
    paired_difference_interval,
)
from webtraj.runs.iterations import Iterations, Split
from webtraj.runs.run import Run, run_ids
from webtraj.store.places import open_storage
from webtraj.store.storage import Storage
from webtraj.trajectory import ended_in_error, has_succeeded, name_of_end

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary

__all__ = [
    "Comparison",
    "Difference",
    "Fault",
    "GROUPINGS",
    "PairKey",
    "Pairs",
    "Point",
    "Subject",
    "Verdict",
    "compare",
    "fault_of",
    "subjects_of",
]

GROUPINGS = ("task", "level", "site")
"""The groupings in a report."""

PairKey = tuple[str, int, int]
"""A task, a seed, and the index among the episodes with both; equal in two rollouts of a plan."""

_FAULTS_READ = 500
_METRICS = "metrics.jsonl"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A set of episodes, measured together."""

    label: str
    """Its name among its subject's points; empty if it is the only one."""
    place: str
    """The dataset."""
    report: MetricsReport
    graded: Mapping[PairKey, bool]
    """Whether each graded episode with a seed was a success."""
    faults: Mapping[str, int]
    """Episodes that ended with an error, by kind."""
    examples: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The latest episode of each kind of error."""
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The first message of each kind of error."""
    single: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The episode of each task that has no other."""
    iteration: int | None = None
    split: str = ""
    """The split of an iteration: `train` or `test`."""
    note: str = ""
    """A note for the reader."""

    @property
    def order(self) -> tuple[int, bool]:
        """The sort key: by iteration, with the train split before the test split."""
        return self.iteration or 0, self.split == "test"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A dataset, a run, or a save path with iterations."""

    name: str
    points: tuple[Point, ...]
    """At least one point, the oldest first."""
    numbers: tuple[Mapping[str, float], ...] = ()
    """For a loop: the numbers of each iteration in its `metrics.jsonl`, flattened."""

    @property
    def main(self) -> Point:
        """The main point: the latest, from the test split if there is one."""
        return max(self.points, key=lambda point: (point.split != "train", point.order))

    @property
    def first(self) -> Point:
        """The earliest point of the same split."""
        split = self.main.split
        return min(
            (point for point in self.points if point.split == split), key=lambda point: point.order
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """The episodes to take, and what to read of them."""

    condition: Callable[[EpisodeSummary], bool] | None
    steps: bool
    compared: bool
    options: Mapping[str, Any]


def subjects_of(
    place: str,
    *,
    run: str | None = None,
    each_run: bool = False,
    condition: Callable[[EpisodeSummary], bool] | None = None,
    steps: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    compared: bool = True,
    **options: Any,
) -> tuple[Subject, ...]:
    """Measure a place, and return one subject, or one for each run.

    Args:
        place: A dataset; or a save path with iterations, such as a loop's folder.
        run: Only this run of a dataset: its id, or "last".
        each_run: Whether to return a subject for each run.
        condition: The condition on episodes.
        steps: Whether to read the episodes; if not, metrics that need steps are left out.
        storage_options: For a bucket: the storage options.
        compared: Whether to collect errors and pairs too, for a report. A place without episodes is
            then an error.
        options: Options of `webtraj.metrics.Measuring`; by default `by` is `GROUPINGS`.

    Raises:
        InvalidInputError: There are no episodes, or no such run.
        NotADatasetError: There is neither a dataset nor an iteration.
        StorageError: The place cannot be read.
    """
    options = {"by": GROUPINGS, "max_groups": None, **options}
    reading = _Reading(condition, steps, compared, options)
    try:
        dataset = open_dataset(place, storage_options=storage_options)
    except errors.NotADatasetError:
        subject = _iterations(place, storage_options, reading)
        if subject is None:
            raise
        if run is not None or each_run:
            raise errors.InvalidInputError(
                f"--run and --each-run need a dataset, but {place!r:.200} contains iterations. "
                f"Give one of them, such as {subject.points[-1].place!r:.200}."
            ) from None
        return (subject,)
    if not each_run:
        return (Subject(name=place, points=(_point(dataset, place, reading=reading, run=run),)),)
    known = run_ids(dataset.place.storage)
    if not known:
        raise errors.InvalidInputError(
            f"No runs in {place!r:.200} to compare. Leave out --each-run to measure all its "
            "episodes."
        )
    return tuple(
        Subject(name=one, points=(_point(dataset, place, reading=reading, run=one),))
        for one in known
    )


def _iterations(
    place: str, storage_options: Mapping[str, Any] | None, reading: _Reading
) -> Subject | None:
    """Return the subject of a save path; None if it has no iterations."""
    points: list[Point] = []
    for split in get_args(Split):
        iterations = Iterations(place, split, storage_options)
        for number in iterations.numbers():
            found = _iteration(iterations, number, storage_options, reading)
            points += [] if found is None else [found]
    if not points:
        return None
    numbers = tuple(_loop_numbers(open_storage(place, storage_options)))
    return Subject(
        name=place, points=tuple(sorted(points, key=lambda point: point.order)), numbers=numbers
    )


def _iteration(
    iterations: Iterations,
    number: int,
    storage_options: Mapping[str, Any] | None,
    reading: _Reading,
) -> Point | None:
    """Return an iteration's point; None without episodes."""
    place = iterations.dataset(number)
    dataset = _open(place, storage_options)
    if dataset is None or not len(dataset):
        return None
    note = "judged" if dataset.judgements.episode_ids else ""
    point = _point(dataset, place, reading=reading, plans=dataset.place.storage, note=note)
    return dataclasses.replace(
        point, label=f"{iterations.split} {number}", iteration=number, split=iterations.split
    )


def _open(place: str, storage_options: Mapping[str, Any] | None) -> Dataset | None:
    try:
        return open_dataset(place, storage_options=storage_options)
    except errors.NotADatasetError:
        return None


def _point(
    dataset: Dataset,
    place: str,
    *,
    reading: _Reading,
    run: str | None = None,
    plans: Storage | None = None,
    note: str = "",
) -> Point:
    kept = dataset if reading.condition is None else dataset.filter(reading.condition)
    report = measure(kept, run=run, steps=reading.steps, plans=plans, **reading.options)
    summaries: Sequence[EpisodeSummary] = kept.summaries
    if report.run:
        of_run = Run(dataset.place.storage, report.run)
        summaries = [s for s in summaries if of_run.place_of(s.episode_id) is not None]
    faults, examples, reasons = _faults(dataset, summaries, steps=reading.steps)
    point = Point(
        label="", place=place, report=report, graded={}, faults=faults, examples=examples,
        reasons=reasons, note=note,
    )  # fmt: skip
    if not reading.compared:
        return point
    if not summaries:
        if reading.condition is not None:
            raise errors.InvalidInputError(f"No episode in {place!r:.200} matches. Change --where.")
        raise errors.InvalidInputError(f"No episodes in {place!r:.200}, so nothing to report.")
    if report.unreadable:
        left = f"unreadable episodes: {len(report.unreadable)}; `webtraj verify` shows why"
        note = f"{note}; {left}" if note else left
    graded = _grade(s for s in summaries if s.episode_id not in kept.superseded)
    counts = collections.Counter(summary.task for summary in summaries)
    single = {s.task: s.episode_id for s in summaries if counts[s.task] == 1}
    return dataclasses.replace(point, graded=graded, single=single, note=note)


def _grade(summaries: Iterable[EpisodeSummary]) -> dict[PairKey, bool]:
    seen: collections.Counter[tuple[str, int]] = collections.Counter()
    graded: dict[PairKey, bool] = {}
    for summary in summaries:  # In order of start.
        success = has_succeeded(summary.outcome, summary.end_reason)
        if success is not None and summary.seed is not None:
            key = (summary.task, summary.seed)
            graded[*key, seen[key]] = success
            seen[key] += 1
    return graded


def _faults(
    dataset: Dataset, summaries: Sequence[EpisodeSummary], *, steps: bool
) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    """Return the errors by kind, most frequent first, each with its number, an episode, a message.

    The kind is the outcome if episodes are not read.
    """
    broken = [one for one in summaries if ended_in_error(one.outcome, one.end_reason)]
    counts: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    reasons: dict[str, str] = {}
    lazy = dataset.of(broken, blobs="lazy")
    for number, summary in enumerate(broken):
        kind = message = ""
        if steps and number < _FAULTS_READ:
            try:
                fault = fault_of(lazy[summary.episode_id])
                kind, message = fault.kind, fault.message
            except errors.DatasetError:
                pass
        kind = kind or name_of_end(summary.outcome, summary.end_reason)
        counts[kind] += 1
        examples[kind] = summary.episode_id
        if message:
            reasons.setdefault(kind, message)
    return dict(counts.most_common()), examples, reasons


def _loop_numbers(storage: Storage) -> Iterator[dict[str, float]]:
    """Yield the numbers of a loop's iterations; an incomplete last line is skipped."""
    try:
        content = storage.read(_METRICS)
    except errors.StorageMissingError:
        return
    for line in content.split(b"\n")[:-1]:
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        numbers = flat(data, separator=".", whole=False) if isinstance(data, dict) else {}
        if "iteration" in numbers:
            yield numbers


# Two points compared.


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The rate of the second point minus the rate of the first."""

    name: str
    first: Rate
    second: Rate

    @property
    def value(self) -> float | None:
        """The difference, from -1 to 1; None if either rate is unknown."""
        before, after = self.first.value, self.second.value
        return None if before is None or after is None else after - before

    @property
    def interval(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval for independent episodes."""
        return difference_interval(self.first.counts, self.second.counts)

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return _excludes_0(self.interval)

    def to_data(self) -> dict[str, Any]:
        """Return the difference as JSON data."""
        return {
            "name": self.name,
            "first": self.first.to_data(),
            "second": self.second.to_data(),
            "difference": self.value,
            **bounds(self.interval),
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of episodes with the same task and seed in both points."""

    both: int
    """Pairs in which both succeeded."""
    first_only: int
    """Pairs in which only the first succeeded."""
    second_only: int
    """Pairs in which only the second succeeded."""
    neither: int
    """Pairs in which neither succeeded."""
    gained: Mapping[str, int]
    """Pairs in which only the second succeeded, by task."""
    lost: Mapping[str, int]
    """Pairs in which only the first succeeded, by task."""

    @property
    def number(self) -> int:
        """The number of pairs."""
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def value(self) -> float:
        """The second's success rate minus the first's."""
        return (self.second_only - self.first_only) / self.number

    @property
    def interval(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval for pairs."""
        return paired_difference_interval(
            self.both, self.first_only, self.second_only, self.neither
        )

    @property
    def p(self) -> float:
        """The p-value of McNemar's exact test."""
        return mcnemar_p(self.first_only, self.second_only)

    @property
    def is_clear(self) -> bool:
        """Whether the exact test rejects equal chances, and the interval excludes 0."""
        return self.p < 1 - CONFIDENCE and _excludes_0(self.interval)

    def to_data(self) -> dict[str, Any]:
        """Return the pairs as JSON data."""
        numbers = {"difference": self.value, **bounds(self.interval), "p": self.p}
        return {**dataclasses.asdict(self), "pairs": self.number, **numbers}


def _excludes_0(ends: tuple[float, float] | None) -> bool:
    return ends is not None and (ends[0] > 0 or ends[1] < 0)


class Verdict(enum.StrEnum):
    """Whether the second point of a comparison succeeds more often than the first."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "no clear difference"
    """Chance may explain the difference, or there is none."""
    UNKNOWN = "unknown"
    """One of them has no graded episode."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two points."""

    first_name: str
    second_name: str
    first: Point
    second: Point
    rates: tuple[Difference, ...]
    """The differences over all episodes: success, crashed, blocked."""
    groups: Mapping[str, tuple[Difference, ...]]
    """The success rates of shared groups, by grouping; the largest differences first."""
    pairs: Pairs | None
    """The pairs; None if fewer than half of the smaller point's graded episodes have one."""

    @property
    def success(self) -> Difference | Pairs:
        """The difference in success that counts: of the pairs if any, otherwise of all episodes."""
        return self.rates[0] if self.pairs is None else self.pairs

    @property
    def verdict(self) -> Verdict:
        """The verdict on the difference in success, at 95 % confidence."""
        value = self.success.value
        if value is None:
            return Verdict.UNKNOWN
        if not self.success.is_clear:
            return Verdict.UNCLEAR
        return Verdict.BETTER if value > 0 else Verdict.WORSE

    def to_data(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return {
            "first": self.first_name,
            "second": self.second_name,
            "verdict": self.verdict,
            "rates": [difference.to_data() for difference in self.rates],
            "groups": {
                by: [difference.to_data() for difference in found]
                for by, found in self.groups.items()
            },
            "pairs": None if self.pairs is None else self.pairs.to_data(),
        }


def compare(first_name: str, first: Point, second_name: str, second: Point) -> Comparison:
    """Compare the second point with the first."""
    one, other = first.report.overall, second.report.overall
    rates = (
        Difference("success rate", one.success_rate, other.success_rate),
        Difference("crashed rate", one.crashed_rate, other.crashed_rate),
        Difference("blocked rate", one.blocked_rate, other.blocked_rate),
    )
    return Comparison(
        first_name=first_name,
        second_name=second_name,
        first=first,
        second=second,
        rates=rates,
        groups={by: _groups(first, second, by) for by in first.report.by if by != "site"},
        pairs=_pairs(
            first.graded,
            second.graded,
            least=min(one.success_rate.denominator, other.success_rate.denominator) / 2,
        ),
    )


def _groups(first: Point, second: Point, by: str) -> tuple[Difference, ...]:
    before, after = first.report.by[by], second.report.by.get(by, {})
    found = [
        Difference(name, metrics.success_rate, after[name].success_rate)
        for name, metrics in before.items()
        if name in after
    ]
    known = [difference for difference in found if difference.value is not None]
    return tuple(sorted(known, key=lambda difference: -abs(difference.value or 0.0)))


def _pairs(
    first: Mapping[PairKey, bool], second: Mapping[PairKey, bool], *, least: float
) -> Pairs | None:
    """Return the pairs, or None if there are fewer than `least`, which say little."""
    shared = [key for key in first if key in second]
    if not shared or len(shared) < least:
        return None
    counts = collections.Counter((first[key], second[key]) for key in shared)
    gained = collections.Counter(key[0] for key in shared if second[key] and not first[key])
    lost = collections.Counter(key[0] for key in shared if first[key] and not second[key])
    return Pairs(
        both=counts[True, True],
        first_only=counts[True, False],
        second_only=counts[False, True],
        neither=counts[False, False],
        gained=dict(gained.most_common()),
        lost=dict(lost.most_common()),
    )
