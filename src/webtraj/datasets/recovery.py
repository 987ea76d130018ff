"""Recovery: sealing what a dead writer left open; and making a dataset's index anew."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.collectors.spool import open_index
from webtraj.datasets.dataset import summarize_file
from webtraj.datasets.place import DatasetPlace, Place, map_in_order, open_place
from webtraj.store import sealing
from webtraj.store.blobs import blobs_in
from webtraj.store.index import EpisodeSummary, index_file_name, merge
from webtraj.store.journal import claim
from webtraj.store.layout import INDEX, DatasetHeader, DatasetLayout, format_named

__all__ = ["RebuildReport", "RecoveryReport", "rebuild", "recover"]

# Recovery. Journals are only ever in folders. In a bucket, only index lines can be missing.


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What `recover` found and did."""

    sealed: tuple[EpisodeSummary, ...] = ()
    """Episodes whose journals it sealed; CRASHED, unless their end had been written."""
    indexed: tuple[str, ...] = ()
    """Ids of sealed episodes that the index did not have."""
    being_written: tuple[str, ...] = ()
    """Ids of episodes that a living writer is recording; they were left alone."""
    unreadable: tuple[str, ...] = ()
    """What was wrong with journals that could not be sealed; they were left as they are."""


_WORKERS = 16
_ASIDE = ".removing"


def recover(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> RecoveryReport:
    """Seals every episode of a dataset whose writer is gone. Safe to run at any time, and again.

    Args:
        place: The dataset's folder, or its URL.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        CollectorError: Something could not be written; run it again once that is mended.
        StorageDeniedError: A folder of the dataset is a symbolic link; nothing was changed.
        StorageError: The bucket could not be read or written.
    """
    opened = open_place(place, storage_options)
    if opened.layout is None:
        return RecoveryReport(indexed=_complete_bucket_index(opened))
    return _recover_folder(opened, opened.layout)


def _recover_folder(place: DatasetPlace, layout: DatasetLayout) -> RecoveryReport:
    header = place.header
    _make_folders(layout)
    index = open_index(layout, header)
    sealed: list[EpisodeSummary] = []
    being_written: list[str] = []
    unreadable: list[str] = []
    try:
        for episode_id in sorted(layout.open_episodes()):
            journal = layout.journal(episode_id)
            try:
                with claim(journal) as claimed:
                    if not claimed:
                        being_written.append(episode_id)
                    elif journal.exists():
                        sealed.append(_seal(layout, header, episode_id, index))
            except FileNotFoundError:
                continue  # Sealed by its writer in the meantime.
            except errors.DatasetError as error:
                unreadable.append(str(error))
        _remove_unnamed(layout)
        _restore_blobs(layout)
        _remove_unshared(layout)
        # In a spool, an episode without an index line is being taken away.
        indexed = () if header.destination else _complete_index(place, layout, index)
    except OSError as error:
        raise errors.CollectorError(
            f"The recovery of {str(layout.root)!r} stopped: {error}. Nothing is lost; run it again."
        ) from error
    finally:
        index.close()
    return RecoveryReport(tuple(sealed), indexed, tuple(being_written), tuple(unreadable))


def _make_folders(layout: DatasetLayout) -> None:
    """Makes the folders anew that were not copied since they were empty."""
    try:
        layout.make_folders()
    except errors.StorageDeniedError:
        raise
    except OSError as error:
        raise errors.CollectorError(
            f"The dataset folder {str(layout.root)!r} cannot be written: {error}."
        ) from error


def _seal(
    layout: DatasetLayout, header: DatasetHeader, episode_id: str, index: sealing.Index
) -> EpisodeSummary:
    store = sealing.blob_store(layout, header, episode_id)
    journal = layout.journal(episode_id).read_bytes()
    blobs = [blob for blob in blobs_in(journal) if store.holds(blob)]
    return sealing.seal(layout, episode_id, header=header, index=index, blobs=blobs)


def _remove_unnamed(layout: DatasetLayout) -> None:
    """Removes journals whose writer died before their first line was whole."""
    for path in layout.journals.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError), claim(path) as claimed:
            if claimed:
                path.unlink(missing_ok=True)


def _restore_blobs(layout: DatasetLayout) -> None:
    """Puts back blobs that webtraj before 0.2 took aside to delete them, and died."""
    for folder in layout.blobs.glob("??"):
        for path in () if folder.is_symlink() else folder.glob(f".*{_ASIDE}"):
            with contextlib.suppress(FileNotFoundError):  # Another recovery was faster.
                path.rename(path.with_name(path.name[1:].removesuffix(_ASIDE)))


def _remove_unshared(layout: DatasetLayout) -> None:
    """Removes blobs of episodes whose file has them, and whose writer died before it could."""
    for episode_id, format_name in layout.sealed_episodes().items():
        if format_named(format_name).self_contained:
            folder = layout.unshared(episode_id)
            if not layout.journal(episode_id).exists() and folder.exists():
                shutil.rmtree(folder, ignore_errors=True)


