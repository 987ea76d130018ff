"""The location of a dataset: a folder or a bucket, with the same keys in both.

A folder may have active writers: it has journals, and index files that are appended to. In a
bucket, every object is written once and whole.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from webtraj import errors
from webtraj.store import layout, sealing
from webtraj.store.blobs import Blob, BlobSource, BlobStore, blob_key, blobs_of
from webtraj.store.index import IndexFile, parse_index_file
from webtraj.store.layout import (
    EPISODES,
    HEADER,
    INDEX,
    DatasetHeader,
    DatasetLayout,
    episode_key,
    is_episode_id,
)
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import FolderStorage, Storage, is_key

__all__ = [
    "BucketBlobs",
    "DatasetPlace",
    "FetchedBlobs",
    "Place",
    "absolute_place",
    "create_place",
    "index_names",
    "map_in_order",
    "open_place",
    "read_checked",
]


def absolute_place(place: str) -> str:
    """Return a dataset's URL, or its absolute path."""
    return place if is_url(place) else str(Path(place).resolve())


# Run slow calls, such as bucket reads, in parallel and in order.

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
) -> Iterator[_Result]:
    """Yield `function(item)` for each item, in order, computed ahead by threads.

    At most `workers` results are pending, so memory stays bounded. An error is raised when its
    item's turn comes; later items are not computed.

    >>> list(map_in_order(str.upper, ["a", "b", "c"], workers=2))
    ['A', 'B', 'C']
    """
    executor = concurrent.futures.ThreadPoolExecutor(workers, "webtraj-parallel")
    waiting: collections.deque[concurrent.futures.Future[_Result]] = collections.deque()
    try:
        for item in items:
            waiting.append(executor.submit(function, item))
            if len(waiting) >= workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


# The blobs of a dataset in a bucket.
#
# They are read in parallel and checked against their names. The latest are kept in memory, or in a
# folder of the user's choice, so that blobs shared by many steps are read once.

_CACHE_BYTES = 128 * 1024 * 1024
_WORKERS = 16
_READS = 3


