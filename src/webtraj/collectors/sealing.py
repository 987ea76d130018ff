"""Sealing: from an episode's journal to its final file.

The final file is a function of the journal alone. A collector seals the episodes that end, and
recovery those whose writer died, by the same code. The order of effects makes every step safe to
repeat: blobs, then the episode's file, then the index line, and last the journal goes. Whatever
dies in between, the journal is still there, and sealing it again does the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from webtraj.collectors import files
from webtraj.collectors.blobs import BlobStore
from webtraj.collectors.index import EpisodeSummary, IndexWriter, summarize
from webtraj.collectors.journal import Journal, read_journal
from webtraj.collectors.layout import SCHEMA_VERSION, DatasetLayout
from webtraj.serialization.blobs import Blob

__all__ = ["seal"]


def seal(
    layout: DatasetLayout,
    episode_id: str,
    *,
    index: IndexWriter,
    blobs: Collection[Blob] = (),
    sync: bool = True,
) -> EpisodeSummary:
    """Makes the final file of an episode whose journal is complete, or whose writer is gone.

    Args:
        layout: The dataset.
        episode_id: Names the journal. If that has no end, the episode is sealed as CRASHED.
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
    content = orjson.dumps(episode)
    store = BlobStore(layout.blobs)
    summary = summarize(episode, content, store)
    if sync:
        _sync_blobs(store, blobs)
    target = layout.episode(episode_id)
    files.write_atomically(target, content, sync=sync)
    if sync:
        files.sync_folder(target.parent)
    index.append(summary, sync=sync)
    path.unlink(missing_ok=True)  # Another recovery may have been faster.
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
