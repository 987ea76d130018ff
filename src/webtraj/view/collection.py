"""The datasets that a viewer shows together, by name.

Datasets that appear in a given folder are added. Datasets are never removed.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import Place, open_place
from webtraj.runs.run import run_ids
from webtraj.store.closeable import Closing
from webtraj.store.layout import HEADER
from webtraj.store.places import is_url
from webtraj.view.labels import LabelBook
from webtraj.view.source import Follower, Source

__all__ = [
    "Followed",
    "FoundDataset",
    "Gathering",
    "RESCAN",
    "datasets_in",
    "is_dataset_or_url",
    "unique_name",
]

# From the given places to datasets: each place is a dataset, or a folder that contains datasets.
#
# Such a folder, a loop's for example, is rescanned regularly, because new iterations appear.

_DEPTH = 3
"""How deep to search a folder, as in `loops/one/train_trajectories/iteration_0001`."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SPLIT = "_trajectories"


@dataclasses.dataclass(frozen=True, slots=True)
class FoundDataset:
    """A dataset and its proposed name."""

    place: Place
    name: str
    """The name: its path below the given folder."""


def is_dataset_or_url(place: Place) -> bool:
    """Return whether a place is a dataset or a URL, rather than a folder of datasets."""
    return is_url(place) or (Path(place) / HEADER).exists()


def datasets_in(place: Place, *, said: bool = False) -> list[FoundDataset]:
    """Return the dataset at a place, or the datasets below a folder.

    >>> datasets_in("s3://bucket/runs/demo")
    [FoundDataset(place='s3://bucket/runs/demo', name='demo')]

    Args:
        place: The dataset, or the folder.
        said: Whether to prefix the names with the folder's name.
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
    """Return a name that is not taken.

    >>> unique_name("d", ["d", "d-2"])
    'd-3'
    """
    made, number = wanted, 2
    while made in taken:
        made, number = f"{wanted}-{number}", number + 1
    return made


def _below(folder: Path, depth: int, seen: set[tuple[int, int]] | None = None) -> list[Path]:
    """Return the datasets below a folder, sorted, each once. Does not look inside datasets."""
    seen = set() if seen is None else seen
    found: list[Path] = []
    try:
        told = folder.stat()
        if (told.st_dev, told.st_ino) in seen:  # Also reached by a link.
            return []
        seen.add((told.st_dev, told.st_ino))
        with os.scandir(folder) as entries:
            names = sorted((e.is_symlink(), e.name) for e in entries if e.is_dir())
    except OSError:  # Missing so far, or unreadable.
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
    """Return the last part of a URL or path, with only characters that are safe in a URL."""
    parts = [part for part in re.split(r"[/\\]+", url) if part and not part.endswith(":")]
    last = parts[-1].removesuffix(_SPLIT) if parts else ""
    return _UNSAFE.sub("-", last).strip(".-")[:80] or "dataset"


_logger = logging.getLogger(__name__)

RESCAN = 3.0
"""The least seconds between two scans of folders."""
_ITERATION = re.compile(r"iteration[_-](\d{1,9})")
_LOOP = "state.jsonl"
"""A file that a loop's folder has before it has any dataset."""


@dataclasses.dataclass(slots=True)
class Followed:
    """One dataset, and how far it has been read."""

    source: Source
    follower: Follower
    book: LabelBook
    looked: float | None = None
    last_change: float | None = None
    still_open: tuple[str, ...] = ()
    running: int = 0
    problem: str = ""
    """Why the last read failed, or found no folder."""
    looking: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    """Held while reading. Taken before the viewer's own lock, never after it."""
    _runs: list[str] | None = None

    def runs(self) -> list[str]:
        """Return the ids of the rollouts that wrote the dataset, the latest first.

        A bucket is read only once.
        """
        place = self.source.place
        if self._runs is None or not place.is_remote:
            try:
                self._runs = run_ids(place.storage)[::-1]
            except errors.StorageError:
                self._runs = []
        return self._runs


class Gathering(Closing):
    """The datasets by name. Safe to share between threads.

    Args:
        places: Datasets, and folders of datasets.
        storage_options: For buckets: the storage options.
        blob_cache: For buckets: a folder that caches blobs.
        clock: Returns seconds.

    Raises:
        InvalidInputError: No place is given, or a dataset is given twice.
        NotADatasetError: A place neither is a dataset nor contains one.
        UnsupportedSchemaError: A newer webtraj wrote a dataset.
        StorageError: A bucket cannot be read.
    """

    def __init__(
        self,
        places: Sequence[Place],
        *,
        storage_options: Mapping[str, Any] | None,
        blob_cache: Place | None,
        clock: Callable[[], float],
    ) -> None:
        if not places:
            raise errors.InvalidInputError("No dataset given; give at least one folder or URL.")
        self.followed: Mapping[str, Followed] = {}
        """The datasets by name, in the order of addition. Replaced, never changed, on addition."""
        self._options = storage_options
        self._blob_cache = blob_cache
        self._clock = clock
        self._said = len(places) > 1
        self._folders = [place for place in places if not is_dataset_or_url(place)]
        self._scanning = threading.Lock()
        self._scanned = clock()
        for place in places:
            found = datasets_in(place, said=self._said)
            if not found and not Path(place, _LOOP).exists():
                open_place(place)  # Raises an error that names the problem.
            for one in found:
                self._open(one)

    def close(self) -> None:
        """Close the label files. Idempotent."""
        for followed in self.followed.values():
            followed.book.close()

    def rescan(self) -> bool:
        """Rescan the folders every `RESCAN` seconds. Return whether a dataset was added."""
        if not self._folders or self._clock() - self._scanned < RESCAN:
            return False
        if not self._scanning.acquire(blocking=False):
            return False
        try:
            before = self.followed
            known = {_url(followed) for followed in before.values()}
            for folder in self._folders:
                for found in datasets_in(folder, said=self._said):
                    if str(found.place).rstrip("/") in known:
                        continue
                    try:
                        self._open(found)
                    except errors.WebtrajError as error:  # The next scan retries it.
                        _logger.warning("Cannot open %s: %s", found.place, error)
            self._scanned = self._clock()
            return self.followed is not before
        finally:
            self._scanning.release()

    def _open(self, found: FoundDataset) -> None:
        opened = open_place(found.place, self._options, blob_cache=self._blob_cache)
        url = opened.url.rstrip("/")
        if url in map(_url, self.followed.values()):
            raise errors.InvalidInputError(
                f"The dataset {opened.url!r} was given twice; give it once."
            )
        number = _ITERATION.fullmatch(url.rpartition("/")[2])
        name = unique_name(found.name, self.followed)
        judgements = Judgements(opened)
        source = Source(name, opened, judgements, int(number[1]) if number else None)
        followed = Followed(source, Follower(opened, judgements), LabelBook(opened))
        self.followed = {**self.followed, name: followed}


def _url(followed: Followed) -> str:
    return followed.source.place.url.rstrip("/")
