"""The ledger of a processed dataset: what became of each recorded episode.

::

    processing/pipeline.json                  which pipeline makes this dataset
    processing/<hash>/ledger/<writer>.jsonl   a line for each recorded episode that is done
    processing/<hash>/report.json             what came of all of them together

Its files, shards, are written once and whole, since nothing can be appended to in a bucket: one for
each batch of episodes, after their outputs are in the dataset and in its index. So what stands in
the ledger is done. What is done and does not stand in it yet is found again by its outputs, each of
which says in its derivation what it was made of and how; see `target`.

Lines come in the order of the run, whatever was finished first, and are numbered. An episode's line
of the highest number counts: one that failed has another after it was tried again.
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
from webtraj.store.index import index_file_name
from webtraj.store.layout import check_episode_id
from webtraj.store.places import Storage

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

# What became of one recorded episode in a pipeline, as the ledger and its outputs keep it.


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """What a step did to one episode, or to what earlier steps had made of it."""

    seen: int = 0
    """Trajectories that came to it."""
    changed: int = 0
    """Those of them that it changed, or said something of."""
    kept: int = 0
    """Trajectories that went on from it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """One trajectory that a step dropped."""

    step: int
    """The step's place in the pipeline, from 0."""
    reason: str
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """What kept an episode from being processed. It is tried again by another run."""

    step: str
    """The name of the step; `read` or `write` where it was none."""
    type: str
    """The exception's class."""
    message: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """How an episode came through the steps."""

    outputs: tuple[str, ...] = ()
    """The ids of the episodes that were made of it; none if it was dropped."""
    counts: tuple[Count, ...] = ()
    """Of each step that it came to."""
    dropped: tuple[Dropped, ...] = ()
    signatures: Mapping[int, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    """Of what each `OrderedStep`, by its place, let in, in order: JSON data."""

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
        """Return what `to_data` made data of.

        Raises:
            ValueError: It is not such data; the message names the field.
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
    """What became of one recorded episode."""

    number: trajectory_lib.Count
    """Its place in the ledger, from 0."""
    source: str
    """Its id."""
    sha256: str
    """Of its file."""
    task: str = ""
    passage: Passage = dataclasses.field(default_factory=Passage)
    failure: Failure | None = None
    """Why it could not be processed; None if it was."""

    def to_line(self) -> bytes:
        """Return it as a line of JSON."""
        data: dict[str, Any] = {
            "number": self.number,
            "source": self.source,
            "sha256": self.sha256,
            "task": self.task,
            **self.passage.to_data(),
        }
        if self.failure is not None:
            data["failure"] = dataclasses.asdict(self.failure)
        return orjson.dumps(data) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return what `to_line` made a line of.

        Raises:
            ValueError: It is not such a line; the message names the field.
        """
        data = orjson.loads(line)
        entry = records.read_object(cls, data)
        check_episode_id(entry.source)
        return dataclasses.replace(entry, passage=Passage.from_data(data))


class Ledger:
    """The entries of one pipeline in one dataset. One thread adds; one at a time flushes."""

    def __init__(self, storage: Storage, pipeline_hash: str) -> None:
        """Read the ledger.

        Raises:
            CorruptDataError: A line of it cannot be read.
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
        """What became of each episode that is done or has failed, by its id."""
        return self._entries

    @property
    def pending(self) -> int:
        """Number of entries that are not written yet."""
        return len(self._pending)

    def add(self, make: Callable[[int], Entry]) -> Entry:
        """Add the entry that a function makes, given its number. `flush` writes it."""
        entry = make(self._next)
        self._next += 1
        self._pending.append(entry)
        self._entries[entry.source] = entry
        return entry

    def flush(self, settle: Callable[[], None]) -> None:
        """Write what is pending, after `settle` has seen to it that its outputs can be found.

        Raises:
            StorageError: It cannot be written; the next `flush` tries again.
        """
        if batch := tuple(self._pending):  # What is added meanwhile is another flush's.
            settle()
            self._write(batch)
            del self._pending[: len(batch)]

    def write_report(self, content: bytes) -> None:
        """Write the report beside the ledger.

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
                        "changed or damaged; process into a new place."
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
        """Make few shards of many. What dies in between leaves lines twice, which count once."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.number)
        for start in range(0, len(entries), _SHARD_LINES):
            self._write(entries[start : start + _SHARD_LINES])
        for _ in map_in_order(self._storage.delete, keys, workers=_WORKERS):
            pass

    def _write(self, entries: Iterable[Entry]) -> None:
        lines = b"".join(entry.to_line() for entry in entries)
        self._storage.write(self._prefix + index_file_name(), lines)


def _rank(entry: Entry) -> tuple[int, int]:
    """Says which of two entries of one episode counts: outputs that are there always do."""
    return (0 if entry.failure else 2 if entry.passage.outputs else 1), entry.number


# What came of a pipeline: of all recorded episodes that it has seen, in whichever run.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one step did."""

    name: str
    version: str
    seen: int = 0
    """Trajectories that came to it."""
    changed: int = 0
    """Those of them that it changed, or said something of."""
    kept: int = 0
    """Trajectories that went on from it."""
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Trajectories that it dropped, by reason."""
    failed: int = 0
    """Recorded episodes that it failed on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What became of the episodes of one task."""

    task: str
    episodes: int
    """Recorded ones that are done or have failed."""
    outputs: int
    """Episodes that were made of them."""
    dropped: int
    """Recorded ones of which none was made."""
    failed: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FailedEpisode:
    """An episode that could not be processed. Nothing of it was written."""

    episode_id: str
    step: str
    """The step that failed; `read` or `write` where it was none."""
    error: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingReport:
    """What came of all recorded episodes, those of earlier runs included."""

    pipeline: str
    """The pipeline's hash."""
    episodes: int
    """Recorded ones that are done or have failed."""
    outputs: int
    """Episodes that were made of them."""
    dropped: int
    """Recorded ones of which none was made."""
    failures: tuple[FailedEpisode, ...]
    steps: tuple[StepReport, ...]
    tasks: tuple[TaskReport, ...]
    """In the order of their names."""
    stale: tuple[str, ...] = ()
    """Ids of recorded ones whose file has changed since they were processed: left as they are."""
    now: int = 0
    """How many of the recorded ones this run has processed."""
    found: int = 0
    """How many of those had been processed already by a run that was cut off."""

    def to_data(self) -> dict[str, Any]:
        """Return what does not depend on how many runs it took, as JSON data."""
        data = dataclasses.asdict(self)
        del data["now"], data["found"], data["stale"]
        return data


def make_report(
    pipeline: str,
    steps: Sequence[tuple[str, str]],
    entries: Iterable[Entry],
    *,
    stale: tuple[str, ...] = (),
    now: int = 0,
    found: int = 0,
) -> ProcessingReport:
    """Add up what became of each episode.

    Args:
        pipeline: The pipeline's hash.
        steps: The name and version of each step.
        entries: One of each episode.
        stale: See `ProcessingReport`, as for the next two.
        now: How many this run has processed.
        found: How many of those were found.
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
        now=now,
        found=found,
    )


def _of_step(place: int, name: str, version: str, entries: Sequence[Entry]) -> StepReport:
    counts = [entry.passage.counts[place] for entry in entries if place < len(entry.passage.counts)]
    dropped = collections.Counter(
        one.reason for entry in entries for one in entry.passage.dropped if one.step == place
    )
    # A step that failed on an episode comes after those that have counted it.
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
