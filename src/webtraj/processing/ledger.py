"""The ledger of a processed dataset: the result for each recorded episode.

::

    processing/pipeline.json                  the pipeline that makes this dataset
    processing/<hash>/ledger/<writer>.jsonl   one line per finished episode
    processing/<hash>/report.json             the totals

Buckets do not support appending, so the ledger is a set of shards, each written once and whole: one
per batch of episodes, after their outputs are in the dataset and its index. So every episode in the
ledger is done. An episode that is done but not yet in the ledger is found by its outputs, whose
derivations name the source and the pipeline; see `target`.

Lines are numbered and in the order of the run, not of completion. An episode's line with the
highest number counts: a failed episode gets another line after a retry.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.place import map_in_order
from webtraj.store import records
from webtraj.store.foreign import valid_data
from webtraj.store.index import index_file_name
from webtraj.store.layout import check_episode_id
from webtraj.store.storage import Storage

__all__ = [
    "Count",
    "Dropped",
    "Entry",
    "FailedEpisode",
    "Failure",
    "Ledger",
    "PROCESSING",
    "Passage",
    "ProcessingReport",
    "StepReport",
    "TaskReport",
    "make_report",
]

# The result for one recorded episode, as the ledger and its outputs store it.


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """A step's counts for one episode and the trajectories made from it."""

    seen: int = 0
    """Trajectories that reached the step."""
    changed: int = 0
    """Trajectories that it changed or annotated."""
    kept: int = 0
    """Trajectories that left the step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """A trajectory that a step dropped."""

    step: int
    """The step's place in the pipeline, from 0."""
    reason: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Why an episode could not be processed. The next run retries it."""

    step: str
    """The name of the step, or `read` or `write`."""
    type: str
    """The exception's class."""
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """An episode's passage through the steps."""

    outputs: tuple[str, ...] = ()
    """The ids of its outputs; empty if it was dropped."""
    counts: tuple[Count, ...] = ()
    """The counts of each step that it reached."""
    dropped: tuple[Dropped, ...] = ()
    signatures: Mapping[int, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """The signatures that each `OrderedStep` admitted, in order, by the step's place: JSON data."""

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        data: dict[str, Any] = {
            "outputs": list(self.outputs),
            "counts": [[count.seen, count.changed, count.kept] for count in self.counts],
        }
        if self.dropped:
            data["dropped"] = [dataclasses.asdict(one) for one in self.dropped]
        if self.signatures:
            data["signatures"] = {str(n): list(values) for n, values in self.signatures.items()}
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return a passage from the result of `to_data`.

        Raises:
            ValueError: The data are malformed; the message names the field.
        """
        stored = records.read_object(_Stored, dict(data))
        return cls(
            outputs=tuple(map(check_episode_id, stored.outputs)),
            counts=tuple(map(_count_of, stored.counts)),
            dropped=stored.dropped,
            signatures={int(n): tuple(values) for n, values in stored.signatures.items()},
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Stored:
    outputs: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    dropped: tuple[Dropped, ...] = ()
    signatures: Mapping[str, tuple[object, ...]] = dataclasses.field(default_factory=dict)


def _count_of(numbers: tuple[int, ...]) -> Count:
    if len(numbers) != 3:
        raise records.WrongFieldError("counts", f"has {numbers!r:.60}; expected three numbers each")
    return Count(*numbers)


PROCESSING = "processing/"
_WORKERS = 16
_MANY_SHARDS = 50
_SHARD_LINES = 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The result for one recorded episode."""

    number: trajectory_lib.Count
    """Its place in the ledger, from 0."""
    source: str
    """The episode's id."""
    sha256: str
    """The SHA-256 of its file; if judgements are beside it, of that hash and them."""
    task: str = ""
    passage: Passage = dataclasses.field(default_factory=Passage)
    failure: Failure | None = None
    """Why it could not be processed; None on success."""

    def to_line(self) -> bytes:
        """Return the entry as a line of JSON."""
        data: dict[str, Any] = {
            "number": self.number,
            "source": self.source,
            "sha256": self.sha256,
            "task": self.task,
            **self.passage.to_data(),
        }
        if self.failure is not None:
            data["failure"] = dataclasses.asdict(self.failure)
        return orjson.dumps(valid_data(data)) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return an entry from a line of JSON.

        Raises:
            ValueError: The line is malformed; the message names the field.
        """
        data = orjson.loads(line)
        entry = records.read_object(cls, data)
        check_episode_id(entry.source)
        return dataclasses.replace(entry, passage=Passage.from_data(data))


class Ledger:
    """The entries of one pipeline in one dataset. One thread adds; one thread at a time flushes."""

    def __init__(self, storage: Storage, pipeline_hash: str) -> None:
        """Read the ledger.

        Raises:
            CorruptDataError: A line cannot be read.
            StorageError: It cannot be read.
        """
        self._storage = storage
        self._prefix = f"{PROCESSING}{pipeline_hash}/ledger/"
        self._report = f"{PROCESSING}{pipeline_hash}/report.json"
        self._pending: list[Entry] = []
        self._entries: dict[str, Entry] = {}
        self._next = 0
        self._read()

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entries of done and failed episodes, by id."""
        return self._entries

    @property
    def pending(self) -> int:
        """The number of unwritten entries."""
        return len(self._pending)

    def add(self, make: Callable[[int], Entry]) -> Entry:
        """Add an entry, which `make` builds from its number. `flush` writes it."""
        entry = make(self._next)
        self._next += 1
        self._pending.append(entry)
        self._entries[entry.source] = entry
        return entry

    def flush(self, settle: Callable[[], None]) -> None:
        """Write pending entries, after `settle` has made sure that their outputs can be found.

        Raises:
            StorageError: It cannot be written; the next `flush` tries again.
        """
        if batch := tuple(self._pending):  # Entries added meanwhile are for the next flush.
            settle()
            self._write(batch)
            del self._pending[: len(batch)]

    def write_report(self, content: bytes) -> None:
        """Write the report next to the ledger.

        Raises:
            StorageError: It cannot be written.
        """
        self._storage.write(self._report, content)

    def _read(self) -> None:
        keys = sorted(entry.key for entry in self._storage.list(self._prefix))
        contents = map_in_order(self._storage.read, keys, workers=_WORKERS)
        for key, content in zip(keys, contents, strict=True):
            for line in content.splitlines():
                try:
                    entry = Entry.from_line(line)
                except ValueError as error:
                    raise errors.CorruptDataError(
                        f"{key!r} in {self._storage.url!r} cannot be read: {error}. It was "
                        "changed or damaged. Choose a new destination."
                    ) from error
                self._take(entry)
        self._next = max((entry.number for entry in self._entries.values()), default=-1) + 1
        if len(keys) > _MANY_SHARDS:
            self._compact(keys)

    def _take(self, entry: Entry) -> None:
        known = self._entries.get(entry.source)
        if known is None or _rank(entry) > _rank(known):
            self._entries[entry.source] = entry

    def _compact(self, keys: Iterable[str]) -> None:
        """Merge many shards into few. A crash in between duplicates lines, which count once."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.number)
        for start in range(0, len(entries), _SHARD_LINES):
            self._write(entries[start : start + _SHARD_LINES])
        for _ in map_in_order(self._storage.delete, keys, workers=_WORKERS):
            pass

    def _write(self, entries: Iterable[Entry]) -> None:
        lines = b"".join(entry.to_line() for entry in entries)
        self._storage.write(self._prefix + index_file_name(), lines)


def _rank(entry: Entry) -> tuple[int, int]:
    """Return an entry's precedence within its episode. An entry with outputs always wins."""
    return (0 if entry.failure else 2 if entry.passage.outputs else 1), entry.number


# The report of a pipeline, over all recorded episodes and all runs.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """The counts of one step."""

    name: str
    version: str
    seen: int = 0
    """Trajectories that reached the step."""
    changed: int = 0
    """Trajectories that it changed or annotated."""
    kept: int = 0
    """Trajectories that left the step."""
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Dropped trajectories, by reason."""
    failed: int = 0
    """Recorded episodes that the step failed on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """The results for one task."""

    task: str
    episodes: int
    """Recorded episodes that are done or have failed."""
    outputs: int
    """Episodes made from them."""
    dropped: int
    """Recorded episodes without any output."""
    failed: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailedEpisode:
    """An episode that could not be processed. It has no output."""

    episode_id: str
    step: str
    """The step that failed, or `read` or `write`."""
    error: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingReport:
    """The results for all recorded episodes, earlier runs included."""

    pipeline: str
    """The pipeline's hash."""
    episodes: int
    """Recorded episodes that are done or have failed."""
    outputs: int
    """Episodes made from them."""
    dropped: int
    """Recorded episodes without any output."""
    failures: tuple[FailedEpisode, ...]
    steps: tuple[StepReport, ...]
    tasks: tuple[TaskReport, ...]
    """The tasks, sorted by name."""
    stale: tuple[str, ...] = ()
    """Ids of episodes whose file changed after processing; they are not processed again."""
    superseded: int = 0
    """The number of episodes left out, because another try of their row counts."""
    now: int = 0
    """The number of recorded episodes that this run processed."""
    found: int = 0
    """The number of those that an interrupted run had already processed."""

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data, without fields that depend on the number of runs."""
        data = dataclasses.asdict(self)
        del data["now"], data["found"], data["stale"]
        return data


def make_report(
    pipeline: str,
    steps: Sequence[tuple[str, str]],
    entries: Iterable[Entry],
    *,
    stale: tuple[str, ...] = (),
    superseded: int = 0,
    now: int = 0,
    found: int = 0,
) -> ProcessingReport:
    """Add up the entries.

    Args:
        pipeline: The pipeline's hash.
        steps: The name and version of each step.
        entries: One entry per episode.
        stale: See `ProcessingReport`.
        superseded: See `ProcessingReport`.
        now: See `ProcessingReport`.
        found: See `ProcessingReport`.
    """
    entries = sorted(entries, key=lambda entry: entry.number)
    tasks: dict[str, list[Entry]] = {}
    for entry in entries:
        tasks.setdefault(entry.task, []).append(entry)
    total = _of_task("", entries)
    return ProcessingReport(
        pipeline=pipeline,
        episodes=total.episodes,
        outputs=total.outputs,
        dropped=total.dropped,
        failures=tuple(
            FailedEpisode(
                episode_id=entry.source,
                step=entry.failure.step,
                error=f"{entry.failure.type}: {entry.failure.message}",
            )
            for entry in entries
            if entry.failure
        ),
        steps=tuple(_of_step(n, *step, entries) for n, step in enumerate(steps)),
        tasks=tuple(_of_task(task, tasks[task]) for task in sorted(tasks)),
        stale=stale,
        superseded=superseded,
        now=now,
        found=found,
    )


def _of_step(place: int, name: str, version: str, entries: Sequence[Entry]) -> StepReport:
    counts = [entry.passage.counts[place] for entry in entries if place < len(entry.passage.counts)]
    dropped = collections.Counter(
        one.reason for entry in entries for one in entry.passage.dropped if one.step == place
    )
    # A failed step comes after the steps that counted the episode.
    failed = [
        entry
        for entry in entries
        if entry.failure and entry.failure.step == name and len(entry.passage.counts) == place
    ]
    return StepReport(
        name=name,
        version=version,
        seen=sum(count.seen for count in counts) + len(failed),
        changed=sum(count.changed for count in counts),
        kept=sum(count.kept for count in counts),
        dropped=dict(sorted(dropped.items())),
        failed=len(failed),
    )


def _of_task(task: str, entries: Sequence[Entry]) -> TaskReport:
    failed = sum(entry.failure is not None for entry in entries)
    outputs = [len(entry.passage.outputs) for entry in entries if not entry.failure]
    return TaskReport(
        task=task,
        episodes=len(entries),
        outputs=sum(outputs),
        dropped=outputs.count(0),
        failed=failed,
    )
