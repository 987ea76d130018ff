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
    "append_locked",
    "check_no_links",
    "locked",
    "make_folder",
    "sync_file",
    "sync_folder",
    "sync_tree",
    "write_all",
    "write_atomically",
]


def check_no_links(root: Path, folder: Path) -> None:
    """Refuse a folder below `root` that is reached through a symbolic link.

    Call this before writing or removing anything in `folder`: a dataset that came from elsewhere
    may hold links that lead out of it. `root` itself may be a link, or lie below one. Reading may
    follow links.

    Args:
        root: The folder that everything written must stay in.
        folder: `root` or a folder below it, which may be missing.

    Raises:
        StorageDeniedError: A part of the way from `root` to `folder` is a symbolic link.
    """
    current = root
    for part in folder.relative_to(root).parts:
        current /= part
        if current.is_symlink():
            raise errors.StorageDeniedError(
                f"{str(current)!r} is a symbolic link, and webtraj writes and removes files only "
                f"inside {str(root)!r} itself. Replace the link by the folder it points to. (The "
                "dataset's own folder may be a link.)"
            )


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`, with one system call unless the system cuts it short."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def append_locked(path: Path, *, new: bool = False) -> int:
    """Returns the descriptor of a file to append to that is locked (flock), and still there.

    Args:
        path: The file, which is made if it is not there.
        new: Whether it must not be there yet.

    Raises:
        OSError: It cannot be opened.
    """
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        descriptor = os.open(path, flags | (os.O_EXCL if new else 0), 0o644)
        with contextlib.suppress(OSError):  # The file system may have no locks.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        # Somebody took it for a dead writer's file, and removed it before it was locked.
        os.close(descriptor)


def write_atomically(
    path: Path, data: bytes, *, sync: bool = False, overwrite: bool = True
) -> None:
    """Writes a file through a temporary one beside it, so that no reader ever sees half of it.

    Args:
        path: Where the file shall be.
        data: All of its bytes.
        sync: Whether the bytes must be on the disk before the file takes its name.
        overwrite: Whether it replaces a file that is there.

    Raises:
        FileExistsError: It is there, and was not to be replaced.
        OSError: It cannot be written.
    """
    # Without the name in it, which may be as long as a name can be.
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
    """Makes a folder, and those that it is in, if they are not there.

    Args:
        path: The folder.
        sync: Whether they must be on the disk afterwards.

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
    """Waits until a file's bytes are on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Waits until a folder's entries are on the disk, so that a rename in it lasts."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_tree(folder: Path) -> None:
    """Waits until all of a folder is on the disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds the lock (flock) of a file, which is made, and stays, in a folder that may be made.

    Args:
        path: The file.
        wait: Whether to wait for who holds it.

    Raises:
        BlockingIOError: Another process holds it, and it was not to be waited for.
        StorageError: The file cannot be written, or has no locks.
    """
    try:
        path.parent.mkdir(exist_ok=True)
        flags = os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        raise errors.StorageError(f"{str(path)!r} cannot be written: {error}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            raise errors.StorageError(
                f"{str(path)!r} cannot be locked: {error}. Use a file system that has locks "
                "(flock)."
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
