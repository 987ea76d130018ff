"""Recovery: sealing what a dead writer left open, so that nothing recorded is lost."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from webtraj import errors
from webtraj.collectors import sealing
from webtraj.collectors.blobs import BlobStore
from webtraj.collectors.index import EpisodeSummary, IndexWriter, read_index, summarize
from webtraj.collectors.journal import claim
from webtraj.collectors.layout import DatasetLayout
from webtraj.datasets.episode_file import parse_episode
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
        for journal in sorted(layout.journals.glob("*.jsonl")):
            try:
                with claim(journal) as claimed:
                    if not claimed:
                        being_written.append(journal.stem)
                    elif journal.exists():
                        sealed.append(_seal(layout, journal, index))
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


def _seal(layout: DatasetLayout, journal: Path, index: IndexWriter) -> EpisodeSummary:
    store = BlobStore(layout.blobs)
    blobs = [blob for blob in references.blobs_in(journal.read_bytes()) if store.holds(blob)]
    return sealing.seal(layout, journal.stem, index=index, blobs=blobs)


def _remove_unnamed(layout: DatasetLayout) -> None:
    """Removes journals whose writer died before their first line was whole."""
    for path in layout.journals.glob(".*.tmp"):
        with claim(path) as claimed:
            if claimed:
                path.unlink(missing_ok=True)


def _complete_index(layout: DatasetLayout, index: IndexWriter) -> tuple[str, ...]:
    """Adds sealed episodes that the index lacks: their writer died before it could."""
    known = {summary.episode_id for summary in read_index(layout.index)}
    added = []
    for path in sorted(layout.episodes.glob("[!.]*.json")):
        if path.stem in known:
            continue
        content = path.read_bytes()
        try:
            summary = summarize(parse_episode(content, path), content)
        except errors.DatasetError:
            continue  # `verify` reports it.
        index.append(summary)
        added.append(path.stem)
    return tuple(added)
