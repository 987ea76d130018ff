"""The journal of an open episode: one JSON object per line, one write per line.

::

    {"kind": "begin",  "schema_version": 1, "time": ..., "info": {...}}
    {"kind": "info",   "info": {...}}                     replaces the episode's info
    {"kind": "intent", "time": ..., "action": ..., "decision": {...}}
    {"kind": "step",   "time": ..., "step": {...}}
    {"kind": "end",    "time": ..., "end": {...}}

A line is complete when the call that wrote it has returned, even if the process dies afterwards. A
last line without a newline was being written when the process died: its call never returned, so it
does not count.

The recorder holds an advisory lock (flock) on its journal as long as it lives, so recovery can tell
a journal in use from one whose writer died. A journal gets its name only once it is locked and has
its first line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import encoding, files
from webtraj.store.blobs import Blob, BlobStore, RecordingSink
from webtraj.store.layout import HEADER, SCHEMA_VERSION, DatasetLayout, check_version

__all__ = ["Journal", "JournalRecorder", "check_process", "claim", "read_journal", "warn"]

_LOGGER = logging.getLogger(__name__)
_WARNED_OF: set[str] = set()
_MOST_WARNINGS = 20


class JournalRecorder:
    """Records one episode in its journal, which it keeps locked until `release`."""

    def __init__(
        self,
        info: trajectory_lib.EpisodeInfo,
        *,
        layout: DatasetLayout,
        blobs: BlobStore,
        sync: bool,
        on_end: Callable[[JournalRecorder], None],
    ) -> None:
        """Begin the journal.

        Args:
            info: The episode's info.
            layout: The dataset.
            blobs: Takes long bytes and text.
            sync: Whether each record waits for the disk.
            on_end: Called when the episode has ended; it must make sure that `release` is called.

        Raises:
            CollectorError: The journal exists, or cannot be written.
        """
        self.episode_id = info.episode_id
        self._root = layout.root
        self._path = layout.journal(info.episode_id)
        self._blobs = blobs
        self._sink = RecordingSink(blobs)
        self._sync = sync
        self._on_end = on_end
        self._ended = False
        self._process = os.getpid()
        begin = {"kind": "begin", "schema_version": SCHEMA_VERSION, "time": trajectory_lib.now()}
        try:
            line, kept_as_repr = encoding.dumps_fields({**begin, "info": info}, self._sink)
            self._file = _create(self._path, line)
        except OSError as error:
            raise self._make_error("begun", error) from error
        warn(kept_as_repr)

    @property
    def unsynced_blobs(self) -> set[Blob]:
        """The blobs that may not be on the disk yet."""
        return self._sink.blobs

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replace the episode's info, except for its id."""
        info = dataclasses.replace(info, episode_id=self.episode_id)
        self._write({"kind": "info", "info": info})

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Record an action that is about to be passed to the environment."""
        fields = {"kind": "intent", "time": trajectory_lib.now(), "action": action}
        if decision is not None:
            if not isinstance(decision, trajectory_lib.Decision):
                raise encoding.wrong("decision", decision, "one of webtraj's Decision")
            fields["decision"] = decision
        self._write(fields)

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Record a timestep that the environment returned."""
        self._write({"kind": "step", "time": trajectory_lib.now(), "step": step})

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """End the record and have it sealed in the background."""
        self._check_open()
        try:
            self._write({"kind": "end", "time": trajectory_lib.now(), "end": end})
        except errors.InvalidInputError:  # The episode stays open, for a valid end.
            raise
        except BaseException:  # The rest is still sealed, as CRASHED.
            self._ended = True
            self._on_end(self)
            raise
        self._ended = True
        self._on_end(self)

    def release(self) -> None:
        """Release the journal and its lock. Idempotent."""
        self._file.close()

    def _write(self, fields: Mapping[str, Any]) -> None:
        self._check_open()
        try:
            if self._file.removed:
                raise FileNotFoundError(errno.ENOENT, "its journal was deleted")
            line, kept_as_repr = encoding.dumps_fields(fields, self._sink)
            if self._sync:
                blobs = set(self._sink.blobs)
                self._sink.blobs.clear()  # If one cannot be synced, this step fails, not all.
                self._blobs.sync(blobs)
            self._file.append(line + b"\n", sync=self._sync)
        except OSError as error:
            raise self._make_error("recorded", error) from error
        warn(kept_as_repr)

    def _check_open(self) -> None:
        check_process(self._process, self._root)
        if self._ended:
            raise errors.CollectorClosedError(
                f"The episode {self.episode_id!r} has ended; nothing more can be recorded."
            )

    def _make_error(self, what: str, error: OSError) -> errors.CollectorError:
        rest = "Everything recorded before is safe."
        if not (self._root / HEADER).exists():
            rest = "The dataset was deleted or moved, with everything recorded there."
        elif what == "recorded" and not self._path.exists():
            rest = "Its steps are lost; other episodes are not affected."
        return errors.CollectorError(
            f"The episode {self.episode_id!r} could not be {what} in "
            f"{str(self._root)!r}: {errors.reason(error)}. {rest}"
        )


