"""A dataset's list of episodes, followed while it is written: only what is new is read.

An index file is only ever appended to, and in a bucket there are only ever new ones; so what was
read need not be read again. Where that does not hold (a deletion, a compaction) all is read anew.
Nothing is locked or written: to look at a dataset must not be felt by who writes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from webtraj import errors
from webtraj.collectors import sealing
from webtraj.collectors.index import EpisodeSummary, parse_index_file, summarize
from webtraj.collectors.journal import Journal, read_journal
from webtraj.collectors.layout import INDEX
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace

__all__ = ["RUNNING", "UNSEALED", "Changes", "Follower", "OpenEpisode", "journal_data"]

RUNNING = "running"
"""The state of an open episode whose journal was written to a short while ago."""
UNSEALED = "unsealed"
"""The state of one that nobody has written to for long. `webtraj recover` seals it if its writer is
gone."""

_QUIET = 600.0
_WORKERS = 16
_JOURNALS = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class OpenEpisode:
    """An episode that is still being recorded, or whose writer has died."""

    summary: EpisodeSummary
    state: str
    """RUNNING or UNSEALED."""


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What there is of new in a dataset."""

    sealed: Sequence[EpisodeSummary]
    """Episodes whose index lines are new; all that there are, if `anew`."""
    open: Sequence[OpenEpisode]
    """All that are open now."""
    anew: bool = False
    """Whether what was known before does not count any more."""


class Follower:
    """Follows one dataset. Not safe to share between threads."""

    def __init__(self, place: DatasetPlace, *, clock: Callable[[], float] = time.time) -> None:
        self._place = place
        self._clock = clock
        self._known: set[str] = set()
        self._read: dict[str, int] | None = None
        self._open: dict[str, tuple[int, EpisodeSummary]] = {}
        self._shown: set[str] = set()
        self._gone: set[str] = set()

    def look(self) -> Changes:
        """Returns what is new since the last time; at first all that there is.

        Raises:
            DatasetError: The index cannot be read.
            StorageError: The place cannot be read.
        """
        new = None if self._read is None else self._new_summaries()
        anew = new is None
        if new is None:
            new = self._begin()
        self._known |= {summary.episode_id for summary in new}
        still_open = self._open_episodes()
        # One that is being sealed may be seen neither here nor there, but only once.
        gone = self._shown - self._open.keys() - self._known
        if gone & self._gone:  # It was taken away.
            self._read = None
            gone = set()
        self._gone = gone
        self._shown = gone | self._open.keys()
        return Changes(new, still_open, anew)

    def _begin(self) -> list[EpisodeSummary]:
        self._read = None  # Until all is read; if that fails, it is begun again.
        # How far the index is read is noted first: what comes meanwhile is read twice, not never.
        read: dict[str, int] = {}
        for name, size in self._sizes().items():
            with contextlib.suppress(FileNotFoundError):  # It was compacted just now.
                in_bucket = self._place.layout is None
                read[name] = size if in_bucket else self._whole_lines(name, 0)[0]
        found = list(Dataset(self._place, (), "lazy").refresh().summaries)
        self._read, self._known = read, set()
        return found

    def _sizes(self) -> dict[str, int]:
        entries = self._place.storage.list(INDEX)
        return {
            entry.key: entry.size
            for entry in entries
            if entry.key.endswith(".jsonl") and entry.key.count("/") == 1
        }

    def _new_summaries(self) -> list[EpisodeSummary] | None:
        """Returns what index lines there are of new; None if all must be read anew."""
        known = self._read or {}
        sizes = self._sizes()
        if any(sizes.get(name, -1) < size for name, size in known.items()):
            return None  # It was compacted.
        names = sorted(name for name, size in sizes.items() if size > known.get(name, 0))
        try:
            lines = map_in_order(
                lambda name: self._whole_lines(name, known.get(name, 0)), names, workers=_WORKERS
            )
            read = dict(zip(names, lines, strict=True))
        except (FileNotFoundError, errors.StorageMissingError):
            return None  # It is being compacted.
        files = [parse_index_file(lines) for _, lines in read.values()]
        if any(file.removals for file in files):
            return None
        self._read = {**known, **{name: end for name, (end, _) in read.items()}}
        return [summary for file in files for summary in file.summaries]

    def _whole_lines(self, name: str, start: int) -> tuple[int, bytes]:
        """Returns where the whole lines of an index file end, and those from a place on."""
        if self._place.layout is None:
            lines = self._place.storage.read(name)
            return len(lines), lines
        with (self._place.layout.root / name).open("rb") as file:
            file.seek(start)
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        return start + len(lines), lines

    def _open_episodes(self) -> list[OpenEpisode]:
        layout = self._place.layout
        if layout is None:
            return []
        found: dict[str, tuple[int, EpisodeSummary]] = {}
        episodes = []
        for episode_id in sorted(self._place.open_episodes() - self._known)[:_JOURNALS]:
            path = layout.journal(episode_id)
            try:
                told = path.stat()
                size, summary = self._open.get(episode_id, (-1, None))
                if summary is None or size != told.st_size:
                    summary = self._summary_of_journal(episode_id)
            except OSError:
                continue  # It was sealed just now.
            found[episode_id] = (told.st_size, summary)
            quiet = self._clock() - told.st_mtime > _QUIET
            episodes.append(OpenEpisode(summary, UNSEALED if quiet else RUNNING))
        self._open = found
        return episodes

    def _summary_of_journal(self, episode_id: str) -> EpisodeSummary:
        place = self._place
        assert place.layout is not None
        try:
            journal = read_journal(place.layout.journal(episode_id))
            data = journal_data(journal)
            store = sealing.blob_store(place.layout, place.header, episode_id)
            summary = summarize(data, b"", store, place.header.format)
        except errors.DatasetError:  # `recover` says what is wrong with it.
            return EpisodeSummary(episode_id=episode_id)
        return dataclasses.replace(summary, sha256="")


def journal_data(journal: Journal) -> dict[str, Any]:
    """Returns the data of an episode that is open, as of a sealed one; it may have no end."""
    data: dict[str, Any] = {
        "schema_version": journal.begin.get("schema_version", 1),
        "info": journal.info,
        "start_time": journal.begin.get("time"),
        "end_time": journal.last_time,
        "steps": journal.steps,
    }
    if journal.end is not None:
        data["end"] = journal.end
    return data
