"""A folder as a storage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from webtraj import errors
from webtraj.storage import files
from webtraj.storage.base import Entry, check_key

__all__ = ["FolderStorage"]


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
        try:
            return self.path(key).read_bytes()
        except OSError as error:
            raise _translated(error, f"{str(self.path(key))!r} could not be read") from error

    def write(self, key: str, data: bytes, *, overwrite: bool = True) -> None:
        """Writes an object.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
            StorageError: It cannot be written.
        """
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_atomically(path, data, sync=self._sync, overwrite=overwrite)
            if self._sync:
                files.sync_folder(path.parent)
        except OSError as error:
            raise _translated(error, f"{str(path)!r} could not be written") from error

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object."""
        try:
            return self.path(key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _translated(error, f"{str(self.path(key))!r} could not be looked at") from error

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`; hidden files are none."""
        folder = self.path(prefix.rstrip("/")) if prefix else self.root
        try:
            yield from _walk(folder, prefix)
        except OSError as error:
            raise _translated(error, f"{str(folder)!r} could not be listed") from error

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none."""
        try:
            self.path(key).unlink(missing_ok=True)
        except OSError as error:
            raise _translated(error, f"{str(self.path(key))!r} could not be deleted") from error

    def __repr__(self) -> str:
        return f"FolderStorage({str(self.root)!r})"


def _walk(folder: Path, prefix: str) -> Iterator[Entry]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
            continue
        try:
            yield Entry(prefix + entry.name, entry.stat().st_size)
        except FileNotFoundError:  # Deleted meanwhile.
            continue


def _translated(error: OSError, what: str) -> errors.StorageError:
    kinds: dict[type[OSError], type[errors.StorageError]] = {
        FileNotFoundError: errors.StorageMissingError,
        NotADirectoryError: errors.StorageMissingError,
        FileExistsError: errors.StorageConflictError,
        PermissionError: errors.StorageDeniedError,
    }
    kind = kinds.get(type(error), errors.StorageError)
    return kind(f"{what}: {error.strerror or error}.")