def _create(path: Path, first_line: bytes) -> files.LineFile:
    """Create a journal. It gets its name when it is locked and has its first line."""
    unnamed = path.with_name(f".{path.name}.tmp")
    file = files.LineFile(unnamed, new=True)
    try:
        file.append(first_line + b"\n")
        os.link(unnamed, path)  # Unlike rename, it fails if the name is taken.
    except BaseException:
        file.close()
        raise
    finally:
        unnamed.unlink(missing_ok=True)
    return file


def check_process(made_in: int, root: Path) -> None:
    """Check that the collector was made in this process.

    A forked child has the parent's files and locks, but not its threads.

    Raises:
        CollectorClosedError: The collector was made in another process.
    """
    if made_in != os.getpid():
        raise errors.CollectorClosedError(
            f"The collector of {str(root)!r} was made in another process. Make a new one for the "
            "same folder."
        )


@dataclasses.dataclass(slots=True)
class Journal:
    """The contents of a journal, as JSON data."""

    begin: dict[str, Any]
    """The first line."""
    info: dict[str, Any]
    """The latest info."""
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    intent: dict[str, Any] | None = None
    """The intent whose step never came, if any."""
    end: dict[str, Any] | None = None
    """The end of the episode, if it ended."""
    last_time: float | None = None
    """The time of the last line."""
    torn: int = 0
    """Number of bytes after the last whole line."""


def read_journal(path: Path) -> Journal:
    """Read a journal, including one whose writer was killed.

    Raises:
        CorruptDataError: A whole line cannot be read, or the first is missing.
        UnsupportedSchemaError: It was written by a newer webtraj.
        OSError: The file cannot be read.
    """
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    journal: Journal | None = None
    for number, line in enumerate(lines, start=1):
        try:
            event = orjson.loads(line)
            if journal is None:
                check_version(int(event.get("schema_version", 1)), f"The journal {str(path)!r}")
            journal = _apply(journal, event)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.CorruptDataError(
                f"Cannot read line {number} of the journal {str(path)!r}: {error!r}. "
                "The file was changed or damaged after it was written."
            ) from error
    if journal is None:
        raise errors.CorruptDataError(
            f"The journal {str(path)!r} has no first line: its episode never began."
        )
    journal.torn = len(torn)
    return journal


@contextlib.contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Take over a journal whose writer is dead, while the context lasts.

    Yields:
        True if taken; False if a live writer or another recovery holds it.

    Raises:
        OSError: The file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _apply(journal: Journal | None, event: dict[str, Any]) -> Journal:
    kind = event["kind"]
    if journal is None:
        if kind != "begin":
            raise ValueError(f"expected a line of kind 'begin', got {kind!r}")
        return Journal(begin=event, info=event["info"], last_time=event["time"])
    match kind:
        case "info":
            journal.info = event["info"]
        case "intent":
            journal.intent = event
        case "step":
            journal.steps.append(event["step"])
            journal.intent = None
        case "end":
            journal.end = event["end"]
        case _:
            raise ValueError(f"unknown kind {kind!r}")
    journal.last_time = event.get("time", journal.last_time)
    return journal


def warn(kept_as_repr: Sequence[str]) -> None:
    """Warn once for each type of values kept only as their repr. Every record notes them."""
    for value in kept_as_repr:
        kind = value.partition(": ")[2].partition(",")[0]
        if kind not in _WARNED_OF and len(_WARNED_OF) < _MOST_WARNINGS:
            _WARNED_OF.add(kind)
            _LOGGER.warning("Recording only the repr of some values, such as %s", value)
