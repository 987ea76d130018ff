"""One index file of many, without what was removed; and an index made anew from the episodes.

Nothing is lost beside living writers and readers: the new files are there before the old ones go,
a reader that misses an old one reads the list again, and files that a living writer appends to are
left alone. What dies in between leaves lines that are there twice, which counts once.

In a folder one compaction or removal waits for another (flock). In a bucket there are no locks:
each looks again, after it has written, whether another was under way, and begins anew if so. What
remains possible there, if two compactions and a removal meet within a moment, is an index line of
an episode that was deleted; `verify` reports it, and `rebuild` mends it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.collectors.index import (
    EpisodeSummary,
    IndexFile,
    IndexWriter,
    Removal,
    index_file_name,
    merge,
    parse_index_file,
    removed,
)
from webtraj.collectors.layout import INDEX
from webtraj.datasets.episode_file import summarize_file
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.storage.files import locked

__all__ = ["CompactionReport", "compact", "exclusive", "rebuild", "remove_from_index"]

_FILE_LINES = 20_000
_FILES_AT_ONCE = 200
"""Fewer than a process may have open."""
_ATTEMPTS = 20
_WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class CompactionReport:
    """What `compact` or `rebuild` did."""

    num_episodes: int
    """Episodes in the index now."""
    files_before: int
    files_after: int
    being_written: int
    """Files of living writers, which were left alone."""
    dropped: tuple[str, ...] = ()
    """Ids of episodes that the index had and whose files are missing; `rebuild` drops them."""
    unreadable: tuple[str, ...] = ()
    """What is wrong with episodes that `rebuild` could not read; their lines are as they were."""


def compact(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> CompactionReport:
    """Makes few index files of many. Safe beside writers, readers and itself.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        InvalidInputError: It is a spool, whose index goes where its episodes go.
        StorageError: The index cannot be read or written; nothing is lost.
    """
    opened = open_place(place, storage_options)
    with exclusive(opened):
        before = len(opened.index_names())
        _compact_all(opened)
        return _report(opened, before)


def rebuild(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> CompactionReport:
    """Makes the index anew from the episodes' files, all of which are read.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It, or an episode, was written by a newer webtraj.
        InvalidInputError: It is a spool, whose index goes where its episodes go.
        StorageError: It cannot be read or written; the index that was there is left.
    """
    opened = open_place(place, storage_options)
    with exclusive(opened):
        before = len(opened.index_names())
        _compact_all(opened)  # So that there are few enough to hold all of them.
        # The index first: each of its episodes then has its file, whichever is listed.
        old = opened.read_index()
        listed = merge(old)
        stored = opened.sealed_episodes()
        summaries, unreadable = _summarize_all(opened, stored, listed)
        with _claimed(opened, old) as claimed:
            _write(opened, summaries, _carried(old, claimed))
            _delete(opened, old, claimed)
        dropped = listed.keys() - stored.keys()
        report = _report(opened, before)
        return dataclasses.replace(
            report, dropped=tuple(sorted(dropped)), unreadable=tuple(unreadable)
        )


def remove_from_index(place: DatasetPlace, episode_ids: Collection[str]) -> None:
    """Takes episodes out of the index. Within `exclusive`.

    Raises:
        StorageError: The index cannot be read or written.
    """
    wanted = set(episode_ids)
    for _ in range(_ATTEMPTS):
        files = place.read_index()
        gone = removed(files.values())
        found: dict[str, list[str]] = {}
        for name, file in files.items():
            for summary in file.summaries:
                episode_id = summary.episode_id
                if episode_id in wanted and (episode_id, name) not in gone:
                    found.setdefault(episode_id, []).append(name)
        if not found:
            return
        _append(place, [Removal(episode_id, tuple(names)) for episode_id, names in found.items()])
    raise errors.StorageUnavailableError(
        f"The index of {place.url!r} changed each of the {_ATTEMPTS} times that episodes were to "
        "be taken out of it; no episode was deleted. Try again."
    )


@contextlib.contextmanager
def exclusive(place: DatasetPlace) -> Iterator[None]:
    """Waits until nobody else compacts a folder's index, and keeps others from it meanwhile.

    Raises:
        InvalidInputError: It is a spool.
        StorageError: The folder cannot be written, or has no locks.
    """
    if place.header.destination:
        raise errors.InvalidInputError(
            f"{place.url!r} is a spool, whose episodes are on their way to "
            f"{place.header.destination!r}; `webtraj push` sends them."
        )
    if place.layout is None:
        yield
        return
    place.layout.check_no_links()
    with locked(place.layout.index / ".compaction.lock"):
        yield


def _compact_all(place: DatasetPlace) -> None:
    num_files, attempts = len(place.index_names()) + 1, 0
    while _compact_some(place):
        # In a folder as many go at once as may be open; in a bucket others may disturb it.
        left = len(place.index_names())
        attempts = 0 if left < num_files else attempts + 1
        num_files = left
        if attempts == _ATTEMPTS:
            raise errors.StorageUnavailableError(
                f"The index of {place.url!r} changed each of the {_ATTEMPTS} times that it was to "
                "be compacted. Nothing is lost; try again when fewer others do the same."
            )


def _compact_some(place: DatasetPlace) -> bool:
    """Compacts what it can; returns whether there may be more to do."""
    files = place.read_index()
    # What cannot be read cannot be kept: `verify` reports it, and `rebuild` mends it.
    whole = {name: file for name, file in files.items() if not file.unreadable}
    with _claimed(place, whole) as claimed:
        if len(claimed) < 2 and not any(files[name].removals for name in claimed):
            return False
        # The removals of all, the summaries of those that go.
        going = {
            name: file if name in claimed else IndexFile((), file.removals)
            for name, file in files.items()
        }
        written = _write(place, list(merge(going).values()), _carried(files, claimed))
        if place.layout is None and _was_disturbed(place, files, claimed):
            for name in written:
                place.storage.delete(INDEX + name)
            return True
        _delete(place, files, claimed)
    return place.layout is not None and len(claimed) == _FILES_AT_ONCE


def _was_disturbed(
    place: DatasetPlace, files: Mapping[str, IndexFile], claimed: Collection[str]
) -> bool:
    """Returns whether another compaction or removal touched the files of a bucket's index."""
    now = place.read_index()
    new_removals = removed(now.values()) - removed(files.values())
    return any(name not in now for name in claimed) or any(
        name in claimed for _, name in new_removals
    )


