"""One dataset in the viewer: its complete episodes, and the bytes of their images."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import IndexTail, add_unindexed, decode_episode
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import DatasetPlace
from webtraj.store import sealing
from webtraj.store.blobs import Blob, BlobSource, BlobStore, LazyBlob, LazyBlobs, blobs_of
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.journal import Journal, read_journal
from webtraj.store.layout import is_episode_id
from webtraj.view.episode import episode_data, last_picture
from webtraj.view.values import small_webp

__all__ = ["Changes", "Follower", "OpenEpisode", "RUNNING", "Source", "UNSEALED", "journal_data"]

# A dataset's list of episodes, followed while it is written: only new data is read.
#
# Nothing is locked or written, so that a viewer never disturbs a writer.

RUNNING = "running"
"""The state of an open episode whose journal was written recently."""
UNSEALED = "unsealed"
"""The state of an open episode whose journal is quiet. `webtraj recover` seals it if its writer
died."""

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
    """The changes in a dataset since the last look."""

    sealed: Sequence[EpisodeSummary]
    """Episodes with new index lines or judgements; all episodes, if `anew`."""
    open: Sequence[OpenEpisode]
    """All open episodes."""
    anew: bool = False
    """Whether to discard earlier results."""
    problem: str = ""
    """Why there are no episodes; empty if the dataset is there."""


class Follower:
    """A reader of one dataset's changes. Not safe to share between threads."""

    def __init__(self, place: DatasetPlace, judgements: Judgements) -> None:
        self._place = place
        self._judgements = judgements
        self._index = IndexTail(place.storage)
        self._known: dict[str, EpisodeSummary] = {}
        self._open: dict[str, tuple[int, EpisodeSummary]] = {}
        self._shown: set[str] = set()
        self._gone: set[str] = set()

    def look(self) -> Changes:
        """Return the changes since the last call; the first call returns everything.

        Raises:
            DatasetError: The index cannot be read.
            StorageError: The place cannot be read.
        """
        try:
            return self._look()
        except Exception:
            self._index.forget()  # Read it again the next time, so that nothing is lost.
            raise

    def _look(self) -> Changes:
        judged = self._judgements.refresh()
        anew, new = self._index.read()
        if anew:
            new = add_unindexed(self._place, {one.episode_id: one for one in new})
            self._known = {}
        changed = [self._known[one] for one in judged if one in self._known]
        self._known |= {summary.episode_id: summary for summary in new}
        new = self._judgements.summarize((*changed, *new))
        still_open = self._open_episodes()
        # While an episode is being sealed, one look may see it neither open nor sealed.
        gone = self._shown - self._open.keys() - self._known.keys()
        if gone & self._gone:  # It was removed.
            self._index.forget()
            gone = set()
        self._gone = gone
        self._shown = gone | self._open.keys()
        layout = self._place.layout
        problem = ""
        if layout is not None and not layout.root.exists():
            problem = (
                f"The folder {str(layout.root)!r} does not exist any more: it was moved or deleted."
            )
        return Changes(new, still_open, anew, problem)

    def _open_episodes(self) -> list[OpenEpisode]:
        layout = self._place.layout
        if layout is None:
            return []
        found: dict[str, tuple[int, EpisodeSummary]] = {}
        episodes = []
        for episode_id in sorted(self._place.open_episodes() - self._known.keys())[:_JOURNALS]:
            path = layout.journal(episode_id)
            try:
                told = path.stat()
                size, summary = self._open.get(episode_id, (-1, None))
                if summary is None or size != told.st_size:
                    summary = self._summary_of_journal(episode_id)
            except OSError:
                continue  # It has just been sealed.
            found[episode_id] = (told.st_size, summary)
            quiet = time.time() - told.st_mtime > _QUIET
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
        except errors.DatasetError:  # `webtraj recover` reports the problem.
            return EpisodeSummary(episode_id=episode_id)
        return msgspec.structs.replace(summary, sha256="")


