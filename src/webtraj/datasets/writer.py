"""Write whole episodes into a dataset, in a folder or a bucket.

This is for episodes that already exist, as trajectories or as data: imported, converted or merged.
To record a running episode, use a collector.

Writes happen in the same order as sealing: blobs, then the episode file, then its index line. A
crash in between leaves a readable dataset, and adding the same episodes again completes it: an
episode that exists already is compared, and skipped if it is the same. Any number of writers, and
of threads in each, may add to one dataset at once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.dataset import encode_episode
from webtraj.datasets.place import DatasetPlace, Place, create_place, map_in_order
from webtraj.store.blobs import Blob, BlobSource, BlobStore, blobs_of
from webtraj.store.closeable import Closing
from webtraj.store.formats import EpisodeFormat, format_named
from webtraj.store.index import EpisodeSummary, IndexWriter, index_file_name, merge, summarize
from webtraj.store.layout import INDEX, DatasetHeader, episode_key

__all__ = ["Addition", "DatasetWriter", "MemoryBlobs"]

_SHARD_LINES = 500
_WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Addition:
    """The result of adding an episode."""

    summary: EpisodeSummary
    added: bool
    """False if the same episode was there already."""


class DatasetWriter(Closing):
    """Adds whole episodes to a dataset. Safe to share between threads.

    >>> import tempfile
    >>> from webtraj import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory
    >>> end = EpisodeEnd(reason=EndReason.CLOSED)
    >>> with tempfile.TemporaryDirectory() as folder, DatasetWriter(folder) as writer:
    ...     writer.add(EpisodeTrajectory(EpisodeInfo(episode_id="e1"), end=end)).episode_id
    'e1'
    """

    def __init__(
        self,
        place: Place,
        *,
        format: str = "json",  # noqa: A002  (As in DatasetHeader.)
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Initialize the writer, and create the dataset if it does not exist.

        Args:
            place: A folder's path or a URL: new, empty, or a dataset of the same format.
            format: The format of the episode files; see `webtraj.store`.
            storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

        Raises:
            CollectorError: The folder cannot be written.
            InvalidInputError: The format is unknown, or the dataset has another one.
            NotADatasetError: The folder holds other files.
            UnsupportedSchemaError: A newer webtraj created the dataset.
            StorageError: The bucket cannot be written.
        """
        self._format = format_named(format)
        self._place = create_place(place, DatasetHeader(format=format), storage_options)
        self._lock = threading.Lock()
        self._listed: set[str] = set()
        self._knows_index = False
        self._lines: list[EpisodeSummary] = []
        self._shard = 0
        layout = self._place.layout
        self._index = None if layout is None else IndexWriter(layout.index)
        self._closed = False

    @property
    def url(self) -> str:
        """The dataset's folder path, or its URL without credentials."""
        return self._place.url

    @property
    def place(self) -> DatasetPlace:
        """The dataset's location."""
        return self._place

    @property
    def format(self) -> EpisodeFormat:
        """The format of the episode files."""
        return self._format

    def add(self, trajectory: trajectory_lib.EpisodeTrajectory) -> EpisodeSummary:
        """Add an episode that has ended. The episode is stored when this returns.

        In a bucket its index line may follow later, at the latest in `close`.

        Returns:
            The episode's summary in the index.

        Raises:
            InvalidInputError: The episode has no end, or a field that is not a record where one is
                needed.
            InvalidEpisodeIdError: Its id cannot be a file name.
            StorageConflictError: The dataset has a different episode with that id.
            StorageError: The episode cannot be written.
        """
        blobs = MemoryBlobs()
        return self.add_data(encode_episode(trajectory, blobs), blobs)

    def add_data(self, episode: Mapping[str, Any], blobs: BlobSource) -> EpisodeSummary:
        """Add an episode given as data (see `webtraj.store.layout`).

        Args:
            episode: The episode's data.
            blobs: Source of the blobs that it refers to.

        Returns:
            The episode's summary in the index.

        Raises:
            CorruptDataError: The data does not follow the format, or a blob is missing or damaged.
            StorageConflictError: The dataset has a different episode with that id.
            StorageError: The episode cannot be written.
        """
        content = self._format.encode(episode, blobs)
        return self.add_file(episode, content, blobs).summary

    def add_file(self, episode: Mapping[str, Any], content: bytes, blobs: BlobSource) -> Addition:
        """Add an episode as `add_data` does, with its file content already encoded.

        Args:
            episode: The episode's data.
            content: The content of its file, in the dataset's format.
            blobs: Source of the blobs that it refers to.
        """
        if self._closed:
            raise errors.CollectorClosedError(
                f"The writer of {self.url!r} is closed. Open a new one on the same dataset."
            )
        summary = summarize(episode, content, blobs, self._format.name)
        if self._has(summary.episode_id):
            return Addition(self._complete(self._compare(summary, episode)), added=False)
        if not self._format.self_contained:
            self._put_blobs(blobs_of(episode), blobs)
        key = episode_key(summary.episode_id, self._format.name)
        added = True
        try:
            self._place.storage.write(key, content, overwrite=False)
        except errors.StorageConflictError:  # Another writer was faster.
            summary, added = self._compare(summary, episode), False
        self._list(summary)
        return Addition(summary, added=added)

    def flush(self) -> None:
        """Wait until every added episode is in the index.

        Raises:
            StorageError: The index cannot be written; the next `flush` tries again.
        """
        with self._lock:
            self._write_shard()

    def close(self) -> None:
        """Complete the index. Idempotent.

        Raises:
            StorageError: The index cannot be written; adding the same episodes again completes it.
        """
        self._closed = True
        self.flush()
        if self._index is not None:
            self._index.close()

    def _has(self, episode_id: str) -> bool:
        """Return whether an episode with that id exists.

        Raises:
            StorageConflictError: It is still open.
        """
        layout = self._place.layout
        if layout is not None and layout.journal(episode_id).exists():
            raise errors.StorageConflictError(
                f"The episode {episode_id!r} is being recorded in {self.url!r}, or waits for "
                "`webtraj recover`. Use another id."
            )
        return self._place.storage.size(episode_key(episode_id, self._format.name)) is not None

    def _compare(self, summary: EpisodeSummary, episode: Mapping[str, Any]) -> EpisodeSummary:
        """Return the summary of the stored episode, if it is the same.

        Raises:
            StorageConflictError: The stored episode differs.
        """
        key = episode_key(summary.episode_id, self._format.name)
        found = self._place.storage.read(key)
        sha256 = hashlib.sha256(found).hexdigest()
        if sha256 == summary.sha256:
            return summary
        # Another version may have encoded the same episode differently.
        stored = self._format.decode(found, key)
        if orjson.dumps(stored.data) != orjson.dumps(episode):
            raise errors.StorageConflictError(
                f"The dataset {self.url!r} already has a different episode {summary.episode_id!r}. "
                "Give this one another id."
            )
        return msgspec.structs.replace(summary, size=len(found), sha256=sha256)

    def _complete(self, summary: EpisodeSummary) -> EpisodeSummary:
        """Add the index line of an existing episode, unless it has one."""
        with self._lock:
            if not self._knows_index:
                self._listed |= merge(self._place.read_index()).keys()
                self._knows_index = True
            listed = summary.episode_id in self._listed
        if not listed:
            self._list(summary)
        return summary

    def _put_blobs(self, wanted: set[Blob], blobs: BlobSource) -> None:
        target = self._place.blobs

        def put(blob: Blob) -> None:
            if not target.keep(blob):
                _check_name(blob, target.put(blobs.read(blob), blob.ext))

        # From folder to folder, one at a time: threads would only wait for each other.
        slow = target.is_remote or blobs.is_remote
        try:
            for _ in map_in_order(put, wanted, workers=_WORKERS) if slow else map(put, wanted):
                pass
            if isinstance(target, BlobStore):
                target.sync(wanted)
        except OSError as error:
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.StorageError(
                f"Could not write a blob to {self.url!r}: {error}."
            ) from error

    def _list(self, summary: EpisodeSummary) -> None:
        with self._lock:
            self._listed.add(summary.episode_id)
            if self._index is None:
                self._lines.append(summary)
                if len(self._lines) >= _SHARD_LINES:
                    self._write_shard()
                return
        try:
            self._index.append(summary, sync=True)
        except OSError as error:
            raise errors.StorageError(
                f"Could not write the index of {self.url!r}: {error}. Add the episode again, or "
                "run `webtraj recover`."
            ) from error

    def _write_shard(self) -> None:
        if not self._lines:
            return
        name = index_file_name(f"-{self._shard:06}")
        lines = b"".join(summary.to_line() for summary in self._lines)
        self._place.storage.write(INDEX + name, lines)
        self._shard += 1
        self._lines.clear()


class MemoryBlobs(BlobSource):
    """Blobs of a trajectory, held in memory. A `BlobSink` too."""

    def __init__(self) -> None:
        self._blobs: dict[Blob, bytes] = {}

    def put(self, data: bytes, ext: str) -> Blob:
        """Store `data` and return its name."""
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        self._blobs[blob] = data
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes."""
        return self._blobs[blob]


def _check_name(wanted: Blob, found: Blob) -> None:
    if wanted != found:
        raise errors.CorruptDataError(
            f"A blob named {wanted.sha256!r:.80} ({wanted.size} bytes) holds "
            f"{found.sha256!r} ({found.size} bytes)."
        )