def _complete_index(
    place: DatasetPlace, layout: DatasetLayout, index: sealing.Index
) -> tuple[str, ...]:
    """Adds sealed episodes that the index lacks: their writer died before it could."""
    stored = layout.sealed_episodes()
    # Those that are open are just being sealed; their index line comes next.
    known = layout.open_episodes() | merge(place.read_index()).keys()
    added = []
    for episode_id in sorted(stored.keys() - known):
        format_name = stored[episode_id]
        store = sealing.blob_store(layout, place.header, episode_id)
        try:
            content = layout.episode(episode_id, format_name).read_bytes()
            summary = summarize_file(episode_id, format_name, content, store)
        except FileNotFoundError:
            continue  # Someone removed it meanwhile.
        except errors.DatasetError:
            continue  # `verify` reports it.
        index.append(summary)
        added.append(episode_id)
    return tuple(added)


def _complete_bucket_index(place: DatasetPlace) -> tuple[str, ...]:
    """Adds episodes of a bucket that the index lacks, in one file of their own."""
    known = merge(place.read_index())
    stored = place.sealed_episodes()

    def summary_of(episode_id: str) -> EpisodeSummary | None:
        try:
            content = place.read_episode(episode_id, stored[episode_id])
            return summarize_file(episode_id, stored[episode_id], content, place.blobs)
        except errors.DatasetError:
            return None  # `verify` reports it.

    lost = sorted(stored.keys() - known.keys())
    found = [s for s in map_in_order(summary_of, lost, workers=_WORKERS) if s is not None]
    if found:
        lines = b"".join(summary.to_line() for summary in found)
        place.storage.write(INDEX + index_file_name("-recovered"), lines)
    return tuple(summary.episode_id for summary in found)


# Making a dataset's index anew, in one file, from the episodes' files.
#
# It may run beside writers and readers, and may be killed: the new file is there before the old
# ones go, and an episode with two lines counts once. Files that a living writer appends to are left
# alone.


@dataclasses.dataclass(frozen=True, slots=True)
class RebuildReport:
    """What `rebuild` did."""

    num_episodes: int
    """Episodes in the index now."""
    files_before: int
    files_after: int
    being_written: int
    """Files of living writers, which were left alone."""
    dropped: tuple[str, ...] = ()
    """Ids of episodes that were in the index and whose files are missing."""
    unreadable: tuple[str, ...] = ()
    """What is wrong with episodes that could not be read; their lines are as they were."""


def rebuild(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> RebuildReport:
    """Makes the index anew from the episodes' files, all of which are read.

    Args:
        place: The dataset's folder, or its URL.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It, or an episode, was written by a newer webtraj.
        InvalidInputError: It is a spool, whose index goes where its episodes go.
        StorageError: It cannot be read or written; the index that was there is left.
    """
    opened = open_place(place, storage_options)
    if opened.header.destination:
        raise errors.InvalidInputError(
            f"{opened.url!r} is a spool, whose episodes are on their way to "
            f"{opened.header.destination!r}; `webtraj push` sends them."
        )
    if opened.layout is not None:
        opened.layout.check_no_links()
    # The index first: each of its episodes then has its file, whichever is listed.
    old = opened.read_index()
    listed, stored = merge(old), opened.sealed_episodes()
    summaries, unreadable = _summarize_all(opened, stored, listed)
    if summaries:
        lines = b"".join(summary.to_line() for summary in summaries)
        opened.storage.write(INDEX + index_file_name("-rebuilt"), lines)
    left = _remove(opened, old)
    files = opened.read_index()
    return RebuildReport(
        num_episodes=len(merge(files)),
        files_before=len(old),
        files_after=len(files),
        being_written=left,
        dropped=tuple(sorted(listed.keys() - stored.keys())),
        unreadable=tuple(unreadable),
    )


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

    found = list(place.map(summary_of, sorted(stored), workers=_WORKERS))
    summaries = [item for item in found if isinstance(item, EpisodeSummary)]
    known = {summary.episode_id for summary in summaries}
    # A damaged episode's line says what its file was.
    summaries += [listed[name] for name in stored if name in listed and name not in known]
    return summaries, [str(item) for item in found if not isinstance(item, EpisodeSummary)]


def _remove(place: DatasetPlace, names: Iterable[str]) -> int:
    """Removes index files; returns how many were left, as a living writer appends to them."""
    left = 0
    for name in names:
        if place.layout is None:
            place.storage.delete(INDEX + name)
            continue
        try:
            with claim(place.layout.index / name) as claimed:
                if claimed:
                    place.storage.delete(INDEX + name)
                else:
                    left += 1
        except FileNotFoundError:  # Another rebuild was faster.
            continue
    return left
