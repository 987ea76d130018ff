"""Recovery: sealing what a dead writer left open, so that nothing recorded is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path

from webtraj import errors, formats
from webtraj.collectors import sealing
from webtraj.collectors.index import EpisodeSummary, read_index
from webtraj.collectors.journal import claim
from webtraj.collectors.layout import DatasetHeader, DatasetLayout
from webtraj.collectors.spool import open_index
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
    header = layout.check()
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
        _remove_unshared(layout)
        # In a spool, an episode without an index line is being taken away.
        indexed = () if header.destination else _complete_index(layout, header, index)
    except OSError as error:
        raise errors.CollectorError(
            f"The recovery of {str(layout.root)!r} stopped: {error}. Nothing is lost; run it again."
        ) from error
    finally:
        index.close()
    return RecoveryReport(tuple(sealed), indexed, tuple(being_written), tuple(unreadable))


def _seal(
    layout: DatasetLayout, header: DatasetHeader, episode_id: str, index: sealing.Index
) -> EpisodeSummary:
    store = sealing.blob_store(layout, header, episode_id)
    journal = layout.journal(episode_id).read_bytes()
    blobs = [blob for blob in references.blobs_in(journal) if store.holds(blob)]
    return sealing.seal(layout, episode_id, header=header, index=index, blobs=blobs)


def _remove_unnamed(layout: DatasetLayout) -> None:
    """Removes journals whose writer died before their first line was whole."""
    for path in layout.journals.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError), claim(path) as claimed:
            if claimed:
                path.unlink(missing_ok=True)


def _remove_unshared(layout: DatasetLayout) -> None:
    """Removes blobs of episodes whose file has them, and whose writer died before it could."""
    for episode_id, format_name in layout.sealed_episodes().items():
        if formats.format_named(format_name).self_contained:
            folder = layout.unshared(episode_id)
            if not layout.journal(episode_id).exists() and folder.exists():
                shutil.rmtree(folder, ignore_errors=True)


def _complete_index(
    layout: DatasetLayout, header: DatasetHeader, index: sealing.Index
) -> tuple[str, ...]:
    """Adds sealed episodes that the index lacks: their writer died before it could."""
    stored = layout.sealed_episodes()
    # Those that are open are just being sealed; their index line comes next.
    known = layout.open_episodes() | {summary.episode_id for summary in read_index(layout.index)}
    added = []
    for episode_id in sorted(stored.keys() - known):
        format_name = stored[episode_id]
        content = layout.episode(episode_id, format_name).read_bytes()
        store = sealing.blob_store(layout, header, episode_id)
        try:
            summary = summarize_file(episode_id, format_name, content, store)
        except errors.DatasetError:
            continue  # `verify` reports it.
        index.append(summary)
        added.append(episode_id)
    return tuple(added)
