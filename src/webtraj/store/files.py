"""Write files whole or not at all, and only inside the folder they belong to."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from webtraj import errors

__all__ = [
    "LineFile",
    "read_appended",
    "check_no_links",
    "lock_file",
    "make_folder",
    "sync_file",
    "sync_folder",
    "sync_tree",
    "write_all",
    "write_atomically",
]


def check_no_links(root: Path, folder: Path) -> None:
    """Raise an error if a folder below `root` is reached through a symbolic link.

    Call this before writing or removing anything in `folder`: a dataset from elsewhere may contain
    links that lead out of it. `root` itself may be a link, or be below one. Reading may follow
    links.

    Args:
        root: The folder that all writes must stay in.
        folder: `root` or a folder below it; it may be missing.

    Raises:
        StorageDeniedError: A folder between `root` and `folder` is a symbolic link.
    """
    current = root
    for part in folder.relative_to(root).parts:
        current /= part
        if current.is_symlink():
            raise errors.StorageDeniedError(
                f"{str(current)!r} is a symbolic link, and webtraj writes and removes files only "
                f"inside {str(root)!r} itself. Replace the link with the folder it points to. (The "
                "dataset's own folder may be a link.)"
            )


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in one system call unless the system cuts it short."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class LineFile:
    """A file, locked while open, to which lines are added completely or not at all.

    Not safe to share between threads.
    """

    def __init__(self, path: Path, *, new: bool = False) -> None:
        """Open the file and lock it (flock).

        Args:
            path: The file. It is made if missing.
            new: Whether the file must not exist yet.

        Raises:
            OSError: It cannot be opened, or it exists and `new` is true.
        """
        self._descriptor = _append_locked(path, new)
        self._size = 0
        self._torn = False

    @property
    def removed(self) -> bool:
        """Whether the file was deleted."""
        return os.fstat(self._descriptor).st_nlink == 0

    def append(self, lines: bytes, *, sync: bool = False) -> None:
        """Add whole lines; after an OSError, the file is unchanged.

        Args:
            lines: The lines, each with its newline.
            sync: Whether to wait until they are on the disk.
        """
        if self._torn:
            os.ftruncate(self._descriptor, self._size)
        else:  # Others may have changed it: a person with an editor, a forked child.
            self._size = os.fstat(self._descriptor).st_size
        self._torn = True
        try:
            write_all(self._descriptor, lines)
            if sync:
                os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):  # If this fails, the next call tries again.
                os.ftruncate(self._descriptor, self._size)
            raise
        self._torn = False

    def close(self) -> None:
        """Release the file and its lock. Idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _append_locked(path: Path, new: bool) -> int:
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        descriptor = os.open(path, flags | (os.O_EXCL if new else 0), 0o644)
        with contextlib.suppress(OSError):  # The file system may not support locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        # Another process removed it as a dead writer's file before it was locked.
        os.close(descriptor)


def write_atomically(
    path: Path, data: bytes, *, sync: bool = False, overwrite: bool = True
) -> None:
    """Write a file through a temporary file beside it, so that no reader sees half of it.

    Args:
        path: The file's path.
        data: All of its bytes.
        sync: Whether the bytes must be on the disk before the file takes its name.
        overwrite: Whether to replace an existing file.

    Raises:
        FileExistsError: The file exists, and `overwrite` is false.
        OSError: It cannot be written.
    """
    # Without the file's own name, which may already have the maximum length.
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            write_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if overwrite:
            os.rename(temporary, path)  # noqa: PTH104  (Path.rename costs twice as much.)
        else:
            os.link(temporary, path)  # Unlike rename, it fails if the name is taken.
            temporary.unlink()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path, *, sync: bool = False) -> None:
    """Make a folder and its parents, if missing.

    Args:
        path: The folder.
        sync: Whether to wait until they are on the disk.

    Raises:
        OSError: It cannot be made.
    """
    try:
        path.mkdir()
    except FileNotFoundError:
        make_folder(path.parent, sync=sync)
        path.mkdir(exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return
    if sync:
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk, so that renames in it are durable."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_tree(folder: Path) -> None:
    """Wait until all of a folder is on the disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)


@contextlib.contextmanager
def lock_file(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock (flock) of a file while the context lasts, making file and folder if missing.

    Args:
        path: The file.
        wait: Whether to wait until the lock is free.

    Raises:
        BlockingIOError: Another process holds the lock, and `wait` is false.
        StorageError: The file cannot be written or locked.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        raise errors.StorageError(f"Cannot write {str(path)!r}: {errors.reason(error)}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            raise errors.StorageError(
                f"Cannot lock {str(path)!r}: {errors.reason(error)}. Use a file system with "
                "locks (flock)."
            ) from error
        yield
    finally:
        os.close(descriptor)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_appended(path: Path, offset: int) -> bytes | None:
    """Return the whole lines after an offset, or None if the file is shorter than that.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        file.seek(0, 2)
        if file.tell() < offset:
            return None
        file.seek(offset)
        content = file.read()
    return content[: content.rfind(b"\n") + 1]
