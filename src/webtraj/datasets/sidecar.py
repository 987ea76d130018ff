"""Lines that are added to a dataset beside its episodes, which never change.

::

    <dataset>/<folder>/<writer>.jsonl

Each writer appends to a file of its own. A line is on disk when `add` returns; a last line without
a newline was cut off when its writer died, and does not count. In a bucket, which does not support
appending, each call of `add` writes an object.

A line is a JSON object. Its last key, `crc32`, is the checksum of the rest of the line. A line
without a checksum, such as one edited by hand, is not checked.
"""

from __future__ import annotations

import re
import time
import zlib

from webtraj import errors
from webtraj.datasets.place import DatasetPlace, map_in_order
from webtraj.store import files
from webtraj.store.closeable import Closing
from webtraj.store.index import index_file_name
from webtraj.store.storage import is_key

__all__ = ["Sidecar", "check_line", "seal_line"]

_WORKERS = 16
_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"\}')


def seal_line(line: bytes) -> bytes:
    """Return a line, a JSON object without a newline, with its checksum.

    >>> seal_line(b'{"a":1}')
    b'{"a":1,"crc32":"561bacaf"}'
    """
    return b'%s,"crc32":"%08x"}' % (line[:-1], zlib.crc32(line))


def check_line(line: bytes) -> None:
    """Check a line against its checksum, if it has one.

    Raises:
        CorruptDataError: It has changed.
    """
    seal = _SEAL.fullmatch(line[-len(',"crc32":"00000000"}') :])
    if seal and zlib.crc32(line[: -len(seal[0])] + b"}") != int(seal[1], 16):
        raise errors.CorruptDataError(
            "it has changed since it was written. If that was on purpose, remove its key crc32"
        )


class Sidecar(Closing):
    """The lines in one folder beside a dataset. Not safe to share between threads.

    Args:
        place: The dataset.
        folder: The folder's name.
    """

    def __init__(self, place: DatasetPlace, folder: str) -> None:
        self._place = place
        self._folder = f"{folder}/"
        self._read: dict[str, int] = {}
        self._file: files.LineFile | None = None

    def new_lines(self) -> list[tuple[str, bytes]]:
        """Return the whole lines since the last call, each with the key of its file.

        Raises:
            StorageError: They cannot be read.
        """
        storage = self._place.storage
        entries = sorted(storage.list(self._folder), key=lambda entry: entry.key)
        keys = [
            entry.key
            for entry in entries
            if entry.key.endswith(".jsonl")
            and is_key(entry.key)
            and self._read.get(entry.key, 0) < entry.size
        ]
        workers = _WORKERS if self._place.is_remote else 1
        contents = map_in_order(storage.read, keys, workers=workers) if keys else ()
        lines: list[tuple[str, bytes]] = []
        for key, content in zip(keys, contents, strict=True):
            end = content.rfind(b"\n") + 1
            lines += ((key, line) for line in content[self._read.get(key, 0) : end].splitlines())
            self._read[key] = end
        return lines

    def add(self, lines: bytes) -> None:
        """Write whole lines: all of them, or none if this raises.

        Raises:
            StorageError: They cannot be written.
        """
        if self._place.is_remote:
            # Names contain the time, so a listing is in order.
            name = self._folder + index_file_name(f"-{time.time_ns()}")
            self._place.storage.write(name, lines, overwrite=False)
            self._read[name] = len(lines)
            return
        try:
            if self._file is not None and self._file.removed:
                self.close()  # The dataset may have been recorded anew.
            if self._file is None:
                self._file = self._open()
            self._file.append(lines, sync=True)
        except OSError as error:
            raise errors.StorageError(
                f"Cannot write {self._folder} of {self._place.url!r}: {error}. The dataset must be "
                "writable by this user, on a disk with free space."
            ) from error

    def close(self) -> None:
        """Close the file. Idempotent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self) -> files.LineFile:
        layout = self._place.layout
        assert layout is not None
        layout.root.stat()  # Do not make the folder of a dataset that was deleted.
        folder = layout.root / self._folder.rstrip("/")
        files.check_no_links(layout.root, folder)
        files.make_folder(folder, sync=True)
        file = files.LineFile(folder / index_file_name(), new=True)
        files.sync_folder(folder)
        return file
