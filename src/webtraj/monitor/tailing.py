"""Following a run's journals as they grow: reading each byte once, and locking nothing.

A monitor must not disturb what it looks at. So it locks no journal, not for a moment: one that is
locked is taken for one that is being written, and recovery would pass it over. Who holds locks is
read from the system's own table instead.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from webtraj.datasets.index_tail import appended
from webtraj.monitor.status import Cell
from webtraj.store.layout import is_episode_id

__all__ = ["JournalTail", "JournalTails", "LockTable"]

_LINE = re.compile(rb'\{"kind":"(\w+)",(?:"schema_version":\d+,)?"time":([0-9.e+-]+)')
"""How a line of a journal begins. What else it says, which may be long, is not read."""

_PHASES = {
    b"begin": Cell.RESETTING,
    b"intent": Cell.ACTING,
    b"step": Cell.ASKING,
    b"end": Cell.SEALING,
}
"""What goes on after a line of that kind."""


@dataclasses.dataclass(slots=True)
class JournalTail:
    """How far an open episode is."""

    path: Path
    cell: Cell = Cell.RESETTING
    began: float | None = None
    """When its first line was written, in seconds since the epoch;"""
    last: float | None = None
    """and its last."""
    steps: int = 0
    """Steps that the environment took after its first observation."""
    times: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=1000)
    )
    """When the latest of them came."""
    inode: int = 0
    _read: int = 0
    _observations: int = 0

    def look(self) -> None:
        """Reads what has come since the last time.

        Raises:
            FileNotFoundError: It has been sealed.
        """
        self.inode = self.path.stat().st_ino
        content = appended(self.path, self._read)
        if content is None:
            raise FileNotFoundError(self.path)
        self._read += len(content)
        for line in content.split(b"\n"):
            match = _LINE.match(line)
            if match is None or match[1] not in _PHASES:
                continue
            kind, time = match[1], float(match[2])
            self.cell, self.last = _PHASES[kind], time
            if self.began is None:
                self.began = time
            if kind == b"step":
                self._observations += 1
                if self._observations > 1:
                    self.steps += 1
                    self.times.append(time)


class JournalTails:
    """The open episodes of one run, in a dataset's folder or in spools.

    Args:
        folders: The folders of journals.
        run_id: The run.
    """

    def __init__(self, folders: Iterable[Path], run_id: str) -> None:
        self._folders = tuple(folders)
        self._prefix = f"{run_id}-"
        self._tails: dict[str, JournalTail] = {}

    def look(self) -> Mapping[str, JournalTail]:
        """Returns the open episodes by id, as far as they are now."""
        found: dict[str, JournalTail] = {}
        for folder in self._folders:
            for name in _names_in(folder):
                episode_id = name.removesuffix(".jsonl")
                if not episode_id.startswith(self._prefix) or not is_episode_id(episode_id):
                    continue
                tail = self._tails.get(episode_id)
                if tail is None or tail.path.parent != folder:
                    tail = JournalTail(folder / name)
                with contextlib.suppress(FileNotFoundError):
                    tail.look()
                    found[episode_id] = tail
        self._tails = found
        return found


class LockTable:
    """Which files are locked by processes of this machine, as the system tells.

    Args:
        probe: A file that nobody locks, of the same file system. It is locked once, to see whether
            locks of that file system are told at all.
    """

    _TABLE = Path("/proc/locks")

    def __init__(self, probe: Path) -> None:
        self.tells = self._check(probe)
        """Whether it can be known."""

    def locked(self) -> frozenset[int]:
        """Returns the inodes of the files that are locked; none if that cannot be known."""
        if not self.tells:
            return frozenset()
        try:
            table = self._TABLE.read_text(encoding="ascii", errors="replace")
        except OSError:
            self.tells = False
            return frozenset()
        return frozenset(int(inode) for inode in _LOCK.findall(table))

    def _check(self, probe: Path) -> bool:
        try:
            descriptor = os.open(probe, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            table = self._TABLE.read_text(encoding="ascii", errors="replace")
            return str(os.fstat(descriptor).st_ino) in _LOCK.findall(table)
        except OSError:
            return False
        finally:
            os.close(descriptor)


_LOCK = re.compile(r"FLOCK .* [0-9a-f]+:[0-9a-f]+:(\d+) ")


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if name.endswith(".jsonl") and name[0] != ".")
