"""The objects that an episode becomes in a bucket: the dataset's header, blobs, its file.

Sending again is safe: keys are content hashes and unique ids, and existing objects are not
rewritten. An episode with the same id but other content is never overwritten.
"""

from __future__ import annotations

import contextlib
import threading

from webtraj import errors
from webtraj.store.blobs import Blob, BlobStore, blob_key
from webtraj.store.layout import HEADER, DatasetHeader, episode_key
from webtraj.store.storage import Storage

__all__ = ["EpisodeSender"]

_KNOWN_LIMIT = 50_000
_LARGE = 1 << 20
"""The size in bytes from which it pays to check for a blob before sending it."""


class EpisodeSender:
    """Writes the objects of one dataset. Safe to share between threads."""

    def __init__(self, storage: Storage, format_name: str) -> None:
        self.storage = storage
        self._format = format_name
        self._known: set[Blob] = set()
        self._doubtful: set[str] = set()
        self._same_blob = [threading.Lock() for _ in range(256)]
        self._prepared = False
        self._preparing = threading.Lock()
        self._failed_with: Exception | None = None
        """The last failure of `prepare`, for those who waited for it."""

    def check_destination(self) -> bool:
        """Check that the bucket's dataset, if any, accepts episodes of this format.

        Returns:
            Whether it has a dataset.

        Raises:
            InvalidInputError: Its dataset is of another format.
            DatasetError: Its header cannot be read, or is from a newer webtraj.
            StorageError: The bucket cannot be read.
        """
        try:
            content = self.storage.read(HEADER)
        except errors.StorageMissingError:
            return False
        found = DatasetHeader.from_bytes(content, f"{self.storage.url}/{HEADER}")
        if found != DatasetHeader(format=self._format):
            kept = "is a spool" if found.destination else f"has format {found.format!r}"
            raise errors.InvalidInputError(
                f"The dataset {self.storage.url!r} {kept}, so it cannot take episodes of format "
                f"{self._format!r}. Choose another prefix, or collect in that format."
            )
        return True

    def prepare(self) -> None:
        """Make the bucket a dataset, unless it is one already.

        Raises:
            InvalidInputError: It is a dataset of another format.
            DatasetError: Its header cannot be read, or is from a newer webtraj.
            StorageError: The bucket cannot be read or written.
        """
        before = self._failed_with
        with self._preparing:
            if self._prepared:
                return
            if self._failed_with is not before and self._failed_with is not None:
                raise self._failed_with  # It may have taken long; do not let each thread try.
            try:
                self._make_dataset()
            except Exception as error:
                self._failed_with = error
                raise
            self._prepared = True

    def _make_dataset(self) -> None:
        if not self.check_destination():
            header = DatasetHeader(format=self._format)
            # If another writer is faster, its header counts.
            with contextlib.suppress(errors.StorageConflictError):
                self.storage.write(HEADER, header.to_bytes(), overwrite=False)
            self.check_destination()

    def has_sent(self, blob: Blob) -> bool:
        """Return whether a blob is known to be in the bucket."""
        return blob in self._known

    def send_blob(self, blob: Blob, store: BlobStore) -> int:
        """Send a blob, unless the bucket has it; return the number of bytes sent.

        Raises:
            StorageError: The bucket does not accept it.
            CorruptDataError: Its file is missing or damaged.
        """
        key = blob_key(blob)
        with self._same_blob[int(blob.sha256[:2], 16)]:  # Episodes that share it send it once.
            if self.has_sent(blob):
                return 0
            if blob.size >= _LARGE and self._has(key, blob):
                sent = 0
            else:
                sent = self._send_file(key, blob, store)
                self._doubtful.discard(key)
            if len(self._known) >= _KNOWN_LIMIT:
                self._known.clear()
            self._known.add(blob)
            return sent

    def _has(self, key: str, blob: Blob) -> bool:
        return key not in self._doubtful and self.storage.size(key) == blob.size

    def _send_file(self, key: str, blob: Blob, store: BlobStore) -> int:
        try:
            data = store.read(blob)
        except errors.CorruptDataError:
            # A blob missing here was sent: removing its episode from the spool was interrupted.
            if not store.holds(blob) and self._has(key, blob):
                return 0
            raise
        return self._write_blob(key, data)

    def _write_blob(self, key: str, data: bytes) -> int:
        # A multipart upload cannot be conditional.
        replaces = len(data) >= _LARGE or key in self._doubtful
        try:
            self.storage.write(key, data, overwrite=True if replaces else None)
        except errors.StorageConflictError:
            if self.storage.read(key) == data:
                return 0
            self.storage.write(key, data)  # The object is damaged: its name is its content's hash.
        except errors.StorageError:
            self._doubtful.add(key)  # Part of it may have arrived.
            raise
        return len(data)

    def send_episode(self, episode_id: str, content: bytes) -> int:
        """Send an episode's file; return the number of bytes sent.

        Raises:
            StorageError: The bucket does not accept it.
            CollectorError: The bucket has another episode with the same id.
        """
        key = episode_key(episode_id, self._format)
        try:
            if len(content) < _LARGE:
                self.storage.write(key, content, overwrite=False)
                return len(content)
            if self.storage.size(key) is None:  # A multipart upload cannot be conditional.
                self.storage.write(key, content)
                return len(content)
        except errors.StorageConflictError:
            pass
        if self.storage.read(key) != content:
            raise errors.CollectorError(
                f"{self.storage.url!r} already has another episode as {key!r}, which is not "
                "overwritten. Every episode needs its own id."
            )
        return 0
