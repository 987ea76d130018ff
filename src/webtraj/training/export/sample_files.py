"""Samples of several files and exports, opened for the trainer."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.exporters.base import MANIFEST, read_manifest
from webtraj.settings.named import class_at, nearest
from webtraj.training.export.export_folder import all_formats, read_export
from webtraj.training.rows import LazySamples, SampleFile
from webtraj.training.samples import Sample

__all__ = ["open_held_out", "open_samples"]


class _Joined(LazySamples):
    """Several sequences, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Sample]]) -> None:
        self._parts = parts
        self._ends = list(itertools.accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _at(self, index: int) -> Sample:
        part = bisect.bisect_right(self._ends, index)
        return self._parts[part][index - (self._ends[part - 1] if part else 0)]


def open_samples(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Return the samples of several files or exports, read lazily.

    Args:
        paths: Files of rows, or folders that `webtraj train export` wrote (their split `train`).

    Raises:
        InvalidInputError: A path is missing, has no rows, or is an export in another format.
    """
    return _Joined([_open_split(Path(path), "train") for path in paths])


def open_held_out(paths: Iterable[str | os.PathLike[str]]) -> Sequence[Sample]:
    """Return the samples of the split `val` of the exports among `paths`.

    Raises:
        InvalidInputError: A folder is not an export, or an export in another format.
    """
    folders = [path for path in map(Path, paths) if path.is_dir()]
    return _Joined(
        [_open_split(path, "val") for path in folders if "val" in _header(path)["splits"]]
    )


def _open_split(path: Path, split: str) -> Sequence[Sample]:
    if not path.is_dir():
        return SampleFile(path)
    header = _header(path)
    if split not in header["splits"]:
        raise errors.InvalidInputError(
            f"{str(path)!r} has no split {split!r:.100}; it has {', '.join(header['splits']):.100}."
        )
    # Not `make_format`, which needs the model that some formats were made for.
    file: str = class_at(all_formats()[header["format"]][0]).file
    return SampleFile(path / file.format(split)) if file else list(read_export(path, split))


def _header(folder: Path) -> Mapping[str, Any]:
    if not (folder / MANIFEST).is_file():
        raise errors.InvalidInputError(
            f"The folder {str(folder)!r} has no {MANIFEST}; expected a file of samples, or a "
            "folder that webtraj train export wrote."
        )
    header, _ = read_manifest(folder)
    name, known = header["format"], all_formats()
    if name not in known or not class_at(known[name][0]).imitated:
        raise errors.InvalidInputError(
            f"{str(folder)!r} is an export in the format {name!r:.60}, which cannot be imitated. "
            f"{'' if name in known else nearest(name, known)}Expected one with a reply in each "
            "row, such as sharegpt, openai, tokens or trl."
        )
    return header
