"""The blobs of a dataset in a bucket.

They are read many at once, checked against their names, and the latest are kept in memory, or in a
folder of the user's, so that what many steps share is read once.
"""

from __future__ import annotations

import collections
import hashlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.parallel import map_in_order
from webtraj.store.blobs import Blob, BlobSource, BlobStore, as_text, blob_key
from webtraj.store.places import Storage

__all__ = ["BucketBlobs", "FetchedBlobs", "read_checked"]

_CACHE_BYTES = 128 * 1024 * 1024
_WORKERS = 16
_READS = 3


class BucketBlobs:
    """Blobs under keys of a storage. A `BlobSource` and a `BlobSink`; safe to share."""

    def __init__(
        self,
        storage: Storage,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        """Initializes the source.

        Args:
            storage: The dataset's.
            cache: A folder that keeps what was read, for other processes and other days; it is
                never emptied.
            cache_bytes: How much is kept in memory.
        """
        self._storage = storage
        self._folder = None if cache is None else BlobStore(Path(cache))
        self._cache_bytes = cache_bytes
        self._cached: collections.OrderedDict[Blob, bytes] = collections.OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Returns a blob's bytes, or its text.

        Raises:
            CorruptDataError: It is missing, or is not what its name says.
            StorageError: The bucket cannot be read.
        """
        data = self.read(blob)
        return as_text(data, blob_key(blob)) if text else data

    def read(self, blob: Blob) -> bytes:
        """Returns a blob's bytes, checked against its name.

        Raises:
            CorruptDataError: It is missing, or is not what its name says.
            StorageError: The bucket cannot be read.
        """
        with self._lock:
            data = self._cached.get(blob)
            if data is not None:
                self._cached.move_to_end(blob)
                return data
        data = self._read_cached(blob) if self._folder else self._fetch(blob)
        self._keep(blob, data)
        return data

    def read_all(self, blobs: Iterable[Blob]) -> FetchedBlobs:
        """Reads blobs many at once. What cannot be read is left out, and missed by its reader."""
        wanted = list(blobs)
        if not wanted:
            return FetchedBlobs({}, self)
        workers = min(_WORKERS, len(wanted))
        found = zip(wanted, map_in_order(self._try_to_read, wanted, workers=workers), strict=True)
        return FetchedBlobs({blob: data for blob, data in found if data is not None}, self)

    def put(self, data: bytes, ext: str) -> Blob:
        """Keeps `data` unless it is there already, and returns its name.

        Raises:
            StorageError: It cannot be written.
        """
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        if not self.holds(blob):
            self._storage.write(blob_key(blob), data)
        return blob

    def keep(self, blob: Blob) -> bool:
        """Returns whether a blob is there already, and need not be put."""
        return self.holds(blob)

    def holds(self, blob: Blob) -> bool:
        """Returns whether a blob is there, in its full size.

        Raises:
            StorageError: The bucket cannot be read.
        """
        return self._storage.size(blob_key(blob)) == blob.size

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in vars(self).items() if k != "_lock"}
        return {**state, "_cached": collections.OrderedDict(), "_size": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def _try_to_read(self, blob: Blob) -> bytes | None:
        try:
            return self.read(blob)
        except errors.CorruptDataError:
            return None

    def _read_cached(self, blob: Blob) -> bytes:
        assert self._folder is not None
        if self._folder.holds(blob):
            try:
                return self._folder.read(blob)
            except errors.CorruptDataError:  # The bucket's may be sound.
                self._folder.path(blob).unlink(missing_ok=True)
        data = self._fetch(blob)
        try:
            self._folder.put(data, blob.ext)
        except OSError as error:
            raise errors.StorageError(
                f"The blob cache {str(self._folder.root)!r} cannot be written: {error}. Name "
                "another folder, or none."
            ) from error
        return data

    def _fetch(self, blob: Blob) -> bytes:
        key = blob_key(blob)
        try:
            data = read_checked(self._storage, key, blob.sha256)
        except errors.StorageMissingError as error:
            raise errors.CorruptDataError(
                f"The blob {key!r} is missing from {self._storage.url!r}. Copy the blobs along "
                "with the dataset."
            ) from error
        if data is None:
            raise errors.CorruptDataError(
                f"The blob {key!r} in {self._storage.url!r} does not hold what its name says: it "
                "was changed or damaged after it was written."
            )
        return data

    def _keep(self, blob: Blob, data: bytes) -> None:
        if len(data) > self._cache_bytes // 4:
            return
        with self._lock:
            if blob not in self._cached:
                self._cached[blob] = data
                self._size += len(data)
            while self._size > self._cache_bytes:
                _, dropped = self._cached.popitem(last=False)
                self._size -= len(dropped)


def read_checked(storage: Storage, key: str, sha256: str) -> bytes | None:
    """Returns an object of a known hash; None if it is another one.

    What was changed on the way is read again.
    """
    for _ in range(_READS):
        data = storage.read(key)
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
    return None


class FetchedBlobs:
    """A `BlobSource` of blobs that were fetched ahead, and of all others of another source."""

    def __init__(self, fetched: Mapping[Blob, bytes], others: BlobSource) -> None:
        self._fetched = fetched
        self._others = others

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Returns a blob's bytes, or its text."""
        data = self._fetched.get(blob)
        if data is None:
            return self._others.load(blob, text=text)
        return as_text(data, blob_key(blob)) if text else data

    def read(self, blob: Blob) -> bytes:
        """Returns a blob's bytes."""
        data = self._fetched.get(blob)
        return self._others.read(blob) if data is None else data
