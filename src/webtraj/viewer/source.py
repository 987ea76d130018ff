"""One dataset that is looked at: its episodes, whole, and the bytes of their pictures."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import IndexTail, decode_episode, with_unindexed
from webtraj.datasets.place import BucketBlobs, DatasetPlace
from webtraj.store import sealing
from webtraj.store.blobs import Blob, BlobStore, LazyBlob, LazyBlobs, blobs_of
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.journal import Journal, read_journal
from webtraj.store.layout import format_named, is_episode_id
from webtraj.viewer.episode import episode_data

__all__ = ["Changes", "Follower", "OpenEpisode", "RUNNING", "Source", "UNSEALED", "journal_data"]

# A dataset's list of episodes, followed while it is written: only what is new is read.
#
# Nothing is locked or written: to look at a dataset must not be felt by who writes it.

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


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A dataset under the name that it has in the viewer. Safe to share between threads."""

    name: str
    """Unique among those that are looked at; of characters that a URL holds."""
    place: DatasetPlace
    iteration: int | None = None
    """The number of the iteration that it is of, if it is of one."""
    _kept: _KeptBytes = dataclasses.field(default_factory=lambda: _KeptBytes(), repr=False)

    def episode_data(self, episode_id: str, summary: EpisodeSummary | None) -> dict[str, Any]:
        """Returns an episode as JSON data, with URLs of this viewer.

        Args:
            episode_id: The episode.
            summary: Its index line; None for one that is open.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: It cannot be read.
            StorageError: The bucket cannot be read.
        """
        trajectory, problems = self._load(episode_id, summary)
        data = episode_data(trajectory, lambda value: self._url(episode_id, value))
        return {**data, "dataset": self.name, "problems": problems + data["problems"]}

    def blob(self, episode_id: str, summary: EpisodeSummary | None, sha256: str) -> bytes:
        """Returns bytes that an episode holds, by their hash.

        Raises:
            UnknownEpisodeError: There is no such episode, or it has no such bytes.
            CorruptDataError: They cannot be read.
            StorageError: The bucket cannot be read.
        """
        kept = self._kept.get(sha256)
        if kept is not None:
            return kept
        data, store = self._read(episode_id, summary)
        for blob in blobs_of(data):
            if blob.sha256 == sha256:
                found: bytes = store.read(blob)
                return found
        # Short ones stand in the episode itself, and arrays of pixels are made into pictures.
        trajectory = decode_episode(data, _ShownBlobs(store, []))
        episode_data(trajectory, lambda value: self._url(episode_id, value))
        kept = self._kept.get(sha256)
        if kept is None:
            raise errors.UnknownEpisodeError(
                f"The episode {episode_id!r} of {self.name!r} holds no bytes {sha256!r:.80}."
            )
        return kept

    def shared_blob(self, blob: Blob) -> bytes:
        """Returns bytes that episodes share, without reading any episode.

        Raises:
            CorruptDataError: They are not there, or are damaged.
            StorageError: The bucket cannot be read.
        """
        return self.place.blobs.read(blob)

    def _load(
        self, episode_id: str, summary: EpisodeSummary | None
    ) -> tuple[trajectory_lib.EpisodeTrajectory, list[str]]:
        data, store = self._read(episode_id, summary)
        if isinstance(store, BucketBlobs):
            store = store.read_all(blobs_of(data))
        problems: list[str] = []
        where = f"{self.place.url}: {episode_id}"
        return decode_episode(data, _ShownBlobs(store, problems), where=where), problems

    def _read(self, episode_id: str, summary: EpisodeSummary | None) -> tuple[dict[str, Any], Any]:
        """Returns an episode's data and where its blobs are."""
        place = self.place
        if summary is None:
            return self._read_journal(episode_id)
        content = place.read_episode(episode_id, summary.format, sha256=summary.sha256)
        stored = format_named(summary.format).decode(content, f"{place.url}: {episode_id}")
        return stored.data, stored.blobs or place.blobs_of(episode_id)

    def _read_journal(self, episode_id: str) -> tuple[dict[str, Any], BlobStore]:
        layout = self.place.layout
        if layout is None or not is_episode_id(episode_id):
            raise self._unknown(episode_id)
        try:
            data = journal_data(read_journal(layout.journal(episode_id)))
        except FileNotFoundError:
            raise self._unknown(episode_id) from None
        except OSError as error:
            raise errors.StorageError(f"A journal cannot be read: {error}.") from error
        return data, sealing.blob_store(layout, self.place.header, episode_id)

    def _unknown(self, episode_id: str) -> errors.UnknownEpisodeError:
        return errors.UnknownEpisodeError(f"{self.name!r} has no episode {episode_id!r:.150}.")

    def _url(self, episode_id: str, value: bytes | LazyBlob) -> str:
        where = f"/api/blobs/{self.name}"
        if isinstance(value, LazyBlob):
            blob = value.blob
            return f"{where}/{blob.sha256}.{blob.ext}?episode={episode_id}&size={blob.size}"
        sha256 = hashlib.sha256(value).hexdigest()
        self._kept.put(sha256, value)
        return f"{where}/{sha256}.bin?episode={episode_id}"


class _ShownBlobs:
    """A `BlobSource` for looking: texts at once, bytes later, and gaps are told, not raised."""

    def __init__(self, store: Any, problems: list[str]) -> None:
        self._store = store
        self._lazy = LazyBlobs(store)
        self._problems = problems
        self._texts: dict[Blob, str] = {}

    def load(self, blob: Blob, *, text: bool) -> Any:
        if not text:
            return self._lazy.load(blob, text=False)
        if blob not in self._texts:  # A page's text stands in many prompts.
            try:
                self._texts[blob] = self._store.load(blob, text=True)
            except errors.CorruptDataError as error:
                self._texts[blob] = f"This cannot be read: {error}"
                self._problems.append(self._texts[blob])
        return self._texts[blob]

    def read(self, blob: Blob) -> bytes:
        data: bytes = self._store.read(blob)
        return data


class _KeptBytes:
    """The latest bytes that have no file of their own, by their hash. Safe to share."""

    def __init__(self, most: int = 64 * 1024 * 1024) -> None:
        self._most = most
        self._size = 0
        self._bytes: collections.OrderedDict[str, bytes] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(self, sha256: str) -> bytes | None:
        with self._lock:
            return self._bytes.get(sha256)

    def put(self, sha256: str, data: bytes) -> None:
        with self._lock:
            if sha256 not in self._bytes:
                self._bytes[sha256] = data
                self._size += len(data)
            self._bytes.move_to_end(sha256)
            while self._size > self._most and len(self._bytes) > 1:
                _, dropped = self._bytes.popitem(last=False)
                self._size -= len(dropped)
