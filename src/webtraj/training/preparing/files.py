"""Files of samples, and exports, read row by row when a row is asked for."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import orjson

from webtraj import errors
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.training.preparing.rows import read_row
from webtraj.training.samples import Sample

__all__ = ["SampleFile", "open_held_out", "open_samples"]

_BETWEEN = (b"", b"[", b"]", b"[]")
_FILES = {
    "sharegpt": "finetune_{}.json",
    "openai": "{}.jsonl",
    "tokens": "{}.jsonl",
    "pointing": "{}.jsonl",
}


class SampleFile(Sequence[Sample]):
    """The samples of a file, each read when it is asked for.

    Args:
        path: A file of JSON lines, or of one JSON array with a row on each line.

    Raises:
        InvalidInputError: It is not there or has no rows; and when one is read, that row is wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._starts: list[int] = []
        self._lines: list[int] = []
        try:
            self._find_rows()
        except OSError as error:
            raise errors.InvalidInputError(
                f"{str(self.path)!r} cannot be read: {errors.reason(error)}; "
                "expected a file of JSON lines, or "
                "of a JSON array."
            ) from error
        if not self._starts:
            raise errors.InvalidInputError(
                f"{str(self.path)!r} has no rows; expected one sample on each line."
            )

    def _find_rows(self) -> None:
        position = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip() not in _BETWEEN:
                    self._starts.append(position)
                    self._lines.append(number)
                position += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        start, number = self._starts[index], self._lines[index]
        what = f"{self.path.name}, line {number}"
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                data = orjson.loads(file.readline().rstrip().removesuffix(b","))
        except orjson.JSONDecodeError as error:
            raise errors.InvalidInputError(
                f"{what}: no JSON: {error}; expected one row on each line."
            ) from error
        if not isinstance(data, dict):
            raise errors.InvalidInputError(f"{what}: expected a JSON object; got {data!r:.60}.")
        return read_row(data, what, folder=self.path.parent, number=number)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


class _Joined(Sequence[Sample]):
    """Several files, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Sample]]) -> None:
        self._parts = parts
        self._ends = list(itertools.accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | Sequence[Sample]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]


def open_samples(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Returns the samples of several files or exports, each read when it is asked for.

    Args:
        paths: Files of rows; or folders that `webtraj export` wrote, whose split `train` is taken.

    Raises:
        InvalidInputError: One is not there, has no rows, or is no export of samples to imitate.
    """
    return _Joined([_opened(Path(path), "train") for path in paths])


def open_held_out(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Returns the samples that exports among `paths` hold out, in their split `val`.

    Raises:
        InvalidInputError: A folder is no export of samples to imitate.
    """
    folders = [path for path in map(Path, paths) if path.is_dir()]
    return _Joined([_opened(path, "val") for path in folders if "val" in _header(path)["splits"]])


def _opened(path: Path, split: str) -> Sequence[Sample]:
    if not path.is_dir():
        return SampleFile(path)
    header = _header(path)
    if split not in header["splits"]:
        raise errors.InvalidInputError(
            f"{str(path)!r} has no split {split!r}; it has {', '.join(header['splits'])}."
        )
    if name := _FILES.get(header["format"]):
        return SampleFile(path / name.format(split))
    from webtraj.training.export.reading import read_export

    return list(read_export(path, split))


def _header(folder: Path) -> dict[str, Any]:
    if not (folder / MANIFEST).is_file():
        raise errors.InvalidInputError(
            f"{str(folder)!r} is a folder without {MANIFEST}; expected a file of samples, or the "
            "folder of an export that webtraj export wrote."
        )
    header, _ = read_manifest(folder)
    if header["format"] not in (*_FILES, "trl"):
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export of the format {header['format']!r:.60}, which is not to "
            f"be imitated; expected {', '.join((*_FILES, 'trl'))}."
        )
    return dict(header)
