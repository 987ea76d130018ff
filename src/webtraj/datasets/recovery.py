"""Recovery: sealing what a dead writer left open, so that nothing recorded is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

from webtraj import errors
from webtraj.collectors import sealing
from webtraj.collectors.blobs import BlobStore
from webtraj.collectors.index import EpisodeSummary, IndexWriter, read_index
from webtraj.collectors.journal import claim
from webtraj.collectors.layout import DatasetLayout
from webtraj.datasets.episode_file import summarize_file
from webtraj.serialization import references

__all__ = ["RecoveryReport", "recover"]


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


def recover(path: str | os.PathLike[str]) -> RecoveryReport:
    """Seals every episode of a dataset whose writer is gone. Safe to run at any time, and again.

    Raises:
        NotADatasetError: The folder holds no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        CollectorError: Something could not be written; run it again once that is mended.
    """
    layout = DatasetLayout(Path(path))
    layout.check()
    index = IndexWriter(layout.index)
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
                        sealed.append(_seal(layout, episode_id, index))
            except FileNotFoundError:
                continue  # Sealed by its writer in the meantime.
            except errors.DatasetError as error:
                unreadable.append(str(error))
        _remove_unnamed(layout)
        indexed = _complete_index(layout, index)
    except OSError as error:
        raise errors.CollectorError(
            f"The recovery of {str(layout.root)!r} stopped: {error}. Nothing is lost; run it again."
        ) from error
    finally:
        index.close()
    return RecoveryReport(tuple(sealed), indexed, tuple(being_written), tuple(unreadable))


def _seal(layout: DatasetLayout, episode_id: str, index: IndexWriter) -> EpisodeSummary:
    store = BlobStore(layout.blobs)
    journal = layout.journal(episode_id).read_bytes()
    blobs = [blob for blob in references.blobs_in(journal) if store.holds(blob)]
    return sealing.seal(layout, episode_id, index=index, blobs=blobs)


def _remove_unnamed(layout: DatasetLayout) -> None:
    """Removes journals whose writer died before their first line was whole."""
    for path in layout.journals.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError), claim(path) as claimed:
            if claimed:
                path.unlink(missing_ok=True)


def _complete_index(layout: DatasetLayout, index: IndexWriter) -> tuple[str, ...]:
    """Adds sealed episodes that the index lacks: their writer died before it could."""
    stored = layout.sealed_episodes()
    stored -= layout.open_episodes()  # They are just being sealed; their index line comes next.
    stored -= {summary.episode_id for summary in read_index(layout.index)}
    store = BlobStore(layout.blobs)
    added = []
    for episode_id in sorted(stored):
        content = layout.episode(episode_id).read_bytes()
        try:
            summary = summarize_file(layout, episode_id, content, store)
        except errors.DatasetError:
            continue  # `verify` reports it.
        index.append(summary)
        added.append(episode_id)
    return tuple(added)
