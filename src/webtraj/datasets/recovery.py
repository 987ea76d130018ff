"""Seal episodes that a dead writer left open, and rebuild a dataset's index."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webtraj import errors
from webtraj.collectors.spool import open_index
from webtraj.datasets.dataset import summarize_file
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.datasets.progress import count_items
from webtraj.store import sealing
from webtraj.store.blobs import blobs_in
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, index_file_name, merge
from webtraj.store.journal import claim
from webtraj.store.layout import INDEX, DatasetHeader, DatasetLayout

__all__ = ["RebuildReport", "RecoveryReport", "rebuild", "recover"]

# Recovery. Only folders have journals; in a bucket, only index lines can be missing.


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The result of `recover`."""

    sealed: tuple[EpisodeSummary, ...] = ()
    """Episodes sealed from their journals; CRASHED, unless their end had been written."""
    indexed: tuple[str, ...] = ()
    """Ids of sealed episodes that the index lacked."""
    being_written: tuple[str, ...] = ()
    """Ids of episodes being recorded now; left alone."""
    unreadable: tuple[str, ...] = ()
    """Errors of journals that could not be sealed; left as they are."""


_WORKERS = 16


def recover(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> RecoveryReport:
    """Seal every episode whose writer is dead. Safe to run at any time and repeatedly.

    Args:
        place: The dataset's folder or URL.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Raises:
        NotADatasetError: There is no dataset at `place`.
        UnsupportedSchemaError: A newer webtraj wrote it.
        CollectorError: Something could not be written. Fix the cause and run it again.
        StorageDeniedError: A folder of the dataset is a symbolic link. Nothing was changed.
        StorageError: The bucket could not be read or written.
    """
    opened = open_place(place, storage_options)
    if opened.layout is None:
        if found := list(_find_unindexed(opened)):
            lines = b"".join(summary.to_line() for summary in found)
            opened.storage.write(INDEX + index_file_name("-recovered"), lines)
        return RecoveryReport(indexed=tuple(summary.episode_id for summary in found))
    return _recover_folder(opened, opened.layout)


def _recover_folder(place: DatasetPlace, layout: DatasetLayout) -> RecoveryReport:
    header = place.header
    _make_folders(layout)
    index = open_index(layout, header)
    sealed: list[EpisodeSummary] = []
    being_written: list[str] = []
    unreadable: list[str] = []
    try:
        unsealed = sorted(layout.open_episodes())
        for episode_id in count_items(unsealed, "Sealing episodes", len(unsealed)):
            journal = layout.journal(episode_id)
            try:
                with claim(journal) as claimed:
                    if not claimed:
                        being_written.append(episode_id)
                    elif journal.exists():
                        sealed.append(_seal(layout, header, episode_id, index))
            except FileNotFoundError:
                continue  # Its writer sealed it meanwhile.
            except errors.DatasetError as error:
                unreadable.append(str(error))
        _remove_unnamed(layout)
        _remove_unshared(layout)
        # In a spool, an episode without an index line is being uploaded.
        indexed = []
        for summary in () if header.destination else _find_unindexed(place):
            index.append(summary)
            indexed.append(summary)
    except OSError as error:
        why = str(error).rstrip(".")
        raise errors.CollectorError(
            f"Recovering {str(layout.root)!r} stopped: {why}. Nothing is lost; run it again."
        ) from error
    finally:
        index.close()
    return RecoveryReport(
        tuple(sealed),
        tuple(summary.episode_id for summary in indexed),
        tuple(being_written),
        tuple(unreadable),
    )


def _make_folders(layout: DatasetLayout) -> None:
    """Create the dataset's folders; a copy may lack the empty ones."""
    try:
        layout.make_folders()
    except errors.StorageDeniedError:
        raise
    except OSError as error:
        raise errors.CollectorError(
            f"Cannot write the dataset folder {str(layout.root)!r}: {error}."
        ) from error


def _seal(
    layout: DatasetLayout, header: DatasetHeader, episode_id: str, index: sealing.Index
) -> EpisodeSummary:
    store = sealing.blob_store(layout, header, episode_id)
    journal = layout.journal(episode_id).read_bytes()
    blobs = [blob for blob in blobs_in(journal) if store.holds(blob)]
    return sealing.seal(layout, episode_id, header=header, index=index, blobs=blobs)


def _remove_unnamed(layout: DatasetLayout) -> None:
    """Remove journals whose writer died before completing the first line."""
    for path in layout.journals.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError), claim(path) as claimed:
            if claimed:
                path.unlink(missing_ok=True)


