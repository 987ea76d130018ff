"""Blobs: bytes stored once each, named by their content.

A blob holds bytes or text too long for a record. Its file appears whole or not at all and never
changes, so any number of writers can share a store without a lock.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import orjson

from webtraj import errors
from webtraj.shown import Shown
from webtraj.store import files
from webtraj.store.values import TAG

__all__ = [
    "BLOBS",
    "Blob",
    "BlobSink",
    "BlobSource",
    "BlobStore",
    "LazyBlob",
    "LazyBlobs",
    "RecordingSink",
    "as_text",
    "blob_key",
    "blobs_in",
    "blobs_of",
]

BLOBS = "blobs/"
"""The prefix of blob keys, in a folder or a bucket."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_EXT = re.compile(r"[a-z0-9]{1,8}")


@dataclasses.dataclass(frozen=True, slots=True)
class Blob:
    """The content-based name of bytes that are stored beside the record."""

    sha256: str
    ext: str
    size: int


class BlobSink(Protocol):
    """Stores bytes that are too long for a record."""

    def put(self, data: bytes, ext: str) -> Blob:
        """Store `data` and return its name."""


class BlobSource(Protocol):
    """Loads blobs. A subclass needs only `read`."""

    is_remote: bool = False
    """Whether each read waits for a network."""

    def read_ahead(self, data: Any) -> BlobSource:
        """Return a source of the blobs in an episode's data, read ahead if reads are slow."""
        return self

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Return the blob's bytes or text, or an object that loads them lazily.

        Raises:
            CorruptDataError: The blob is missing, damaged, or not text.
        """
        data = self.read(blob)
        return as_text(data, f"blob {blob.sha256}") if text else data

    def read(self, blob: Blob) -> bytes:
        """Return the blob's bytes."""


def blob_key(blob: Blob, prefix: str = BLOBS) -> str:
    """Return the key of a blob.

    Raises:
        CorruptDataError: No store could have produced its name.
    """
    if not (_SHA256.fullmatch(str(blob.sha256)) and _EXT.fullmatch(str(blob.ext))):
        raise errors.CorruptDataError(
            f"Invalid blob name {blob.sha256!r:.100}.{blob.ext!r:.20}: expected 64 hex digits and "
            "an extension of up to 8 letters or digits."
        )
    return f"{prefix}{blob.sha256[:2]}/{blob.sha256}.{blob.ext}"


_KNOWN_LIMIT = 100_000


