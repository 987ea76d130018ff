"""What phases promise to make: whether it is there and whole, and a digest to know it by."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from webtraj import errors

__all__ = ["Output", "digest"]

_WHOLE = 4 << 20
"""Files of so many bytes are read whole,"""
_ENDS = 1 << 20
"""and of larger ones so much of the beginning and of the end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """A file or folder that a phase makes."""

    path: str
    """Where."""
    kind: Literal["dataset", "kept", "export", "model", "any"] = "any"
    """What it is: a dataset with episodes, one of what was kept of others, which may be nothing, an
    export, a model's folder, or anything."""

    @property
    def missing(self) -> str:
        """What is wrong with it, as the end of a sentence; empty if it is whole."""
        path = Path(self.path)
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return "is not there, or empty"
        if self.kind == "export":
            from webtraj.datasets.exporters.base import MANIFEST, is_manifest

            return "" if is_manifest(path / MANIFEST) else f"has no {MANIFEST}"
        if self.kind == "model":
            if not (path / "config.json").is_file():
                return "has no config.json"
            return "" if any(path.glob("*.safetensors")) else "has no *.safetensors"
        return self._dataset_missing() if self.kind in ("dataset", "kept") else ""

    def _dataset_missing(self) -> str:
        from webtraj.datasets.dataset import open_dataset

        try:
            found = len(open_dataset(self.path).summaries)
            return "" if found or self.kind == "kept" else "has no episodes"
        except errors.DatasetError as error:
            return f"is no dataset ({error})"


def digest(path: str | os.PathLike[str]) -> str:
    """Returns what a file's or folder's content is known by; empty if there is nothing.

    The names and sizes of all files are in it, and their content: of files above 4 MiB the first
    and the last MiB, and none of a dataset's blobs and episodes, which names and index tell.
    """
    top = Path(path)
    total = hashlib.sha256()
    if top.is_file():
        _add(total, top, "")
    elif top.is_dir():
        for file in sorted(_files(top)):
            _add(total, file, file.relative_to(top).as_posix())
    else:
        return ""
    return total.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "locks"]
        for name in names:
            file = Path(parent) / name
            if file.is_file() and not name.endswith((".tmp", ".lock")):
                yield file


def _add(total: hashlib._Hash, file: Path, name: str) -> None:
    size = file.stat().st_size
    total.update(f"{name}\0{size}\0".encode())
    if name.startswith(("blobs/", "episodes/")):
        return
    with file.open("rb") as opened:
        if size <= _WHOLE:
            total.update(opened.read())
        else:
            total.update(opened.read(_ENDS))
            opened.seek(-_ENDS, os.SEEK_END)
            total.update(opened.read())