def _remove_unshared(layout: DatasetLayout) -> None:
    """Remove leftover blobs of sealed episodes whose own file contains them."""
    for episode_id, format_name in layout.sealed_episodes().items():
        if format_named(format_name).self_contained:
            folder = layout.unshared_folder(episode_id)
            if not layout.journal(episode_id).exists() and folder.exists():
                shutil.rmtree(folder, ignore_errors=True)


def _find_unindexed(place: DatasetPlace) -> Iterator[EpisodeSummary]:
    """Yield the summaries of sealed episodes that the index lacks."""
    stored = place.sealed_episodes()
    # Open episodes are being sealed; their index lines come next.
    known = place.open_episodes() | merge(place.read_index()).keys()
    found = _summaries(place, {name: stored[name] for name in sorted(stored.keys() - known)})
    # The others were removed meanwhile, or `verify` reports them.
    return (summary for summary in found if isinstance(summary, EpisodeSummary))


def _summaries(
    place: DatasetPlace, stored: Mapping[str, str]
) -> Iterator[EpisodeSummary | errors.DatasetError]:
    """Yield the summary of each file, or the error of one that cannot be read."""
    found = place.attempt(
        lambda name: summarize_file(place, name, stored[name]), stored, workers=_WORKERS
    )
    return count_items(found, "Indexing episodes", len(stored), size=_size)


def _size(found: EpisodeSummary | errors.DatasetError) -> int:
    return found.size if isinstance(found, EpisodeSummary) else 0


# Rebuild a dataset's index from the episode files, as one file.
#
# Safe to run beside writers and readers, and to kill: the new file is written before the old ones
# are removed, and an episode with two lines counts once. Index files of active writers are left
# alone.


@dataclasses.dataclass(frozen=True, slots=True)
class RebuildReport:
    """The result of `rebuild`."""

    num_episodes: int
    """Episodes in the index now."""
    files_before: int
    files_after: int
    being_written: int
    """Index files of active writers, which were left alone."""
    dropped: tuple[str, ...] = ()
    """Ids of indexed episodes whose files are missing."""
    unreadable: tuple[str, ...] = ()
    """Errors of episodes that could not be read; their index lines are unchanged."""


def rebuild(place: Place, *, storage_options: Mapping[str, Any] | None = None) -> RebuildReport:
    """Rebuild the index by reading every episode file.

    Args:
        place: The dataset's folder or URL.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.

    Raises:
        NotADatasetError: There is no dataset at `place`.
        UnsupportedSchemaError: A newer webtraj wrote it or one of its episodes.
        InvalidInputError: It is a spool, which has its index at its destination.
        StorageError: It cannot be read or written. The old index is kept.
    """
    opened = open_place(place, storage_options)
    if opened.header.destination:
        raise errors.InvalidInputError(
            f"{opened.url!r} is a spool, which only holds episodes on their way to "
            f"{opened.header.destination!r}. Send them with `webtraj push`."
        )
    if opened.layout is not None:
        opened.layout.check_no_links()
    # Read the index first: each of its episodes then has its file.
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
    """Return the summaries of all episodes, and the errors of those that could not be read."""
    found = list(_summaries(place, {name: stored[name] for name in sorted(stored)}))
    for item in found:
        if isinstance(item, errors.UnsupportedSchemaError):
            raise item
    summaries = [item for item in found if isinstance(item, EpisodeSummary)]
    known = {summary.episode_id for summary in summaries}
    # A damaged episode keeps its index line, which says what its file was.
    summaries += [listed[name] for name in stored if name in listed and name not in known]
    return summaries, [str(item) for item in found if not isinstance(item, EpisodeSummary)]


def _remove(place: DatasetPlace, names: Iterable[str]) -> int:
    """Remove index files; return how many were kept because a writer has them open."""
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
        except FileNotFoundError:  # Another rebuild got there first.
            continue
    return left
