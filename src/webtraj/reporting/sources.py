"""Measure the subjects of a report.

A subject is a dataset, one of its runs, or a loop's save path. It has one point, or one for each
iteration and split.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import orjson

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.rollouts.iterations import Iterations, Split
from webtraj.rollouts.metrics import MetricsReport, measure
from webtraj.rollouts.metrics.measuring import run_ids
from webtraj.rollouts.runs import Run
from webtraj.store.blobs import LazyBlob
from webtraj.store.places import Storage, open_storage
from webtraj.trajectory import INFRASTRUCTURE_FAILURES, EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.store.index import EpisodeSummary
    from webtraj.trajectory import EpisodeTrajectory

__all__ = [
    "BROKEN",
    "Fault",
    "GROUPINGS",
    "PairKey",
    "Point",
    "Subject",
    "fault_of",
    "is_fault",
    "subjects_of",
]

# The error that ended an episode, as a kind and a message.

BROKEN = (*INFRASTRUCTURE_FAILURES, Outcome.AGENT_ERROR)
"""The outcomes of episodes that ended with an error."""

_LONGEST = 400


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """An error that ended an episode."""

    kind: str
    """The error's type without its module, such as `BrowserCrashedError`; or the outcome or end
    reason, such as `crashed`."""
    message: str = ""
    """The start of the message's first line."""


def is_fault(summary: EpisodeSummary) -> bool:
    """Return whether an episode ended with an error, according to its summary."""
    return summary.outcome in BROKEN or summary.end_reason in (EndReason.ERRORED, EndReason.CRASHED)


def fault_of(trajectory: EpisodeTrajectory) -> Fault:
    """Return the error that ended an episode."""
    end = trajectory.end
    error = None if end is None else end.error
    if error is not None and error.type:
        return Fault(str(error.type).rpartition(".")[2], _first_line(error.message))
    if trajectory.outcome is Outcome.JUDGE_ERROR:
        judgements = () if end is None else end.judgements
        return Fault("judge_error", _first_line(judgements[-1].reason) if judgements else "")
    if trajectory.outcome in BROKEN:
        return Fault(trajectory.outcome.name.lower())
    return Fault(trajectory.end_reason.name.lower())


def _first_line(message: object) -> str:
    text = message.load() if isinstance(message, LazyBlob) else message
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return str(text).strip().partition("\n")[0][:_LONGEST]


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
    """The episodes to take, and whether to read their steps."""

    condition: Callable[[EpisodeSummary], bool] | None
    steps: bool


def subjects_of(
    place: str,
    *,
    run: str | None = None,
    each_run: bool = False,
    condition: Callable[[EpisodeSummary], bool] | None = None,
    steps: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[Subject, ...]:
    """Measure a place, and return one subject, or one for each run.

    Args:
        place: A dataset; or a save path with iterations, such as a loop's folder.
        run: Only this run of a dataset: its id, or "last".
        each_run: Whether to return a subject for each run.
        condition: The condition on episodes.
        steps: Whether to read the episodes; if not, metrics that need steps are left out.
        storage_options: For a bucket: the storage options.

    Raises:
        InvalidInputError: There are no episodes, or no such run.
        NotADatasetError: There is neither a dataset nor an iteration.
        StorageError: The place cannot be read.
    """
    reading = _Reading(condition, steps)
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
            f"No runs in {place!r:.200} to compare. Leave out --each-run to report all episodes."
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
    """Return an iteration's point, from the judged dataset if any; None without episodes."""
    recorded = _open(iterations.dataset(number), storage_options)
    if recorded is None or not len(recorded):
        return None
    judged = _open(iterations.judged(number), storage_options)
    short = len(recorded) - len(judged or ())
    note = f"judged; {short} episodes not judged" if short > 0 else "judged"
    dataset = judged if judged is not None and len(judged) else recorded
    point = _point(
        dataset,
        iterations.dataset(number) if dataset is recorded else iterations.judged(number),
        reading=reading,
        plans=recorded.place.storage,
        note="" if dataset is recorded else note,
    )
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
    report = measure(kept, run=run, steps=reading.steps, plans=plans, by=GROUPINGS, max_groups=None)
    summaries: Sequence[EpisodeSummary] = kept.summaries
    if report.run:
        of_run = Run(dataset.place.storage, report.run)
        summaries = [s for s in summaries if of_run.place_of(s.episode_id) is not None]
    if not summaries:
        if reading.condition is not None:
            raise errors.InvalidInputError(f"No episode in {place!r:.200} matches. Change --where.")
        raise errors.InvalidInputError(f"No episodes in {place!r:.200}, so nothing to report.")
    if report.unreadable:
        left = f"{len(report.unreadable)} episodes unreadable; `webtraj verify` shows why"
        note = f"{note}; {left}" if note else left
    faults, examples = _faults(dataset, summaries, steps=reading.steps)
    return Point(
        label="",
        place=place,
        report=report,
        graded=_graded(summaries),
        faults=faults,
        examples=examples,
        note=note,
    )


def _graded(summaries: Sequence[EpisodeSummary]) -> dict[PairKey, bool]:
    seen: collections.Counter[tuple[str, int]] = collections.Counter()
    graded: dict[PairKey, bool] = {}
    for summary in summaries:  # In order of start.
        if summary.outcome in (Outcome.SUCCESS, Outcome.FAILURE) and summary.seed is not None:
            key = (summary.task, summary.seed)
            graded[*key, seen[key]] = summary.outcome is Outcome.SUCCESS
            seen[key] += 1
    return graded


def _faults(
    dataset: Dataset, summaries: Sequence[EpisodeSummary], *, steps: bool
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the number of errors by kind, the most frequent first, and an episode of each.

    The kind is the outcome if the episode is not read.
    """
    broken = [summary for summary in summaries if is_fault(summary)]
    counts: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    lazy = Dataset(dataset.place, broken, "lazy")
    for number, summary in enumerate(broken):
        kind = ""
        if steps and number < _FAULTS_READ:
            try:
                kind = fault_of(lazy[summary.episode_id]).kind
            except errors.DatasetError:
                kind = ""
        known = summary.outcome is not Outcome.UNKNOWN
        kind = kind or (summary.outcome if known else summary.end_reason).name.lower()
        counts[kind] += 1
        examples[kind] = summary.episode_id
    return dict(counts.most_common()), examples


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
        numbers = dict(_flat(data)) if isinstance(data, dict) else {}
        if "iteration" in numbers:
            yield numbers


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield a line's numbers, with a rate as its value. Skip `by_*`, which are measured here."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and "value" in value:
            value = value["value"]
        if isinstance(value, Mapping) and not key.startswith("by_"):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, float(value)
