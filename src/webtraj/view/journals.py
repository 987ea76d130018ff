"""Follow a run's journals as they grow, reading each byte once and locking nothing.

A monitor must not disturb the run. It never locks a journal, because recovery would think that a
locked journal is being written, and skip it. Instead, it reads the system's table of locks.
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
from typing import Any, get_args

from webtraj import errors
from webtraj.metrics.tally import BusyTime
from webtraj.runs.iterations import Iterations, Split
from webtraj.runs.run import Run
from webtraj.store import files
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import is_episode_id
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import FolderStorage, Storage
from webtraj.view.status import Cell, Rates, SitePace

__all__ = [
    "JournalTail",
    "JournalTails",
    "LockTable",
    "MINUTE",
    "Pace",
    "Sites",
    "WatchedRun",
    "find_run",
]

# From a dataset or a save path to the run to watch.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """A run and the locations of its files."""

    run: Run
    place: str
    """The dataset, as given."""
    journals: tuple[Path, ...] = ()
    """Folders on this machine that may hold its open episodes."""
    spools: tuple[Path, ...] = ()
    """Spools on this machine whose episodes go to the dataset."""


def find_run(
    place: str | os.PathLike[str],
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WatchedRun:
    """Return an existing run.

    Args:
        place: A dataset's folder or URL; or a rollout's save path, for the iteration with the
            latest run.
        run_id: The run. Default: the latest.
        storage_options: For a bucket: the storage options.

    Raises:
        InvalidInputError: There is no such run.
        StorageError: The place cannot be read.
    """
    named = os.fspath(place)
    run, found = _run_in(open_storage(named, storage_options), run_id), named
    if run is None:
        latest = _latest_iteration(named, run_id, storage_options)
        if latest is None:
            if not is_url(named) and not Path(named).exists():
                raise errors.InvalidInputError(
                    f"No run in {named!r:.300}: the folder does not exist. Name a rollout's "
                    "dataset or save path."
                )
            raise errors.InvalidInputError(
                f"No run{'' if run_id is None else f' {run_id!r:.100}'} in {named!r:.300}. Give a "
                "rollout's dataset or save path. A rollout that has just started appears once its "
                "plan is written."
            )
        run, found = latest
    storage = run.storage
    spools = () if isinstance(storage, FolderStorage) else _spools_for(storage.url)
    folders = [storage.root] if isinstance(storage, FolderStorage) else spools
    return WatchedRun(
        run=run,
        place=found,
        journals=tuple(folder / "journal" for folder in folders),
        spools=tuple(spools),
    )


def _run_in(storage: Storage, run_id: str | None) -> Run | None:
    """Return a run of a dataset; None if there is no such run."""
    if run_id is not None:
        run = Run(storage, run_id)
        return run if storage.size(f"runs/{run_id}/plan.jsonl") is not None else None
    try:
        return Run.last(storage)
    except errors.InvalidInputError:
        return None


def _latest_iteration(
    save_path: str, run_id: str | None, storage_options: Mapping[str, Any] | None
) -> tuple[Run, str] | None:
    """Return the latest run of any iteration, and its dataset."""
    found: list[tuple[Run, str]] = []
    for split in get_args(Split):
        iterations = Iterations(save_path, split, storage_options)
        for number in reversed(iterations.numbers()):
            place = iterations.dataset(number)
            run = _run_in(open_storage(place, storage_options), run_id)
            if run is not None:
                found.append((run, place))
                break
    return max(found, key=lambda item: item[0].run_id, default=None)


def _spools_for(url: str) -> tuple[Path, ...]:
    """Return this user's spools whose episodes go to a place."""
    from webtraj.collectors.spool import spools
    from webtraj.store.layout import DatasetLayout

    found = []
    for path in spools():
        with contextlib.suppress(errors.DatasetError, OSError):
            if DatasetLayout(path).check().destination.rstrip("/") == url.rstrip("/"):
                found.append(path)
    return tuple(found)


_LINE = re.compile(rb'\{"kind":"(\w+)",(?:"schema_version":\d+,)?"time":([0-9.e+-]+)')
"""The start of a journal's line. The rest, which may be long, is not parsed."""

_PHASES = {
    b"begin": Cell.RESETTING,
    b"intent": Cell.ACTING,
    b"step": Cell.ASKING,
    b"end": Cell.SEALING,
}
"""The state after a line of each kind."""


