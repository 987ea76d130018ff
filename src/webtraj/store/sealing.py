"""Sealing: writing an episode's final file from its journal.

The final file depends on the journal alone. Collectors seal episodes that end, and recovery seals
episodes whose writer died, with the same code. The order of effects makes every step safe to
repeat: blobs, the episode's file, the index line, and last the removal of the journal. If the
process dies in between, the journal is still there, and sealing again does the rest. If the file
contains its blobs, they are removed after the journal.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from typing import Any, Protocol

from webtraj.store import files
from webtraj.store.blobs import Blob, BlobStore
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.journal import Journal, read_journal
from webtraj.store.layout import SCHEMA_VERSION, DatasetHeader, DatasetLayout

__all__ = ["Index", "blob_store", "seal", "unshared_blobs"]


class Index(Protocol):
    """Stores the index lines of sealed episodes."""

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Add one line.

        Raises:
            OSError: It could not be written.
        """

    def close(self) -> None:
        """Release all files. Idempotent."""


def blob_store(layout: DatasetLayout, header: DatasetHeader, episode_id: str) -> BlobStore:
    """Return the store of an open episode's blobs."""
    if header.shares_blobs:
        return BlobStore(layout.blobs, within=layout.root)
    return unshared_blobs(layout, episode_id)


def unshared_blobs(layout: DatasetLayout, episode_id: str) -> BlobStore:
    """Return the store for an episode's own blobs: one folder without subfolders."""
    return BlobStore(layout.unshared_folder(episode_id), within=layout.root, flat=True)


def seal(
    layout: DatasetLayout,
    episode_id: str,
    *,
    header: DatasetHeader,
    index: Index,
    blobs: Collection[Blob] = (),
    sync: bool = True,
) -> EpisodeSummary:
    """Write the final file of an episode whose journal is complete or whose writer is gone.

    Args:
        layout: The dataset.
        episode_id: The episode. If its journal has no end, it is sealed as CRASHED.
        header: The dataset's header.
        index: Takes the summary.
        blobs: Blobs of the episode that may not be on the disk yet.
        sync: Whether to wait until everything is on the disk.

    Returns:
        The summary that was added to the index.

    Raises:
        CorruptDataError: The journal, or a blob that the summary needs, cannot be read.
        OSError: A file cannot be written; the journal is kept.
    """
    path = layout.journal(episode_id)
    episode = _episode(read_journal(path))
    episode_format = format_named(header.format)
    store = blob_store(layout, header, episode_id)
    content = episode_format.encode(episode, store)
    summary = summarize(episode, content, store, header.format)
    if sync and not episode_format.self_contained:
        store.sync(blobs)
    target = layout.episode(episode_id, header.format)
    files.write_atomically(target, content, sync=sync)
    if sync:
        files.sync_folder(target.parent)
    index.append(summary, sync=sync)
    path.unlink(missing_ok=True)  # Another recovery may have been faster.
    if episode_format.self_contained:
        shutil.rmtree(store.root, ignore_errors=True)  # Recovery removes the rest.
    return summary


def _episode(journal: Journal) -> dict[str, Any]:
    """Return the content of the final file."""
    return {
        "schema_version": SCHEMA_VERSION,
        "info": journal.info,
        "start_time": journal.begin.get("time"),
        "end_time": journal.last_time,
        "steps": journal.steps,
        "end": journal.end or _make_crashed_end(journal),
    }


def _make_crashed_end(journal: Journal) -> dict[str, Any]:
    """Return the end of an episode whose writer died, including the action in flight."""
    end: dict[str, Any] = {"reason": "crashed", "phase": "recovery"}
    if journal.intent is not None:
        end["action_in_flight"] = True
        if "action" in journal.intent:
            end["in_flight_action"] = journal.intent["action"]
        if "decision" in journal.intent:
            end["in_flight_decision"] = journal.intent["decision"]
    return end