class BucketBlobs(BlobSource):
    """Blobs in a storage. A `BlobSink` too; safe to share between threads."""

    is_remote = True

    def __init__(
        self,
        storage: Storage,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        """Initialize the source.

        Args:
            storage: The dataset's storage.
            cache: A folder that caches blobs for other processes and later runs; never emptied.
            cache_bytes: The most bytes to keep in memory.
        """
        self._storage = storage
        self._folder = None if cache is None else BlobStore(Path(cache))
        self._cache_bytes = cache_bytes
        self._cached: collections.OrderedDict[Blob, bytes] = collections.OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes, checked against its name.

        Raises:
            CorruptDataError: The blob is missing, or does not match its name.
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

    def read_ahead(self, data: Any) -> BlobSource:
        """Read the blobs in parallel. Damaged or missing ones raise when they are read later."""
        wanted = list(blobs_of(data))
        if not wanted:
            return self
        workers = min(_WORKERS, len(wanted))
        found = zip(wanted, map_in_order(self._try_to_read, wanted, workers=workers), strict=True)
        return FetchedBlobs({blob: data for blob, data in found if data is not None}, self)

    def put(self, data: bytes, ext: str) -> Blob:
        """Store `data` unless it exists already, and return its name.

        Raises:
            StorageError: It cannot be written.
        """
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        if not self.holds(blob):
            self._storage.write(blob_key(blob), data)
        return blob

    def keep(self, blob: Blob) -> bool:
        """Return whether a blob exists already, and need not be put."""
        return self.holds(blob)

    def holds(self, blob: Blob) -> bool:
        """Return whether a blob exists in its full size.

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
            except errors.CorruptDataError:  # The bucket may have a good copy.
                self._folder.path(blob).unlink(missing_ok=True)
        data = self._fetch(blob)
        try:
            self._folder.put(data, blob.ext)
        except OSError as error:
            raise errors.StorageError(
                f"Cannot write the blob cache {str(self._folder.root)!r}: {error}. Choose "
                "another folder, or none."
            ) from error
        return data

    def _fetch(self, blob: Blob) -> bytes:
        key = blob_key(blob)
        try:
            data = read_checked(self._storage, key, blob.sha256)
        except errors.StorageMissingError as error:
            raise errors.CorruptDataError(
                f"The blob {key!r} is missing from {self._storage.url!r}. Copy the blobs together "
                "with the dataset."
            ) from error
        if data is None:
            raise errors.CorruptDataError(
                f"The blob {key!r} in {self._storage.url!r} does not match its name: it was "
                "changed or damaged after it was written."
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
    """Return an object if it has this hash, else None.

    A mismatch may be a transfer error, so the object is read again first.
    """
    for _ in range(_READS):
        data = storage.read(key)
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
    return None


class FetchedBlobs(BlobSource):
    """Prefetched blobs, with another source for the rest."""

    def __init__(self, fetched: Mapping[Blob, bytes], others: BlobSource) -> None:
        self._fetched = fetched
        self._others = others

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes."""
        data = self._fetched.get(blob)
        return self._others.read(blob) if data is None else data


Place = str | os.PathLike[str]
"""A folder's path, or a URL."""


_LISTINGS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetPlace:
    """A dataset's header, files and blobs, in a folder or a bucket."""

    storage: Storage
    header: DatasetHeader
    layout: DatasetLayout | None
    """The dataset's paths; None for a bucket."""
    blobs: BlobStore | BucketBlobs
    """The blobs shared by all episodes."""

    @property
    def url(self) -> str:
        """The path or URL, without credentials, for messages."""
        return self.storage.url

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for a network."""
        return self.storage.is_remote

    def map(
        self, function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
    ) -> Iterator[_Result]:
        """Yield `function(item)` for each item, in order. From a bucket, threads read ahead.

        Args:
            function: Reads one item.
            items: The items.
            workers: The most threads.
        """
        if self.is_remote:
            return map_in_order(function, items, workers=workers)
        return map(function, items)  # Threads would only wait for each other.

    def attempt(
        self, function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
    ) -> Iterator[_Result | errors.DatasetError]:
        """Do what `map` does, but yield the error of an item that cannot be read."""

        def call(item: _Item) -> _Result | errors.DatasetError:
            try:
                return function(item)
            except errors.DatasetError as error:
                return error

        return self.map(call, items, workers=workers)

    def blobs_of(self, episode_id: str) -> BlobStore | BucketBlobs:
        """Return the store of an episode's blobs that its file does not hold."""
        if self.layout is not None and self.header.destination:
            return sealing.blob_store(self.layout, self.header, episode_id)
        return self.blobs

    def read_episode(self, episode_id: str, format_name: str, *, sha256: str = "") -> bytes:
        """Return the content of an episode's file.

        Args:
            episode_id: The episode.
            format_name: The format, as in the file's extension.
            sha256: The file's hash in the index, which is checked; empty to skip the check.

        Raises:
            CorruptDataError: The file is missing, or does not match the hash.
            StorageError: The file cannot be read.
        """
        key = episode_key(episode_id, format_name)
        try:
            if not sha256:
                return self.storage.read(key)
            content = read_checked(self.storage, key, sha256)
        except errors.StorageMissingError as error:
            raise errors.CorruptDataError(
                f"The episode {episode_id!r} is in the index, but {key!r} is missing from "
                f"{self.url!r}. Run `{errors.command('verify', self.url)}`."
            ) from error
        if content is None:
            raise errors.CorruptDataError(
                f"The file {key!r} of {self.url!r} does not match the index entry of episode "
                f"{episode_id!r}: it was changed or damaged after it was written. Run "
                f"`{errors.command('verify', self.url)}`. To keep the change, run "
                f"`{errors.command('index', self.url, '--rebuild')}` to rebuild the index."
            )
        return content

    def sealed_episodes(self, known: Iterable[str] = ()) -> dict[str, str]:
        """Return the format name of each episode that has a file, by episode id.

        Args:
            known: Names of files to leave out.

        Raises:
            StorageError: The episodes cannot be listed.
        """
        if self.layout is not None:
            return self.layout.sealed_episodes(known)
        names = {entry.key.removeprefix(EPISODES) for entry in self.storage.list(EPISODES)}
        found = filter(None, map(layout.split_name, names.difference(known)))
        return {name: format_name for name, format_name in found if is_episode_id(name)}

    def open_episodes(self) -> set[str]:
        """Return the ids of the episodes that have a journal; empty for a bucket."""
        return set() if self.layout is None else self.layout.open_episodes()

    def is_at(self, other: Place) -> bool:
        """Return whether a path or URL is the dataset's own."""
        if self.layout is None or is_url(other):
            return os.fspath(other).rstrip("/") == self.url.rstrip("/")
        return Path(other).resolve() == self.layout.root.resolve()

    def check_outside(self, other: Place, *, or_same: bool = False) -> None:
        """Check that a path or URL is not inside the dataset.

        Args:
            other: The path or URL.
            or_same: Whether the dataset's own path or URL is fine.

        Raises:
            InvalidInputError: It is inside.
        """
        if self.is_at(other):
            is_inside = not or_same
        elif self.layout is None or is_url(other):
            is_inside = os.fspath(other).startswith(self.url.rstrip("/") + "/")
        else:
            is_inside = Path(other).resolve().is_relative_to(self.layout.root.resolve())
        if is_inside:
            raise errors.InvalidInputError(
                f"{os.fspath(other)!r} is inside the dataset {self.url!r}, which may hold only "
                "episodes. Choose a place elsewhere."
            )

    def index_names(self) -> list[str]:
        """Return the names of the index files.

        Raises:
            StorageError: They cannot be listed.
        """
        return index_names(self.storage)

    def read_index(self) -> dict[str, IndexFile]:
        """Return the contents of the index files, by name.

        If a rebuild replaces files meanwhile, they are listed again.

        Raises:
            CorruptDataError: The index keeps changing.
            StorageError: A file cannot be read.
        """
        found: dict[str, IndexFile] = {}
        for _ in range(_LISTINGS):
            names = self.index_names()
            # Nothing in a bucket is appended to, so no file is read twice.
            known = {name: found[name] for name in names if name in found}
            missing = [name for name in names if name not in known]
            try:
                found = known | self._read_index_files(missing)
            except errors.StorageMissingError:
                found = known if self.is_remote else {}
                continue
            return {name: found[name] for name in names}
        raise errors.CorruptDataError(
            f"The index of {self.url!r} changed during all {_LISTINGS} attempts to read it. Stop "
            "the process that keeps rebuilding it, then try again."
        )

    def _read_index_files(self, names: list[str]) -> dict[str, IndexFile]:
        contents = self.map(lambda name: self.storage.read(INDEX + name), names, workers=_WORKERS)
        return dict(zip(names, map(parse_index_file, contents), strict=True))


def index_names(storage: Storage) -> list[str]:
    """Return the names of a dataset's index files.

    Raises:
        StorageError: They cannot be listed.
    """
    # Skips "x (copy).jsonl", made by a file manager.
    names = (entry.key.removeprefix(INDEX) for entry in storage.list(INDEX))
    return sorted(name for name in names if name.endswith(".jsonl") and is_key(name))


def open_place(
    place: Place,
    storage_options: Mapping[str, Any] | None = None,
    *,
    blob_cache: Place | None = None,
) -> DatasetPlace:
    """Open the dataset at a path or URL.

    Args:
        place: A folder's path or a URL.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        blob_cache: Bucket only: a folder that caches blobs.

    Raises:
        NotADatasetError: There is no dataset at `place`.
        CorruptDataError: Its dataset.json cannot be read.
        UnsupportedSchemaError: A newer webtraj wrote it.
        StorageError: The bucket cannot be read.
    """
    storage = open_storage(place, storage_options)
    if isinstance(storage, FolderStorage):
        layout = DatasetLayout(storage.root)
        return DatasetPlace(
            storage, layout.check(), layout, BlobStore(layout.blobs, within=layout.root)
        )
    try:
        content = storage.read(HEADER)
    except errors.StorageMissingError as error:
        raise errors.NotADatasetError(
            f"No dataset at {storage.url!r}: it has no {HEADER} ({error}). "
            "Name the folder or URL that a collector wrote to."
        ) from error
    header = DatasetHeader.from_bytes(content, f"{storage.url.rstrip('/')}/{HEADER}")
    return DatasetPlace(storage, header, None, BucketBlobs(storage, cache=blob_cache))


def create_place(
    place: Place, header: DatasetHeader, storage_options: Mapping[str, Any] | None = None
) -> DatasetPlace:
    """Create a dataset at a path or URL, or check that the existing one has the same header.

    Raises:
        CollectorError: The folder cannot be written.
        InvalidInputError: The existing dataset has another format.
        NotADatasetError: The folder holds other files.
        UnsupportedSchemaError: A newer webtraj created it.
        StorageError: The bucket cannot be written.
    """
    storage = open_storage(place, storage_options)
    if isinstance(storage, FolderStorage):
        layout = DatasetLayout(storage.root)
        return DatasetPlace(
            storage, layout.create(header), layout, BlobStore(layout.blobs, within=layout.root)
        )
    try:
        found = open_place(place, storage_options)
    except errors.NotADatasetError:
        with contextlib.suppress(errors.StorageConflictError):  # Another writer was faster.
            storage.write(HEADER, header.to_bytes(), overwrite=False)
        found = open_place(place, storage_options)
    if found.header != header:
        raise errors.InvalidInputError(
            f"The dataset {storage.url!r} has the format {found.header.format!r} and cannot "
            f"take episodes of format {header.format!r}. Choose another place, or change the "
            "format with `webtraj copy`."
        )
    return found
