"""Sealing: from an episode's journal to its final file.

The final file is a function of the journal alone. A collector seals the episodes that end, and
recovery those whose writer died, by the same code. The order of effects makes every step safe to
repeat: blobs, then the episode's file, then the index line, and last the journal goes. Whatever
dies in between, the journal is still there, and sealing it again does the rest. Where the file
holds its blobs itself, they go once the journal has gone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from typing import Any, Protocol

from webtraj.store import files
from webtraj.store.blobs import Blob, BlobStore
from webtraj.store.index import EpisodeSummary, summarize
from webtraj.store.journal import Journal, read_journal
from webtraj.store.layout import SCHEMA_VERSION, DatasetHeader, DatasetLayout, format_named

__all__ = ["Index", "blob_store", "seal", "unshared_blobs"]


class Index(Protocol):
    """Takes the index lines of sealed episodes."""

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Adds one line.

        Raises:
            OSError: It could not be written.
        """

    def close(self) -> None:
        """Lets go of all files. Idempotent."""


def blob_store(layout: DatasetLayout, header: DatasetHeader, episode_id: str) -> BlobStore:
    """Returns where an open episode's blobs are kept."""
    if header.shares_blobs:
        return BlobStore(layout.blobs, within=layout.root)
    return unshared_blobs(layout, episode_id)


def unshared_blobs(layout: DatasetLayout, episode_id: str) -> BlobStore:
    """Returns the store of the blobs that belong to one episode alone: one folder, no subfolders.

    An episode that an older webtraj began has subfolders, as `blobs/` has, and keeps them.
    """
    folder = layout.unshared(episode_id)
    try:
        with os.scandir(folder) as entries:
            flat = not any(entry.is_dir() for entry in entries)
    except OSError:  # It is not there yet, or cannot be read: then reading a blob says so.
        flat = True
    return BlobStore(folder, within=layout.root, flat=flat)


def seal(
    layout: DatasetLayout,
    episode_id: str,
    *,
    header: DatasetHeader,
    index: Index,
    blobs: Collection[Blob] = (),
    sync: bool = True,
) -> EpisodeSummary:
    """Makes the final file of an episode whose journal is complete, or whose writer is gone.

    Args:
        layout: The dataset.
        episode_id: Names the journal. If that has no end, the episode is sealed as CRASHED.
        header: Says what the dataset is.
        index: Takes the summary.
        blobs: Blobs of the episode that may not be on the disk yet.
        sync: Whether to wait until all of it is on the disk.

    Returns:
        The summary that went into the index.

    Raises:
        CorruptDataError: The journal, or a blob that the summary needs, cannot be read.
        OSError: Something cannot be written; the journal is left as it is.
    """
    path = layout.journal(episode_id)
    episode = _episode(read_journal(path))
    episode_format = format_named(header.format)
    store = blob_store(layout, header, episode_id)
    content = episode_format.encode(episode, store)
    summary = summarize(episode, content, store, header.format)
    if sync and not episode_format.self_contained:
        _sync_blobs(store, blobs)
    target = layout.episode(episode_id, header.format)
    files.write_atomically(target, content, sync=sync)
    if sync:
        files.sync_folder(target.parent)
    index.append(summary, sync=sync)
    path.unlink(missing_ok=True)  # Another recovery may have been faster.
    if episode_format.self_contained:
        shutil.rmtree(store.root, ignore_errors=True)  # What is left, recovery removes.
    return summary


def _episode(journal: Journal) -> dict[str, Any]:
    """Returns the content of the final file."""
    return {
        "schema_version": SCHEMA_VERSION,
        "info": journal.info,
        "start_time": journal.begin.get("time"),
        "end_time": journal.last_time,
        "steps": journal.steps,
        "end": journal.end or _crashed(journal),
    }


def _crashed(journal: Journal) -> dict[str, Any]:
    """Returns the end of an episode whose writer died, naming the action that was in flight."""
    end: dict[str, Any] = {"reason": "crashed", "phase": "recovery"}
    if journal.intent is not None:
        end["action_in_flight"] = True
        if "action" in journal.intent:
            end["in_flight_action"] = journal.intent["action"]
        if "decision" in journal.intent:
            end["in_flight_decision"] = journal.intent["decision"]
    return end


def _sync_blobs(store: BlobStore, blobs: Collection[Blob]) -> None:
    paths = [store.path(blob) for blob in blobs]
    for path in paths:
        files.sync_file(path)
    for folder in {path.parent for path in paths}:
        files.sync_folder(folder)