class BlobStore(BlobSource):
    """A folder of blobs. A `BlobSink` and a `BlobSource`."""

    def __init__(self, root: Path, *, within: Path | None = None, flat: bool = False) -> None:
        """Initialize the store. The folder is made when the first blob is stored.

        Args:
            root: The folder.
            within: The folder that all writes must stay in: symbolic links below it are not
                followed for writing. Default: `root`, which may itself be a link.
            flat: Whether blobs are stored directly in the folder, rather than in subfolders `ab/`
                named by the first two digits of their names.
        """
        self.root = root
        self._flat = flat
        self._within = root if within is None else within
        self._known: set[Blob] = set()
        self._folders: set[Path] = set()

    def put(self, data: bytes, ext: str) -> Blob:
        """Store `data` unless it is already stored, and return its name.

        Raises:
            OSError: It cannot be written.
        """
        blob = Blob(hashlib.sha256(data).hexdigest(), ext, len(data))
        if not self.keep(blob):
            path = self.path(blob)
            self._make_folder(path.parent)
            files.write_atomically(path, data)
            self._note(blob)
        return blob

    def keep(self, blob: Blob) -> bool:
        """Keep a blob as `put` does if it is stored already; return whether it is."""
        if blob in self._known:
            return True
        if not self.holds(blob):  # A blob that a power cut truncated is written again.
            return False
        self._note(blob)
        return True

    def _note(self, blob: Blob) -> None:
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known.add(blob)

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Return a blob's bytes or its text. See `BlobSource.load`."""
        data = self.read(blob)
        return as_text(data, str(self.path(blob))) if text else data

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes, checked against its name.

        Raises:
            CorruptDataError: It is missing, or does not match its name.
        """
        path = self._path(blob)
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (A third of the time.)
                data = file.readall()
        except OSError as error:
            raise errors.CorruptDataError(
                f"Cannot read the blob {path!r}: {error.strerror}. "
                "Copy the blobs folder along with the dataset."
            ) from error
        if hashlib.sha256(data).hexdigest() != blob.sha256:
            raise errors.CorruptDataError(
                f"The blob {path!r} does not match its name: it was changed or damaged after it "
                "was written."
            )
        return data

    def holds(self, blob: Blob) -> bool:
        """Return whether a blob's file exists with its full size."""
        try:
            return os.lstat(self._path(blob)).st_size == blob.size
        except OSError:
            return False

    def sync(self, blobs: Iterable[Blob]) -> None:
        """Wait until blobs are on the disk."""
        paths = [self.path(blob) for blob in blobs]
        for path in paths:
            files.sync_file(path)
        for folder in {path.parent for path in paths}:
            files.sync_folder(folder)

    def path(self, blob: Blob) -> Path:
        """Return the path of a blob.

        Raises:
            CorruptDataError: No store could have produced its name.
        """
        return Path(self._path(blob))

    def _path(self, blob: Blob) -> str:
        """Return the path of a blob, without the cost of a `Path`."""
        key = blob_key(blob, prefix="")
        return f"{self.root}/{key[3:] if self._flat else key}"

    def _make_folder(self, folder: Path) -> None:
        if folder not in self._folders:
            files.check_no_links(self._within, folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._folders.add(folder)


class RecordingSink:
    """A blob sink that remembers its blobs, so that they can be synced later."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self.blobs: set[Blob] = set()

    def put(self, data: bytes, ext: str) -> Blob:
        """Store `data` and remember its name."""
        blob = self._store.put(data, ext)
        self.blobs.add(blob)
        return blob


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class LazyBlob(Shown):
    """Bytes or text that are read on request."""

    blob: Blob
    text: bool
    store: BlobSource = dataclasses.field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<{self.blob.size:,} bytes of {self.blob.ext}>"

    @property
    def path(self) -> Path:
        """The file that holds the bytes.

        Raises:
            InvalidInputError: They have no file of their own: they are stored in a bucket, or in
                their episode's file.
        """
        if not isinstance(self.store, BlobStore):
            raise errors.InvalidInputError(
                f"The blob {self.blob.sha256!r:.100} has no file of its own. Use load()."
            )
        return self.store.path(self.blob)

    def load(self) -> Any:
        """Return the bytes or the text.

        Raises:
            CorruptDataError: They are missing, or do not match their name.
        """
        return self.store.load(self.blob, text=self.text)


class LazyBlobs(BlobSource):
    """A `BlobSource` that reads a blob only when its content is used."""

    def __init__(self, store: BlobSource) -> None:
        self._store = store

    def load(self, blob: Blob, *, text: bool) -> LazyBlob:
        """Return the blob as a `LazyBlob`."""
        return LazyBlob(blob, text, self._store)

    def read(self, blob: Blob) -> bytes:
        """Return a blob's bytes."""
        return self._store.read(blob)


def as_text(data: bytes, where: str) -> str:
    """Return a blob's bytes as text. `where` names it in errors.

    Raises:
        CorruptDataError: They are not UTF-8.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise errors.CorruptDataError(
            f"{where!r} should be text but is not UTF-8: {error}."
        ) from error


# References: find the blobs that a record refers to, without decoding it.


def blobs_in(lines: bytes) -> set[Blob]:
    """Return the blobs that lines of JSON refer to; invalid lines are skipped.

    Raises:
        CorruptDataError: A reference does not follow the format.
    """
    found: set[Blob] = set()
    for line in lines.splitlines():
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        found |= blobs_of(data)
    return found


def blobs_of(data: Any) -> set[Blob]:
    """Return the blobs that parsed JSON refers to.

    Raises:
        CorruptDataError: A reference does not follow the format.
    """
    try:
        return {
            Blob(str(sha256), str(ext), int(size))
            for sha256, ext, size in set(_find_references(data))
        }
    except (KeyError, TypeError, ValueError) as error:
        raise errors.CorruptDataError(
            f"A reference to a blob does not follow the format: {type(error).__name__}: {error}. "
            "Run `webtraj verify` on the dataset."
        ) from error


def _find_references(data: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the hash, extension and size in each reference. Most blobs occur several times."""
    # A list instead of recursion: this looks at every value of every episode that is sent.
    left = [data]
    while left:
        data = left.pop()
        if isinstance(data, dict):
            kind = data.get(TAG)
            if kind in ("blob", "text"):
                yield data["sha256"], data["ext"], data["size"]
                continue
            if kind == "nested":
                left.append(orjson.loads(data["v"]))
                continue
            data = data.values()
        elif not isinstance(data, list):
            continue
        left += [value for value in data if type(value) is dict or type(value) is list]
