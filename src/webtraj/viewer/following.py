"""A dataset's list of episodes, followed while it is written: only what is new is read.

Nothing is locked or written: to look at a dataset must not be felt by who writes it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import with_unindexed
from webtraj.datasets.index_tail import IndexTail
from webtraj.datasets.place import DatasetPlace
from webtraj.store import sealing
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.journal import Journal, read_journal

__all__ = ["RUNNING", "UNSEALED", "Changes", "Follower", "OpenEpisode", "journal_data"]

RUNNING = "running"
"""The state of an open episode whose journal was written to a short while ago."""
UNSEALED = "unsealed"
"""The state of one that nobody has written to for long. `webtraj recover` seals it if its writer is
gone."""

_QUIET = 600.0
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
        self._index = IndexTail(place.storage)
        self._known: set[str] = set()
        self._open: dict[str, tuple[int, EpisodeSummary]] = {}
        self._shown: set[str] = set()
        self._gone: set[str] = set()

    def look(self) -> Changes:
        """Returns what is new since the last time; at first all that there is.

        Raises:
            DatasetError: The index cannot be read.
            StorageError: The place cannot be read.
        """
        try:
            return self._look()
        except Exception:
            self._index.forget()  # What was read is not lost: it is read again.
            raise

    def _look(self) -> Changes:
        anew, new = self._index.read()
        if anew:
            new = with_unindexed(self._place, new)
            self._known = set()
        self._known |= {summary.episode_id for summary in new}
        still_open = self._open_episodes()
        # One that is being sealed may be seen neither here nor there, but only once.
        gone = self._shown - self._open.keys() - self._known
        if gone & self._gone:  # It was taken away.
            self._index.forget()
            gone = set()
        self._gone = gone
        self._shown = gone | self._open.keys()
        return Changes(new, still_open, anew)

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
