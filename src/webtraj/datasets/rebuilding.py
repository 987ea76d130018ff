"""Making a dataset's index anew, in one file, from the episodes' files.

It may run beside writers and readers, and may be killed: the new file is there before the old ones
go, and an episode with two lines counts once. Files that a living writer appends to are left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.datasets.episode_file import summarize_file
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.store.index import EpisodeSummary, index_file_name, merge
from webtraj.store.journal import claim
from webtraj.store.layout import INDEX

__all__ = ["RebuildReport", "rebuild"]

_WORKERS = 16


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