@dataclasses.dataclass(slots=True)
class JournalTail:
    """The progress of an open episode."""

    path: Path
    cell: Cell = Cell.RESETTING
    began: float | None = None
    """The time of its first line, in seconds since the epoch."""
    last: float | None = None
    """The time of its last line, in seconds since the epoch."""
    steps: int = 0
    """Environment steps after the first observation."""
    times: collections.deque[float] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=1000)
    )
    """The times of the latest steps."""
    inode: int = 0
    _read: int = 0
    _observations: int = 0

    def look(self) -> None:
        """Read the lines written since the last call.

        Raises:
            FileNotFoundError: The episode has been sealed.
        """
        self.inode = self.path.stat().st_ino
        content = files.read_appended(self.path, self._read)
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
        folders: The folders with journals.
        run_id: The run's id.
    """

    def __init__(self, folders: Iterable[Path], run_id: str) -> None:
        self._folders = tuple(folders)
        self._prefix = f"{run_id}-"
        self._tails: dict[str, JournalTail] = {}

    def look(self) -> Mapping[str, JournalTail]:
        """Return the current progress of the open episodes, by id."""
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
    """The files locked by processes of this machine, from the system's table.

    Args:
        probe: A file on the same file system that nobody else locks. It is locked once, to check
            that the table lists locks of that file system.
    """

    _TABLE = Path("/proc/locks")

    def __init__(self, probe: Path) -> None:
        self.tells = self._check(probe)
        """Whether the table lists locks of the file system."""

    def find_locked(self) -> frozenset[int]:
        """Return the inodes of the locked files; empty if unknown."""
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


# The speed of a run, in the last minute and overall, and the slow sites.

MINUTE = 60.0


class Pace:
    """The speed of a run, from its ended episodes."""

    def __init__(self) -> None:
        self._busy = BusyTime()
        self._recent: collections.deque[tuple[float, float, int]] = collections.deque()
        self.started: float | None = None
        """The start of the first episode."""
        self.latest: float | None = None
        """The end of the last episode."""
        self.episodes = 0
        self.steps = 0

    def add(self, summary: EpisodeSummary, now: float) -> None:
        """Add an ended episode."""
        self.episodes += 1
        self.steps += summary.num_steps
        start, end = summary.start_time, summary.end_time
        if start is None or end is None:
            return
        self._busy.add(start, end)
        self.started = start if self.started is None else min(self.started, start)
        self.latest = end if self.latest is None else max(self.latest, end)
        if end > now - MINUTE:
            self._recent.append((start, end, summary.num_steps))

    def minute(self, open_episodes: Iterable[JournalTail], now: float) -> Rates:
        """Return the rates of the last minute, or since the start of the run if that is shorter.

        The steps of an ended episode are spread evenly over its duration. The steps of a running
        episode count at their own times.
        """
        begin = now - MINUTE
        self._recent = collections.deque(item for item in self._recent if item[1] > begin)
        tails = list(open_episodes)
        starts = [tail.began for tail in tails if tail.began is not None]
        if self.started is not None:
            starts.append(self.started)
        if not starts:
            return Rates()
        window = min(max(now - min(starts), 1.0), MINUTE)
        steps = sum(_share(start, end, begin, now) * n for start, end, n in self._recent)
        steps += sum(time > begin for tail in tails for time in tail.times)
        return Rates(
            episodes_per_second=len(self._recent) / window, steps_per_second=steps / window
        )

    def whole(self, until: float | None = None) -> Rates:
        """Return the rates of all ended episodes over the time in which any episode ran.

        Args:
            until: The current time if any episode is running, else None.
        """
        if self.latest is None:
            return Rates()
        seconds = (self._busy.seconds or 0.0) + max((until or 0.0) - self.latest, 0.0)
        if not seconds:
            return Rates()
        return Rates(
            episodes_per_second=self.episodes / seconds, steps_per_second=self.steps / seconds
        )


class Sites:
    """Totals by site, or by task for tasks without a site."""

    def __init__(self) -> None:
        self._paces: dict[str, SitePace] = {}

    def add(self, site: str, seconds: float | None, steps: int, *, fault: bool) -> None:
        """Add an ended episode."""
        pace = self._paces.get(site) or SitePace(site=site)
        self._paces[site] = SitePace(
            site=site,
            episodes=pace.episodes + 1,
            seconds=pace.seconds + (seconds or 0.0),
            steps=pace.steps + steps,
            faults=pace.faults + fault,
        )

    def slowest(self, number: int) -> tuple[SitePace, ...]:
        """Return the slowest sites, by seconds per step."""
        ordered = sorted(self._paces.values(), key=lambda p: (-p.seconds_per_step, p.site))
        return tuple(ordered[:number])


def _share(start: float, end: float, begin: float, now: float) -> float:
    """Return the share of an episode's time between `begin` and `now`."""
    if end <= start:
        return 1.0
    return max(min(end, now) - max(start, begin), 0.0) / (end - start)
