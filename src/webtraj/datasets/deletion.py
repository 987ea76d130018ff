"""Deleting episodes: out of the index first, then their files, and last the blobs of nobody.

In this order a reader never finds an episode in the index whose file is gone, but for one that read
the index before. A deletion that dies in between leaves episodes whole that it had not come to, or
that were only taken out of the index: those are found by their files, and deleted by running it
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.collectors.layout import check_episode_id, episode_key
from webtraj.datasets.compaction import compact, exclusive, remove_from_index
from webtraj.datasets.garbage import GRACE, GarbageReport, collect_garbage
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import Place, open_place

__all__ = ["DeletionReport", "delete"]

_WORKERS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class DeletionReport:
    """What `delete` did."""

    deleted: tuple[str, ...]
    """The ids of the episodes that are gone."""
    garbage: GarbageReport


def delete(
    place: Place,
    episode_ids: Iterable[str],
    *,
    grace: float = GRACE,
    alone: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> DeletionReport:
    """Deletes sealed episodes, and the blobs that none refers to any more.

    Args:
        place: The dataset's folder, or its URL.
        episode_ids: The episodes. If one is not there, none is deleted.
        grace: See `webtraj.datasets.garbage.collect_garbage`.
        alone: See there too.
        storage_options: For a bucket: what `webtraj.storage.bucket.BucketStorage` takes.

    Raises:
        NotADatasetError: There is no dataset.
        UnknownEpisodeError: It has no sealed episode of such an id.
        InvalidInputError: An episode is still open, or the dataset is a spool.
        StorageError: It cannot be read or written; run it again.
    """
    opened = open_place(place, storage_options)
    wanted = sorted({check_episode_id(episode_id) for episode_id in episode_ids})
    with exclusive(opened):
        still_open = opened.open_episodes().intersection(wanted)
        if still_open:
            raise errors.InvalidInputError(
                f"The episode {min(still_open)!r} is still being recorded in {opened.url!r}, or "
                "waits for `webtraj recover`; delete it when it is sealed."
            )
        stored = opened.sealed_episodes()
        unknown = [episode_id for episode_id in wanted if episode_id not in stored]
        if unknown:
            raise errors.UnknownEpisodeError(
                f"{opened.url!r} has no sealed episode {unknown[0]!r}"
                + (f" and {len(unknown) - 1} others that were named" if unknown[1:] else "")
                + "; nothing was deleted. `webtraj ls` shows the ids."
            )
        remove_from_index(opened, wanted)
        keys = [episode_key(episode_id, stored[episode_id]) for episode_id in wanted]
        for _ in map_in_order(opened.storage.delete, keys, workers=_WORKERS):
            pass
    compact(place, storage_options=storage_options)
    garbage = collect_garbage(place, grace=grace, alone=alone, storage_options=storage_options)
    return DeletionReport(tuple(wanted), garbage)
