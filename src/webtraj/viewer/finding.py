"""From what a person names to the datasets that are looked at: those, or all that a folder holds.

A folder of datasets, such as that of a loop or of a rollout with iterations, is looked into again
and again: iterations come while one looks.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection
from pathlib import Path

from webtraj.datasets.place import Place
from webtraj.store.layout import HEADER
from webtraj.store.places import is_url

__all__ = ["FoundDataset", "datasets_in", "is_dataset_or_url", "unique_name"]

_DEPTH = 3
"""How deep below a folder its datasets lie, as in `train_trajectories/judged/iteration_0001`."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SPLIT = "_trajectories"


@dataclasses.dataclass(frozen=True, slots=True)
class FoundDataset:
    """A dataset, and what it is to be called."""

    place: Place
    name: str
    """After its folder, and those between that and the one that was named."""


def is_dataset_or_url(place: Place) -> bool:
    """Returns whether a place is no folder of datasets: it is one itself, or in a bucket."""
    return is_url(place) or (Path(place) / HEADER).exists()


def datasets_in(place: Place, *, said: bool = False) -> list[FoundDataset]:
    """Returns a dataset, or those that are in a folder that is none.

    >>> datasets_in("s3://bucket/runs/demo")
    [FoundDataset(place='s3://bucket/runs/demo', name='demo')]

    Args:
        place: The dataset, or the folder.
        said: Whether the names of those in a folder say in which.
    """
    if is_dataset_or_url(place):
        return [FoundDataset(place, _name_of(os.fspath(place)))]
    root = Path(place)
    above = [root.absolute().name] if said else []
    return [
        FoundDataset(str(path), "-".join(map(_name_of, (*above, *path.relative_to(root).parts))))
        for path in _below(root, _DEPTH)
    ]


def unique_name(wanted: str, taken: Collection[str]) -> str:
    """Returns a name that none has yet.

    >>> unique_name("d", ["d", "d-2"])
    'd-3'
    """
    made, number = wanted, 2
    while made in taken:
        made, number = f"{wanted}-{number}", number + 1
    return made


def _below(folder: Path, depth: int, seen: set[tuple[int, int]] | None = None) -> list[Path]:
    """Returns the datasets below a folder, in order, each once; none lies in another."""
    seen = set() if seen is None else seen
    found: list[Path] = []
    try:
        told = folder.stat()
        if (told.st_dev, told.st_ino) in seen:  # A link leads there, too.
            return []
        seen.add((told.st_dev, told.st_ino))
        with os.scandir(folder) as entries:
            names = sorted((e.is_symlink(), e.name) for e in entries if e.is_dir())
    except OSError:  # It is not there yet, or is not to be read.
        return []
    for _, name in names:
        path = folder / name
        if name.startswith("."):
            continue
        if (path / HEADER).exists():
            told = path.stat()
            if (told.st_dev, told.st_ino) not in seen:
                seen.add((told.st_dev, told.st_ino))
                found.append(path)
        elif depth > 1:
            found += _below(path, depth - 1, seen)
    return sorted(found)


def _name_of(url: str) -> str:
    """Returns the last part of a URL or path, of characters that stand in a URL as they are."""
    parts = [part for part in re.split(r"[/\\]+", url) if part and not part.endswith(":")]
    last = parts[-1].removesuffix(_SPLIT) if parts else ""
    return _UNSAFE.sub("-", last).strip(".-")[:80] or "dataset"
