"""Where bytes are kept: what a storage is, a folder as one, and opening one by its path or URL.

A storage keeps bytes under keys, whole or not at all. A key is a relative path with `/` between its
parts: `episodes/20261120T130405-9f86.json`. Keys come from webtraj itself, or were checked; a
storage refuses one that leads out of it. No key is another one's folder: who writes `a` does not
write `a/b`, which a folder could not keep.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from webtraj import errors
from webtraj.store import files

__all__ = [
    "Entry",
    "FolderStorage",
    "Storage",
    "check_key",
    "check_prefix",
    "is_hidden",
    "is_key",
    "is_url",
    "open_file",
    "open_storage",
]

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,254}")
_LONGEST = 800
"""S3 allows 1,024 bytes for key and prefix together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An object that a storage holds."""

    key: str
    size: int
    """In bytes."""


class Storage(Protocol):
    """Keeps bytes under keys. Safe to share between threads; calls block.

    Each call tries again by itself, within its time limit, what may heal. Every method raises
    `StorageDeniedError`, `StorageUnavailableError` or another `StorageError` if it fails.
    """

    @property
    def url(self) -> str:
        """Names the storage for people, and for `open_storage`; holds no credentials."""

    def read(self, key: str) -> bytes:
        """Returns all of an object.

        Raises:
            StorageMissingError: There is no such object.
        """

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Writes an object. Nobody ever sees half of it.

        Args:
            key: Its name.
            data: Its bytes.
            overwrite: Whether to replace an object that is there; None where it would be the same
                bytes, so that the storage may do what costs less.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
        """

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`, in no particular order.

        `prefix` is empty or ends in `/`. Objects that are written or deleted meanwhile may or may
        not be among them. What others put there is, also under names that are no keys, which
        `read` refuses; only what has a part that begins with a dot is not.
        """

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none."""


def is_key(key: str) -> bool:
    """Returns whether a text is a key.

    >>> is_key("episodes/20261120T130405-9f86.json"), is_key("../secret"), is_key("/etc/passwd")
    (True, False, False)
    """
    return len(key) <= _LONGEST and all(_PART.fullmatch(part) for part in key.split("/"))


def is_hidden(name: str) -> bool:
    """Returns whether a part of a name begins with a dot.

    >>> is_hidden("blobs/.tmp/x"), is_hidden("blobs/x.png")
    (True, False)
    """
    return name.startswith(".") or "/." in name


def check_key(key: str) -> str:
    """Returns a key if it is one.

    Raises:
        InvalidInputError: It could lead out of its storage, or not every storage could keep it.
    """
    if not is_key(key):
        raise errors.InvalidInputError(
            f"{key!r:.300} is no key of an object; expected parts of A-Z a-z 0-9 . _ = -, none of "
            f"them beginning with a dot or dash, / between them, and {_LONGEST} characters at most."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Returns a prefix of keys if it is one: empty, or a key and `/`.

    Raises:
        InvalidInputError: It is none.
    """
    if prefix and not (prefix.endswith("/") and is_key(prefix[:-1])):
        raise errors.InvalidInputError(
            f"{prefix!r:.300} is no prefix of keys; expected nothing, or parts of a key with / "
            "after each."
        )
    return prefix


_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""How the system says that there is no file of a name, or a folder."""


class FolderStorage:
    """Keeps objects as files of a folder, which is made when the first one is written."""

    def __init__(self, root: str | os.PathLike[str], *, sync: bool = True) -> None:
        """Initializes the storage.

        Args:
            root: The folder.
            sync: Whether a write waits until it is on the disk.
        """
        self.root = Path(root)
        self._sync = sync

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self.root)

    def path(self, key: str) -> Path:
        """Returns where an object lies."""
        return self.root / check_key(key)

    def read(self, key: str) -> bytes:
        """Returns all of an object.

        Raises:
            StorageMissingError: There is no such object.
            StorageError: It cannot be read.
        """
        path = self.path(key)
        try:
            return path.read_bytes()
        except OSError as error:
            raise _translated(error, f"{str(path)!r} could not be read") from error

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Writes an object.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
            StorageDeniedError: A folder on the way to it is a symbolic link.
            StorageError: It cannot be written.
        """
        path = self.path(key)
        files.check_no_links(self.root, path.parent)
        try:
            try:
                files.write_atomically(path, data, sync=self._sync, overwrite=bool(overwrite))
            except FileNotFoundError:
                files.make_folder(path.parent, sync=self._sync)
                files.write_atomically(path, data, sync=self._sync, overwrite=bool(overwrite))
            if self._sync:
                files.sync_folder(path.parent)
        except _ABSENT as error:
            raise errors.StorageError(
                f"{str(path)!r} could not be written: a part of it is a folder, or is none "
                f"({error.strerror})."
            ) from error
        except OSError as error:
            raise _translated(error, f"{str(path)!r} could not be written") from error

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object.

        Raises:
            StorageError: It cannot be looked at.
        """
        path = self.path(key)
        try:
            status = path.stat()
        except _ABSENT:
            return None
        except OSError as error:
            raise _translated(error, f"{str(path)!r} could not be looked at") from error
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`, in the order of their names.

        Raises:
            StorageError: A folder cannot be listed.
        """
        folder = self.root / check_prefix(prefix)
        try:
            yield from _walk(folder, prefix)
        except OSError as error:
            raise _translated(error, f"{str(folder)!r} could not be listed") from error

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none.

        Raises:
            StorageDeniedError: A folder on the way to it is a symbolic link.
            StorageError: It cannot be deleted.
        """
        path = self.path(key)
        files.check_no_links(self.root, path.parent)
        try:
            path.unlink()
        except _ABSENT:
            return
        except OSError as error:
            if path.is_dir():  # Which error that is depends on the system.
                return
            raise _translated(error, f"{str(path)!r} could not be deleted") from error

    def __repr__(self) -> str:
        return f"FolderStorage({str(self.root)!r})"


