"""A folder as a storage."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from webtraj import errors
from webtraj.store import files
from webtraj.store.storage import Entry, check_key, check_prefix

__all__ = ["FolderStorage"]

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

    def write(self, key: str, data: bytes, *, overwrite: bool = True) -> None:
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
                files.write_atomically(path, data, sync=self._sync, overwrite=overwrite)
            except FileNotFoundError:
                files.make_folder(path.parent, sync=self._sync)
                files.write_atomically(path, data, sync=self._sync, overwrite=overwrite)
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