@contextlib.contextmanager
def _claimed(place: DatasetPlace, files: Mapping[str, IndexFile]) -> Iterator[list[str]]:
    """Holds index files that no living writer appends to, and yields their names.

    What they hold is as it was read: `files` was read before, so those that have grown since are
    read again.
    """
    if place.layout is None:
        yield list(files)
        return
    with contextlib.ExitStack() as held:
        claimed: list[str] = []
        for name in files:
            if len(claimed) == _FILES_AT_ONCE:
                break
            descriptor = _lock(place.layout.index / name)
            if descriptor is None:
                continue
            held.callback(os.close, descriptor)
            current = parse_index_file((place.layout.index / name).read_bytes())
            if current == files[name]:
                claimed.append(name)
        yield claimed


def _lock(path: Path) -> int | None:
    """Returns the descriptor of an index file, locked; None if a living writer holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _carried(files: Mapping[str, IndexFile], claimed: Collection[str]) -> list[Removal]:
    """Returns what removals have yet to say once the claimed files have gone."""
    carried = []
    for name in claimed:
        for removal in files[name].removals:
            still = tuple(name for name in removal.files if name in files and name not in claimed)
            if still:
                carried.append(Removal(removal.episode_id, still))
    return carried


def _write(
    place: DatasetPlace, summaries: Sequence[EpisodeSummary], removals: Sequence[Removal]
) -> list[str]:
    """Writes compacted files, and returns their names."""
    # Sorted last in a listing, which then shows the new file if it no longer shows an old one.
    now = datetime.datetime.now(datetime.UTC)
    stem = f"zz-compacted-{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"
    lines = [removal.to_line() for removal in removals]
    lines += [summary.to_line() for summary in summaries]
    names = []
    for number, start in enumerate(range(0, len(lines), _FILE_LINES)):
        name = f"{stem}-{number:04}.jsonl"
        place.storage.write(INDEX + name, b"".join(lines[start : start + _FILE_LINES]))
        names.append(name)
    return names


def _delete(place: DatasetPlace, files: Mapping[str, IndexFile], claimed: Collection[str]) -> None:
    # A file goes after those that its removals are about.
    for name in sorted(claimed, key=lambda name: bool(files[name].removals)):
        place.storage.delete(INDEX + name)


def _append(place: DatasetPlace, removals: Sequence[Removal]) -> None:
    if place.layout is None:
        lines = b"".join(removal.to_line() for removal in removals)
        place.storage.write(INDEX + index_file_name("-removed"), lines)
        return
    writer = IndexWriter(place.layout.index)
    try:
        for removal in removals:
            writer.append(removal, sync=removal is removals[-1])
    except OSError as error:
        raise errors.StorageError(
            f"The index of {place.url!r} could not be written: {error}. No episode was deleted."
        ) from error
    finally:
        writer.close()


def _summarize_all(
    place: DatasetPlace, stored: Mapping[str, str], listed: Mapping[str, EpisodeSummary]
) -> tuple[list[EpisodeSummary], list[str]]:
    """Returns the summaries of all episodes, and what is wrong with those that have no new one."""

    def summary_of(episode_id: str) -> EpisodeSummary | errors.DatasetError:
        try:
            content = place.read_episode(episode_id, stored[episode_id])
            return summarize_file(episode_id, stored[episode_id], content, place.blobs)
        except errors.UnsupportedSchemaError:
            raise
        except errors.DatasetError as error:
            return error

    workers = 1 if place.layout is not None else _WORKERS
    found = list(map_in_order(summary_of, sorted(stored), workers=workers))
    summaries = [item for item in found if isinstance(item, EpisodeSummary)]
    known = {summary.episode_id for summary in summaries}
    # A damaged episode's line says what its file was.
    summaries += [listed[name] for name in stored if name in listed and name not in known]
    return summaries, [str(item) for item in found if not isinstance(item, EpisodeSummary)]


def _report(place: DatasetPlace, before: int) -> CompactionReport:
    files = place.read_index()
    living = 0
    if place.layout is not None:
        for name in files:
            descriptor = _lock(place.layout.index / name)
            if descriptor is None:
                living += 1
            else:
                os.close(descriptor)
    return CompactionReport(len(merge(files)), before, len(files), living)
