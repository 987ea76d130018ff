"""The lines of a dataset's index as they come: each is read once, and nothing is locked.

An index file is only ever appended to, and in a bucket there are only ever new ones; so what was
read need not be read again. Where files have gone (a rebuild) all is read anew.
Who looks on must not be felt by who writes: a file that is locked, even for a moment, would be
taken for one that is being written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from webtraj import errors
from webtraj.datasets.parallel import map_in_order
from webtraj.store.index import EpisodeSummary, merge, parse_index_file
from webtraj.store.layout import INDEX
from webtraj.store.places import FolderStorage, Storage

__all__ = ["IndexTail", "appended"]

_WORKERS = 16
_REMOVED = b'{"removed"'


class IndexTail:
    """Reads what is new in an index. Not safe to share between threads.

    Args:
        storage: The dataset.
        about: What a line must hold to be parsed, such as a run's id; all lines are by default.
    """

    def __init__(self, storage: Storage, about: str = "") -> None:
        self._storage = storage
        self._marker = about.encode()
        self._read: dict[str, int] = {}
        self._begun = False

    def read(self) -> tuple[bool, list[EpisodeSummary]]:
        """Returns whether to begin anew, and the summaries since the last call, or all of them.

        A rebuild makes it begin anew.

        Raises:
            StorageError: The index cannot be read.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """
        for _ in range(3):
            before, begun = dict(self._read), self._begun
            self._begun = False  # Until all is read; if that fails, it is begun again.
            self._read = before if begun else {}
            try:
                contents = dict(self._new())
            except (FileNotFoundError, errors.StorageMissingError):  # Rebuilt meanwhile.
                continue
            if begun and self._shrank(before):
                continue
            found = {name: parse_index_file(content) for name, content in contents.items()}
            if begun and any(file.removals for file in found.values()):
                continue
            self._begun = True
            return not begun, list(merge(found).values())
        return False, []  # It changes faster than it can be read; the next call has it.

    def forget(self) -> None:
        """Has the next call begin anew."""
        self._begun = False

    def files(self) -> list[Path]:
        """Returns the index's files, where it is in a folder."""
        if not isinstance(self._storage, FolderStorage):
            return []
        return sorted((self._storage.root / INDEX).glob("[!.]*.jsonl"))

    def _shrank(self, before: Mapping[str, int]) -> bool:
        return any(self._read.get(name, -1) < size for name, size in before.items())

    def _new(self) -> Iterator[tuple[str, bytes]]:
        """Yields the whole lines that have come to each file."""
        if isinstance(self._storage, FolderStorage):
            paths = self.files()
            self._read = {p.name: self._read[p.name] for p in paths if p.name in self._read}
            for path in paths:
                content = appended(path, self._read.get(path.name, 0))
                if content is None:  # It is another file than it was.
                    self._read[path.name] = -1
                    return
                self._read[path.name] = self._read.get(path.name, 0) + len(content)
                if content:
                    yield path.name, self._mine(content)
            return
        keys = [entry.key for entry in self._storage.list(INDEX)]
        names = sorted(k for k in keys if k.endswith(".jsonl") and k.count("/") == 1)
        self._read = {name: self._read[name] for name in names if name in self._read}
        new = [name for name in names if name not in self._read]
        for name, content in zip(
            new, map_in_order(self._storage.read, new, workers=_WORKERS), strict=True
        ):
            self._read[name] = len(content)
            yield name.removeprefix(INDEX), self._mine(content)

    def _mine(self, content: bytes) -> bytes:
        """Returns the lines that may be about what is looked for, so that no others are parsed."""
        if not self._marker:
            return content
        return b"".join(
            line
            for line in content.splitlines(keepends=True)
            if self._marker in line or line.startswith(_REMOVED)
        )


def appended(path: Path, offset: int) -> bytes | None:
    """Returns the whole lines after an offset; None if the file is shorter than that.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        file.seek(0, 2)
        if file.tell() < offset:
            return None
        file.seek(offset)
        content = file.read()
    return content[: content.rfind(b"\n") + 1]
