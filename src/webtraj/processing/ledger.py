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

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.parallel import map_in_order
from webtraj.processing.passage import Failure, Passage
from webtraj.store import records
from webtraj.store.index import index_file_name
from webtraj.store.layout import check_episode_id
from webtraj.store.places import Storage

__all__ = ["PROCESSING", "Entry", "Ledger"]

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
        """Returns it as a line of JSON."""
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
        """Reads the ledger.

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
        """Adds the entry that a function makes, given its number. `flush` writes it."""
        entry = make(self._next)
        self._next += 1
        self._pending.append(entry)
        self._entries[entry.source] = entry
        return entry

    def flush(self, settle: Callable[[], None]) -> None:
        """Writes what is pending, after `settle` has seen to it that its outputs can be found.

        Raises:
            StorageError: It cannot be written; the next `flush` tries again.
        """
        if batch := tuple(self._pending):  # What is added meanwhile is another flush's.
            settle()
            self._write(batch)
            del self._pending[: len(batch)]

    def write_report(self, content: bytes) -> None:
        """Writes the report beside the ledger.

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
        """Makes few shards of many. What dies in between leaves lines twice, which count once."""
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