def _walk(folder: Path, prefix: str) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except _ABSENT:
        return
    for entry in entries:
        key = prefix + entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{key}/")
        elif entry.is_file():
            try:
                yield Entry(key, entry.stat().st_size)
            except FileNotFoundError:  # Deleted meanwhile.
                continue


def _translated(error: OSError, what: str) -> errors.StorageError:
    kinds: dict[type[OSError], type[errors.StorageError]] = {
        **dict.fromkeys(_ABSENT, errors.StorageMissingError),
        FileExistsError: errors.StorageConflictError,
        PermissionError: errors.StorageDeniedError,
    }
    kind = kinds.get(type(error), errors.StorageError)
    return kind(f"{what}: {error.strerror or error}.")


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def is_url(place: str | os.PathLike[str]) -> bool:
    """Returns whether a place is a URL, not a path.

    >>> is_url("s3://bucket/prefix"), is_url("runs/demo")
    (True, False)
    """
    return isinstance(place, str) and _SCHEME.match(place) is not None


def open_storage(
    place: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> Storage:
    """Returns the storage that a path or URL names.

    Args:
        place: A folder's path, or a URL: `s3://bucket/prefix`, `gs://`, `az://`, `file://`,
            `memory://`.
        options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Raises:
        InvalidInputError: The URL is of no kind that is known, or an option is.
        MissingDependencyError: It names a bucket, and `webtraj[s3]` is not installed.
    """
    from webtraj.store import stores

    url = os.fspath(place)
    parsed = stores.parse_url(url) if is_url(place) else None
    if parsed is None or parsed.kind == "file":
        if options:
            raise errors.InvalidInputError(
                f"A folder takes no storage options; got {', '.join(sorted(options))} "
                f"for {url!r:.200}."
            )
        # A folder of our own waits for the disk, which obstore's does not.
        return FolderStorage(place if parsed is None else parsed.path)
    from webtraj.store.bucket import BucketStorage

    known = inspect.signature(BucketStorage).parameters
    unknown = sorted(set(options or ()) - (set(known) - {"url"}))
    if unknown:
        raise errors.InvalidInputError(
            f"{parsed.url!r} takes no option {', '.join(unknown)}; expected some of "
            f"{', '.join(name for name in known if name != 'url')}."
        )
    return BucketStorage(url, **(options or {}))


def open_file(
    name: str, options: Mapping[str, Any] | None = None, *, what: str, expected: str
) -> BinaryIO:
    """Opens a file to be read, by its path or its URL in a bucket.

    Args:
        name: Where it is.
        options: For a bucket, as `open_storage` takes them.
        what: What it is, for the error: `task file`.
        expected: What to name instead, for the error: `a .jsonl file`.

    Raises:
        InvalidInputError: There is no such file.
        StorageError: The bucket cannot be read.
    """
    try:
        if not is_url(name):
            return Path(name).open("rb")
        folder, _, key = name.rpartition("/")
        return io.BytesIO(open_storage(folder, options).read(key))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise errors.InvalidInputError(
            f"There is no {what} {name!r}: {errors.reason(error)}. Give {expected}."
        ) from error