def journal_data(journal: Journal) -> dict[str, Any]:
    """Return an open episode's data in the form of a sealed one; the end may be missing."""
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
    """A dataset with its name in the viewer. Safe to share between threads."""

    name: str
    """A unique name of characters that are safe in a URL."""
    place: DatasetPlace
    judgements: Judgements
    iteration: int | None = None
    """The number of its iteration, if it belongs to one."""
    _kept: _KeptBytes = dataclasses.field(default_factory=lambda: _KeptBytes(), repr=False)

    def episode_data(self, episode_id: str, summary: EpisodeSummary | None) -> dict[str, Any]:
        """Return an episode as JSON data, with this viewer's URLs.

        Args:
            episode_id: The episode.
            summary: Its index line; None if it is open.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: The episode cannot be read.
            StorageError: The bucket cannot be read.
        """
        trajectory, problems = self._load(episode_id, summary)
        data = episode_data(trajectory, lambda value: self._url(episode_id, value))
        return {**data, "dataset": self.name, "problems": problems + data["problems"]}

    def blob(self, episode_id: str, summary: EpisodeSummary | None, sha256: str) -> bytes:
        """Return the bytes in an episode that have a hash.

        Raises:
            UnknownEpisodeError: There is no such episode, or it has no such bytes.
            CorruptDataError: The bytes cannot be read.
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
        for blob in self.judgements.blobs_of(episode_id):
            if blob.sha256 == sha256:
                return self.shared_blob(blob)
        # Short bytes are inline in the episode, and pixel arrays are encoded as images.
        trajectory, _ = self._load(episode_id, summary)
        episode_data(trajectory, lambda value: self._url(episode_id, value))
        kept = self._kept.get(sha256)
        if kept is None:
            raise errors.UnknownEpisodeError(
                f"No blob {sha256!r:.80} in the episode {episode_id!r} of {self.name!r}."
            )
        return kept

    def thumbnail(self, episode_id: str, summary: EpisodeSummary | None) -> bytes | None:
        """Return a small WebP image of an episode's last page; None without one.

        Episodes in buckets have no thumbnail, because each would need a download.

        Raises:
            UnknownEpisodeError: There is no such episode.
            CorruptDataError: The episode cannot be read.
        """
        if self.place.layout is None:
            return None
        trajectory, _ = self._load(episode_id, summary)
        picture = last_picture(trajectory)
        return None if picture is None else small_webp(picture)

    def shared_blob(self, blob: Blob) -> bytes:
        """Return a blob that episodes share, without reading any episode.

        Raises:
            CorruptDataError: The blob is missing or damaged.
            StorageError: The bucket cannot be read.
        """
        return self.place.blobs.read(blob)

    def _load(
        self, episode_id: str, summary: EpisodeSummary | None
    ) -> tuple[trajectory_lib.EpisodeTrajectory, list[str]]:
        data, store = self._read(episode_id, summary)
        store = store.read_ahead(data)
        problems: list[str] = []
        where = f"{self.place.url}: {episode_id}"
        trajectory = decode_episode(data, _ShownBlobs(store, problems), where=where)
        shown = _ShownBlobs(self.place.blobs, problems)
        return self.judgements.apply(trajectory, blobs=shown), problems

    def _read(self, episode_id: str, summary: EpisodeSummary | None) -> tuple[dict[str, Any], Any]:
        """Return an episode's data and its blob store."""
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
            raise errors.StorageError(
                f"Cannot read the journal of {episode_id!r}: {error}."
            ) from error
        return data, sealing.blob_store(layout, self.place.header, episode_id)

    def _unknown(self, episode_id: str) -> errors.UnknownEpisodeError:
        return errors.UnknownEpisodeError(f"No episode {episode_id!r:.150} in {self.name!r}.")

    def _url(self, episode_id: str, value: bytes | LazyBlob) -> str:
        where = f"/api/blobs/{self.name}"
        if isinstance(value, LazyBlob):
            blob = value.blob
            return f"{where}/{blob.sha256}.{blob.ext}?episode={episode_id}&size={blob.size}"
        sha256 = hashlib.sha256(value).hexdigest()
        self._kept.put(sha256, value)
        return f"{where}/{sha256}.bin?episode={episode_id}"


class _ShownBlobs(BlobSource):
    """A `BlobSource` that loads text at once and bytes lazily, and collects problems."""

    def __init__(self, store: Any, problems: list[str]) -> None:
        self._store = store
        self._lazy = LazyBlobs(store)
        self._problems = problems
        self._texts: dict[Blob, str] = {}

    def load(self, blob: Blob, *, text: bool) -> Any:
        if not text:
            return self._lazy.load(blob, text=False)
        if blob not in self._texts:  # Many prompts repeat a page's text.
            try:
                self._texts[blob] = self._store.load(blob, text=True)
            except errors.CorruptDataError as error:
                self._texts[blob] = str(error)
                self._problems.append(self._texts[blob])
        return self._texts[blob]

    def read(self, blob: Blob) -> bytes:
        data: bytes = self._store.read(blob)
        return data


class _KeptBytes:
    """A cache of recent bytes that are not stored as blobs, by hash. Safe to share."""

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
