"""Removing blobs that no episode refers to, also beside living writers.

Guaranteed, in a folder, is that no blob goes that a sealed or open episode refers to:

* A writer puts a blob first, and refers to it right after. Each put gives the blob's file the
  present as its time, unless the same process did so in the last 10 minutes
  (`webtraj.collectors.blobs.TOUCH_INTERVAL`).
* Removed is only what no journal and no episode mentions and what was not put for `grace` seconds
  (an hour, and never less than two such intervals), by the clock of the file system itself.
  Journals are read before episodes, since a journal becomes an episode.
* A blob is taken aside by a rename before it goes, and is put back if it was touched before that; a
  writer that comes later sees that it is missing, and writes it again. A collection that dies in
  between leaves it aside, and the next, or `webtraj recover`, puts it back.

So a writer may be stopped (SIGSTOP, a suspended machine) between the put of a blob and the line
that refers to it for most of `grace`. What other tools copy into a dataset, episodes after blobs,
must be whole before a collection runs, or newer than `grace`.

A bucket's objects cannot be touched, and writers remember what they sent. There blobs are removed
only when the caller says that nobody is writing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors, formats
from webtraj.collectors.blobs import TOUCH_INTERVAL
from webtraj.collectors.layout import BLOBS, DatasetLayout
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.storage.files import locked

__all__ = ["GRACE", "GarbageReport", "collect_garbage", "restore"]

GRACE = 3600.0
"""Seconds for which a blob must not have been put."""
_LEAST_GRACE = 2 * TOUCH_INTERVAL
_ASIDE = ".removing"
# Whatever looks like a blob's name counts as a reference: torn, escaped and unknown text too.
_NAMES = re.compile(rb"[0-9a-f]{64}")
_WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class GarbageReport:
    """What `collect_garbage` did."""

    removed: int = 0
    """Blobs that are gone."""
    bytes: int = 0
    """Their size."""
    kept: int = 0
    """Blobs that are referred to."""
    too_young: int = 0
    """Blobs that nothing refers to, and that were put not long ago."""
    skipped: bool = False
    """Whether nothing was looked at: it is a bucket, and someone may be writing to it."""


def collect_garbage(
    place: Place,
    *,
    grace: float = GRACE,
    alone: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> GarbageReport:
    """Removes the blobs that no sealed or open episode refers to.

    Args:
        place: The dataset's folder, or its URL.
        grace: Seconds for which a blob must not have been put; ignored if `alone`.
        alone: Whether the caller knows that nobody is writing to the dataset. In a bucket nothing
            is removed otherwise.
        storage_options: For a bucket: what `webtraj.storage.bucket.BucketStorage` takes.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        InvalidInputError: `grace` is too short, or it is a spool.
        StorageError: Something cannot be read, so that nothing was removed, or cannot be removed.
    """
    if not (alone or grace >= _LEAST_GRACE):
        raise errors.InvalidInputError(
            f"grace={grace!r} is too short beside living writers; expected at least "
            f"{_LEAST_GRACE:g} seconds. If nobody is writing, say so: alone=True."
        )
    opened = open_place(place, storage_options)
    if opened.header.destination:
        raise errors.InvalidInputError(
            f"{opened.url!r} is a spool, whose episodes are on their way to "
            f"{opened.header.destination!r}; `webtraj push` sends them."
        )
    if opened.layout is None:
        return _collect_in_bucket(opened) if alone else GarbageReport(skipped=True)
    opened.layout.check_no_links()
    try:
        with locked(opened.layout.blobs / ".collection.lock"):
            return _collect_in_folder(opened, opened.layout, 0.0 if alone else grace)
    except OSError as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.StorageError(
            f"The blobs of {opened.url!r} could not all be looked at: {error}. No blob that is "
            "referred to is gone; run it again."
        ) from error


def restore(layout: DatasetLayout) -> None:
    """Puts back what a collection that died has left aside.

    Raises:
        OSError: It cannot be put back.
    """
    for path in _files(layout, f".*{_ASIDE}"):
        with contextlib.suppress(FileNotFoundError):  # A collection that lives was faster.
            _put_back(path, path.with_name(path.name[1:].removesuffix(_ASIDE)))


def _collect_in_folder(place: DatasetPlace, layout: DatasetLayout, grace: float) -> GarbageReport:
    restore(layout)
    cutoff = _file_system_time(layout.blobs) - grace
    blobs = sorted(_files(layout, "[!.]*"))
    named = _named_in_journals(layout)
    named |= _named_in_episodes(place)
    removed = size = kept = too_young = 0
    for path in blobs:
        if path.name[:64].encode() in named:
            kept += 1
        elif (freed := _remove(path, cutoff)) is None:
            too_young += 1
        else:
            removed += 1
            size += freed
    return GarbageReport(removed, size, kept, too_young)


def _files(layout: DatasetLayout, pattern: str) -> Iterator[Path]:
    """Yield the files among the blobs that match a pattern, in no folder that is a link."""
    for folder in layout.blobs.glob("??"):
        if not folder.is_symlink():
            yield from folder.glob(pattern)


def _file_system_time(folder: Path) -> float:
    """Returns the time by which the file system dates its files."""
    path = folder / f".clock-{secrets.token_hex(4)}.tmp"
    path.touch()
    try:
        return path.stat().st_mtime
    finally:
        path.unlink()


def _named_in_journals(layout: DatasetLayout) -> set[bytes]:
    named: set[bytes] = set()
    for path in layout.journals.glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError):  # Sealed since; its episode is read next.
            named.update(_NAMES.findall(path.read_bytes()))
    return named


def _named_in_episodes(place: DatasetPlace) -> set[bytes]:
    def names_in(item: tuple[str, str]) -> set[bytes]:
        episode_id, format_name = item
        try:
            return set(_NAMES.findall(place.read_episode(episode_id, format_name)))
        except errors.CorruptDataError:  # It was deleted since.
            return set()

    stored = place.sealed_episodes().items()
    beside = [item for item in stored if not formats.format_named(item[1]).self_contained]
    workers = 1 if place.layout is not None else _WORKERS
    named: set[bytes] = set()
    for found in map_in_order(names_in, beside, workers=workers):
        named |= found
    return named


def _remove(path: Path, cutoff: float) -> int | None:
    """Removes a blob that was not put since `cutoff`; returns its size, or None if it was."""
    try:
        if path.stat().st_mtime > cutoff:
            return None
        aside = path.with_name(f".{path.name}{_ASIDE}")
        path.rename(aside)
        found = aside.stat()
        if found.st_mtime > cutoff:  # Put again just before the rename.
            _put_back(aside, path)
            return None
        aside.unlink()
    except FileNotFoundError:  # Removed by another, or put back by a recovery.
        return None
    return found.st_size


def _put_back(aside: Path, path: Path) -> None:
    with contextlib.suppress(FileExistsError):  # Written anew since, the same.
        os.link(aside, path)
    aside.unlink()


def _collect_in_bucket(place: DatasetPlace) -> GarbageReport:
    blobs = list(place.storage.list(BLOBS))
    named = _named_in_episodes(place)
    lost = [blob for blob in blobs if blob.key.rpartition("/")[2][:64].encode() not in named]
    for _ in map_in_order(lambda blob: place.storage.delete(blob.key), lost, workers=_WORKERS):
        pass
    return GarbageReport(len(lost), sum(blob.size for blob in lost), len(blobs) - len(lost))
