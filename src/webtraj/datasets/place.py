"""Where one dataset lies: a folder or a bucket, with the same keys in both.

In a folder there may be living writers: it has journals, and index files that are appended to. In
a bucket every object is written once and whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from webtraj import errors
from webtraj.datasets.bucket_blobs import BucketBlobs, read_checked
from webtraj.datasets.parallel import map_in_order
from webtraj.store import formats, sealing
from webtraj.store.blobs import BlobStore
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
from webtraj.store.places import FolderStorage, Storage, is_key, is_url, open_storage

__all__ = ["DatasetPlace", "Place", "create_place", "open_place"]

Place = str | os.PathLike[str]
"""A folder's path, or a URL."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_WORKERS = 16
_LISTINGS = 100
_FILE_URL = re.compile(r"file://", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetPlace:
    """A dataset's header, files and blobs, wherever they lie."""

    storage: Storage
    header: DatasetHeader
    layout: DatasetLayout | None
    """The paths, if it lies in a folder."""
    blobs: BlobStore | BucketBlobs
    """The blobs that episodes share."""

    @property
    def url(self) -> str:
        """Names the place for people: a path, or a URL without credentials."""
        return self.storage.url

    @property
    def is_remote(self) -> bool:
        """Whether each read waits for a network."""
        return self.layout is None

    def map(
        self, function: Callable[[_Item], _Result], items: Iterable[_Item], *, workers: int
    ) -> Iterator[_Result]:
        """Yields `function(item)` of each item, in order; what waits for a network, ahead of time.

        Args:
            function: What reads. It is called on threads then.
            items: Of what.
            workers: How many are read at once, at most.
        """
        if self.is_remote:
            return map_in_order(function, items, workers=workers)
        return map(function, items)  # Threads would only wait for each other.

    def blobs_of(self, episode_id: str) -> BlobStore | BucketBlobs:
        """Returns where the blobs of an episode lie that its file does not hold."""
        if self.layout is not None and self.header.destination:
            return sealing.blob_store(self.layout, self.header, episode_id)
        return self.blobs

    def read_episode(self, episode_id: str, format_name: str, *, sha256: str = "") -> bytes:
        """Return the content of an episode's file.

        Args:
            episode_id: The episode.
            format_name: The format that the end of the file's name says.
            sha256: The file's hash in the index, which is checked; empty if there is none.

        Raises:
            CorruptDataError: It is not there, or is another than the hash says.
            StorageError: It cannot be read.
        """
        key = episode_key(episode_id, format_name)
        try:
            if not sha256:
                return self.storage.read(key)
            content = read_checked(self.storage, key, sha256)
        except errors.StorageMissingError as error:
            raise errors.CorruptDataError(
                f"The episode {episode_id!r} is in the index, but {key!r} is missing from "
                f"{self.url!r}. Run `webtraj verify {self.url}`."
            ) from error
        if content is None:
            raise errors.CorruptDataError(
                f"The file {key!r} of {self.url!r} is not what the index says of the episode "
                f"{episode_id!r}: it was changed or damaged after it was written. Run `webtraj "
                f"verify {self.url}`; if the change is meant to stay, `webtraj index {self.url} "
                "--rebuild` makes the index anew."
            )
        return content

    def sealed_episodes(self) -> dict[str, str]:
        """Returns the names of the formats of the episodes that have a file, by id.

        Raises:
            StorageError: They cannot be listed.
        """
        if self.layout is not None:
            return self.layout.sealed_episodes()
        found = {}
        for entry in self.storage.list(EPISODES):
            name = formats.split_name(entry.key.removeprefix(EPISODES))
            if name is not None and is_episode_id(name[0]):
                found[name[0]] = name[1]
        return found

    def open_episodes(self) -> set[str]:
        """Returns the ids of the episodes that have a journal; in a bucket, there are none."""
        return set() if self.layout is None else self.layout.open_episodes()

    def index_names(self) -> list[str]:
        """Returns the names of the index's files.

        Raises:
            StorageError: They cannot be listed.
        """
        if self.layout is not None:
            names = (path.name for path in self.layout.index.glob("[!.]*.jsonl"))
            return sorted(filter(is_key, names))  # Not "x (copy).jsonl", made by a desktop.
        names = (entry.key.removeprefix(INDEX) for entry in self.storage.list(INDEX))
        return sorted(name for name in names if name.endswith(".jsonl") and is_key(name))

    def read_index(self) -> dict[str, IndexFile]:
        """Returns what the index's files say, by their names.

        Files that a rebuild replaces meanwhile are looked for again.

        Raises:
            CorruptDataError: They go on changing.
            StorageError: One cannot be read.
        """
        found: dict[str, IndexFile] = {}
        for _ in range(_LISTINGS):
            names = self.index_names()
            # In a bucket nothing is appended to: what was read once need not be read again.
            known = {name: found[name] for name in names if name in found}
            missing = [name for name in names if name not in known]
            try:
                found = known | self._read_index_files(missing)
            except errors.StorageMissingError:
                found = known if self.is_remote else {}
                continue
            return {name: found[name] for name in names}
        raise errors.CorruptDataError(
            f"The index of {self.url!r} changed each of the {_LISTINGS} times that it was read. "
            "Stop what rebuilds it over and over, and try again."
        )

    def _read_index_files(self, names: list[str]) -> dict[str, IndexFile]:
        contents = self.map(lambda name: self.storage.read(INDEX + name), names, workers=_WORKERS)
        return dict(zip(names, map(parse_index_file, contents), strict=True))


def open_place(
    place: Place,
    storage_options: Mapping[str, Any] | None = None,
    *,
    blob_cache: Place | None = None,
) -> DatasetPlace:
    """Returns the dataset that a path or URL names.

    Args:
        place: A folder's path, or a URL.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        blob_cache: For a bucket: a folder that keeps the blobs that were read.

    Raises:
        NotADatasetError: There is no dataset.
        CorruptDataError: Its dataset.json cannot be read.
        UnsupportedSchemaError: It was written by a newer webtraj.
        StorageError: The bucket cannot be read.
    """
    storage = _storage(place, storage_options)
    if isinstance(storage, FolderStorage):
        layout = DatasetLayout(storage.root)
        return DatasetPlace(
            storage, layout.check(), layout, BlobStore(layout.blobs, within=layout.root)
        )
    try:
        content = storage.read(HEADER)
    except errors.StorageMissingError as error:
        raise errors.NotADatasetError(
            f"{storage.url!r} is not a webtraj dataset: it has no {HEADER} ({error}). "
            "Name the place that a collector wrote to."
        ) from error
    header = DatasetHeader.from_bytes(content, f"{storage.url.rstrip('/')}/{HEADER}")
    return DatasetPlace(storage, header, None, BucketBlobs(storage, cache=blob_cache))


def create_place(
    place: Place, header: DatasetHeader, storage_options: Mapping[str, Any] | None = None
) -> DatasetPlace:
    """Makes a path or URL a dataset, or checks that it is one of the same kind.

    Raises:
        CollectorError: The folder cannot be written.
        InvalidInputError: It is a dataset of another format.
        NotADatasetError: The folder holds other things already.
        UnsupportedSchemaError: It was made by a newer webtraj.
        StorageError: The bucket cannot be written.
    """
    storage = _storage(place, storage_options)
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
            f"The dataset {storage.url!r} is of format {found.header.format!r}, and cannot take "
            f"episodes of format {header.format!r}. Name another place; `webtraj convert` makes "
            "one format of another."
        )
    return found


def _storage(place: Place, options: Mapping[str, Any] | None) -> Storage:
    if is_url(place) and _FILE_URL.match(os.fspath(place)):
        # A folder after all, and one may look into it while it is being written.
        parts = urllib.parse.urlsplit(os.fspath(place))
        if parts.netloc not in ("", "localhost"):
            raise errors.InvalidInputError(
                f"{os.fspath(place)!r:.200} names a folder on another machine; expected "
                "file:///path."
            )
        place = Path(urllib.parse.unquote(parts.path))
    return open_storage(place, options)
