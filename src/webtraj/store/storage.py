"""Storages: their keys, their protocol, and folders as storages.

A storage stores bytes under keys, whole or not at all. A key is a relative path with `/` between
its parts: `episodes/20261120T130405-9f86.json`. Keys come from webtraj itself or are checked;
storages refuse keys that lead out of them. No key may be the folder of another: if there is `a`,
there is no `a/b`, since a file cannot be a folder too. `webtraj.store.places` opens storages.
"""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

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
]

_PART = r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,254}"
_KEY = re.compile(f"{_PART}(?:/{_PART})*+")
_LONGEST = 800
"""S3 allows 1,024 bytes for key and prefix together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An object in a storage."""

    key: str
    size: int
    """In bytes."""


class Storage(Protocol):
    """Stores bytes under keys. Safe to share between threads; calls block.

    Each call retries temporary failures within its time limit. Every method raises
    `StorageDeniedError`, `StorageUnavailableError` or another `StorageError` if it fails.
    """

    is_remote: bool
    """Whether each call waits for a network, and objects never grow."""

    @property
    def url(self) -> str:
        """The storage's URL, for messages and for `open_storage`, without credentials."""

    def read(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            StorageMissingError: There is no such object.
        """

    def read_appended(self, key: str, offset: int) -> bytes | None:
        """Return an object's complete lines after an offset; None if the object is shorter.

        Raises:
            StorageMissingError: There is no such object.
        """

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Write an object. Readers never see half of it.

        Args:
            key: The object's key.
            data: Its bytes.
            overwrite: Whether to replace an existing object; None if its bytes would be the same,
                so that the storage may choose the cheaper way.

        Raises:
            StorageConflictError: It already exists, and `overwrite` is false.
        """

    def size(self, key: str) -> int | None:
        """Return an object's size in bytes; None if there is no such object."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the objects whose keys begin with `prefix`, in no particular order.

        `prefix` is empty or ends in `/`. Objects written or deleted meanwhile may or may not be
        included. Foreign objects are included, even if their names are not valid keys, which `read`
        refuses. Only names with a part that begins with a dot are left out.
        """

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is ignored."""


def is_key(key: str) -> bool:
    """Return whether a text is a valid key.

    >>> is_key("episodes/20261120T130405-9f86.json"), is_key("../secret"), is_key("/etc/passwd")
    (True, False, False)
    """
    return len(key) <= _LONGEST and _KEY.fullmatch(key) is not None


def is_hidden(name: str) -> bool:
    """Return whether any part of a name begins with a dot.

    >>> is_hidden("blobs/.tmp/x"), is_hidden("blobs/x.png")
    (True, False)
    """
    return name.startswith(".") or "/." in name


def check_key(key: str) -> str:
    """Return a key if it is valid.

    Raises:
        InvalidInputError: It could lead out of its storage, or some storages could not store it.
    """
    if not is_key(key):
        raise errors.InvalidInputError(
            f"Invalid object key {key!r:.300}: expected parts of A-Z a-z 0-9 . _ = -, none of them "
            f"beginning with a dot or dash, with / between them, and at most {_LONGEST} characters."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return a prefix of keys if it is valid: empty, or a key and `/`.

    Raises:
        InvalidInputError: It is not valid.
    """
    if prefix and not (prefix.endswith("/") and is_key(prefix[:-1])):
        raise errors.InvalidInputError(
            f"Invalid key prefix {prefix!r:.300}: expected an empty text, or parts of a key with / "
            "after each."
        )
    return prefix


_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""The system's errors for a path without a file, or with a folder."""


class FolderStorage:
    """Stores objects as files in a folder, which is made with the first one."""

    is_remote = False

    def __init__(self, root: str | os.PathLike[str], *, sync: bool = True) -> None:
        """Initialize the storage.

        Args:
            root: The folder.
            sync: Whether writes wait until they are on the disk.
        """
        self.root = Path(root)
        self._sync = sync

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self.root)

    def path(self, key: str) -> Path:
        """Return the path of an object's file."""
        return self.root / check_key(key)

    def read(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            StorageMissingError: There is no such object.
            StorageError: It cannot be read.
        """
        path = self.path(key)
        try:
            return path.read_bytes()
        except OSError as error:
            raise _translate_error(error, f"{str(path)!r} could not be read") from error

    def read_appended(self, key: str, offset: int) -> bytes | None:
        """Return a file's whole lines after an offset; None if the file is shorter.

        Raises:
            StorageMissingError: There is no such file.
            StorageError: It cannot be read.
        """
        path = self.path(key)
        try:
            return files.read_appended(path, offset)
        except OSError as error:
            raise _translate_error(error, f"{str(path)!r} could not be read") from error

    def write(self, key: str, data: bytes, *, overwrite: bool | None = True) -> None:
        """Write an object.

        Raises:
            StorageConflictError: It already exists, and `overwrite` is false.
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
                f"{str(path)!r} could not be written: it is a folder, or a part of its path is a "
                f"file ({error.strerror})."
            ) from error
        except OSError as error:
            raise _translate_error(error, f"{str(path)!r} could not be written") from error

    def size(self, key: str) -> int | None:
        """Return an object's size in bytes; None if there is no such object.

        Raises:
            StorageError: Its size cannot be read.
        """
        path = self.path(key)
        try:
            status = path.stat()
        except _ABSENT:
            return None
        except OSError as error:
            raise _translate_error(error, f"The size of {str(path)!r} could not be read") from error
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the objects whose keys begin with `prefix`, sorted by name.

        Raises:
            StorageError: A folder cannot be listed.
        """
        folder = self.root / check_prefix(prefix)
        try:
            yield from _walk(folder, prefix)
        except OSError as error:
            raise _translate_error(error, f"{str(folder)!r} could not be listed") from error

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is ignored.

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
            if path.is_dir():  # The error's class depends on the system.
                return
            raise _translate_error(error, f"{str(path)!r} could not be deleted") from error

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


def _translate_error(error: OSError, what: str) -> errors.StorageError:
    kinds: dict[type[OSError], type[errors.StorageError]] = {
        **dict.fromkeys(_ABSENT, errors.StorageMissingError),
        FileExistsError: errors.StorageConflictError,
        PermissionError: errors.StorageDeniedError,
    }
    kind = kinds.get(type(error), errors.StorageError)
    return kind(f"{what}: {error.strerror or error}.")
