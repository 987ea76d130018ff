"""The journal of an open episode: one JSON object a line, one write a line.

::

    {"kind": "begin",  "schema_version": 1, "time": ..., "info": {...}}
    {"kind": "info",   "info": {...}}                     replaces what is known of the episode
    {"kind": "intent", "time": ..., "action": ..., "decision": {...}}
    {"kind": "step",   "time": ..., "step": {...}}
    {"kind": "end",    "time": ..., "end": {...}}

A line is there when the call that wrote it has returned, whatever dies after it. A last line
without its newline was being written when the process died: its call never returned, and it does
not count.

The writer holds an advisory lock (flock) on its journal for as long as it lives, so that recovery
can tell a journal that is being written from one whose writer has died. A journal takes its name
only when it is locked and has its first line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.store.formats import SCHEMA_VERSION

__all__ = ["Journal", "JournalWriter", "claim", "read_journal"]


class JournalWriter:
    """Appends lines to one journal."""

    def __init__(self, path: Path, first_line: bytes) -> None:
        """Creates the journal, which must not exist.

        Raises:
            OSError: It exists, or cannot be created.
        """
        self.path = path
        self._size = 0
        self._torn = False
        unnamed = path.with_name(f".{path.name}.tmp")
        self._descriptor = files.append_locked(unnamed, new=True)
        try:
            self.append(first_line)
            os.link(unnamed, path)  # Unlike rename, it fails if the name is taken.
        except BaseException:
            self.close()
            raise
        finally:
            unnamed.unlink(missing_ok=True)

    def append(self, line: bytes, *, sync: bool = False) -> None:
        """Writes one line, whole or not at all.

        Args:
            line: One JSON object, without its newline.
            sync: Whether to wait until it is on the disk.

        Raises:
            OSError: It could not be written; the journal is as it was.
        """
        if self._torn:
            os.ftruncate(self._descriptor, self._size)
        self._torn = True
        try:
            files.write_all(self._descriptor, line + b"\n")
            if sync:
                os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # If it fails, it is tried again by the next call.
                os.ftruncate(self._descriptor, self._size)
            raise
        self._torn = False
        self._size += len(line) + 1

    def close(self) -> None:
        """Lets go of the journal. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclasses.dataclass(slots=True)
class Journal:
    """What a journal says, as JSON data."""

    begin: dict[str, Any]
    """Its first line."""
    info: dict[str, Any]
    """The latest info."""
    steps: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    intent: dict[str, Any] | None = None
    """The intent whose step never came, if there is one."""
    end: dict[str, Any] | None = None
    """The end line's end, if the episode was ended."""
    last_time: float | None = None
    """When its last line was written."""
    torn: int = 0
    """Number of bytes after the last whole line."""


def read_journal(path: Path) -> Journal:
    """Reads a journal, also one whose writer was killed.

    Raises:
        CorruptDataError: A whole line cannot be read, or the first is missing.
        UnsupportedSchemaError: It was begun by a newer webtraj.
        OSError: The file cannot be read.
    """
    lines = path.read_bytes().split(b"\n")
    torn = lines.pop()
    journal: Journal | None = None
    for number, line in enumerate(lines, start=1):
        try:
            event = orjson.loads(line)
            if journal is None:
                _check_version(path, int(event.get("schema_version", 1)))
            journal = _apply(journal, event)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.CorruptDataError(
                f"Line {number} of the journal {str(path)!r} cannot be read: {error!r}. "
                "The file was changed or damaged after it was written."
            ) from error
    if journal is None:
        raise errors.CorruptDataError(
            f"The journal {str(path)!r} has no first line: its episode had not begun."
        )
    journal.torn = len(torn)
    return journal


def _check_version(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise errors.UnsupportedSchemaError(
            f"The journal {str(path)!r} has schema version {version}; this webtraj reads up to "
            f"{SCHEMA_VERSION}. Install a newer one to seal it."
        )


@contextlib.contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Takes over a journal whose writer is gone, for as long as the context lasts.

    Yields:
        Whether it was taken; False if a living writer, or another recovery, holds it.

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
