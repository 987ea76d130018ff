"""Episodes from one dataset into another: copied, merged, and converted from format to format.

Whatever the places and formats, an episode arrives as the same data, and its blobs as the same
bytes. To a dataset of the same format its file goes byte for byte. Checked on the way are the
file's hash against its index line, each blob against its name, and that what was made of an episode
in another format is read back as the same data.

All of it may be interrupted, and run again: an episode that is there already is skipped if it is
the same. One of the same id that is not the same is left as it is, and reported.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from webtraj import errors
from webtraj.datasets.bucket_blobs import BucketBlobs
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace, Place
from webtraj.datasets.writer import DatasetWriter
from webtraj.store import formats
from webtraj.store.blobs import BlobSource, blobs_of
from webtraj.store.index import EpisodeSummary
from webtraj.store.index import merge as merge_index

__all__ = ["TransferReport", "convert", "copy", "merge", "transfer"]

_WORKERS = 8

Condition = Callable[[EpisodeSummary], bool]
Options = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class TransferReport:
    """What became of the episodes."""

    added: tuple[str, ...] = ()
    """Ids of episodes that were written."""
    skipped: tuple[str, ...] = ()
    """Ids of episodes that were there already, the same."""
    clashes: tuple[str, ...] = ()
    """What is wrong with episodes whose id another one has already; that one was left."""
    failed: tuple[str, ...] = ()
    """What is wrong with episodes that could not be read; they were not written."""

    @property
    def complete(self) -> bool:
        """Whether all episodes are where they should be."""
        return not (self.clashes or self.failed)


def copy(
    source: Place,
    target: Place,
    *,
    where: Condition | None = None,
    source_options: Options | None = None,
    target_options: Options | None = None,
) -> TransferReport:
    """Copies a dataset, or the episodes of it that meet a condition, in their format.

    Args:
        source: The dataset's folder, or its URL.
        target: A folder or URL: new, empty, or a dataset of the same format, which is added to.
        where: The condition; `webtraj.datasets.conditions.parse_condition` makes one of text.
        source_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        target_options: Likewise.

    Raises:
        NotADatasetError: The source is no dataset, or the target holds other things.
        UnsupportedSchemaError: One of them was written by a newer webtraj.
        InvalidInputError: The target is of another format.
        StorageError: One of them could not be read or written; run it again.
    """
    return convert(
        source,
        target,
        format=None,
        where=where,
        source_options=source_options,
        target_options=target_options,
    )


def convert(
    source: Place,
    target: Place,
    *,
    format: str | None,  # noqa: A002  (As in DatasetHeader.)
    where: Condition | None = None,
    source_options: Options | None = None,
    target_options: Options | None = None,
) -> TransferReport:
    """Writes the episodes of a dataset in another format.

    Args:
        source: The dataset's folder, or its URL.
        target: A folder or URL: new, empty, or a dataset of the format, which is added to.
        format: The format of the target; None: as the source.
        where: Which episodes; all, if not given.
        source_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        target_options: Likewise.

    Raises:
        NotADatasetError: The source is no dataset, or the target holds other things.
        UnsupportedSchemaError: One of them was written by a newer webtraj.
        InvalidInputError: The target is of another format than that.
        StorageError: One of them could not be read or written; run it again.
    """
    dataset = open_dataset(source, storage_options=source_options, complete=True)
    wanted = format or dataset.place.header.format
    with DatasetWriter(target, format=wanted, storage_options=target_options) as writer:
        return transfer(dataset if where is None else dataset.filter(where), writer)


def merge(
    sources: Sequence[Place],
    target: Place,
    *,
    format: str | None = None,  # noqa: A002  (As in DatasetHeader.)
    source_options: Options | None = None,
    target_options: Options | None = None,
) -> TransferReport:
    """Copies several datasets into one.

    An episode that several of them have is taken from the first; if it is not the same in another,
    that is a clash, which is reported.

    Args:
        sources: Their folders or URLs, of any formats.
        target: A folder or URL: new, empty, or a dataset of the format, which is added to.
        format: The format of the target; None: as the first source.
        source_options: For buckets: what `webtraj.store.bucket.BucketStorage` takes.
        target_options: Likewise.

    Raises:
        InvalidInputError: There are no sources, or the target is of another format.
        NotADatasetError: A source is no dataset, or the target holds other things.
        UnsupportedSchemaError: One of them was written by a newer webtraj.
        StorageError: One of them could not be read or written; run it again.
    """
    if not sources:
        raise errors.InvalidInputError("No datasets were named; name at least one to merge.")
    datasets = [
        open_dataset(source, storage_options=source_options, complete=True) for source in sources
    ]
    wanted = format or datasets[0].place.header.format
    with DatasetWriter(target, format=wanted, storage_options=target_options) as writer:
        reports = [transfer(dataset, writer) for dataset in datasets]
    return TransferReport(
        **{
            field.name: tuple(what for report in reports for what in getattr(report, field.name))
            for field in dataclasses.fields(TransferReport)
        }
    )


def transfer(dataset: Dataset, writer: DatasetWriter) -> TransferReport:
    """Adds all episodes of a dataset to another.

    Raises:
        UnsupportedSchemaError: An episode was written by a newer webtraj.
        StorageError: One of the places could not be read or written.
    """
    return _Transfer(dataset.place, writer).run(dataset.summaries)


class _Transfer:
    def __init__(self, source: DatasetPlace, writer: DatasetWriter) -> None:
        self._source = source
        self._writer = writer
        self._there = {
            s.episode_id: s.sha256 for s in merge_index(writer.place.read_index()).values()
        }

    def run(self, summaries: Iterable[EpisodeSummary]) -> TransferReport:
        found: dict[str, list[str]] = {"added": [], "skipped": [], "clashes": [], "failed": []}
        for kind, what in map_in_order(self._send, summaries, workers=_WORKERS):
            found[kind].append(what)
        self._writer.flush()
        return TransferReport(**{kind: tuple(names) for kind, names in found.items()})

    def _send(self, summary: EpisodeSummary) -> tuple[str, str]:
        episode_id = summary.episode_id
        if summary.sha256 and self._there.get(episode_id) == summary.sha256:
            return "skipped", episode_id  # Byte for byte, so that it need not be read.
        try:
            added = self._send_file(summary)
        except errors.StorageConflictError as error:
            return "clashes", str(error)
        except errors.UnsupportedSchemaError:
            raise
        except errors.CorruptDataError as error:
            return "failed", f"{episode_id}: {error}"
        return ("added" if added else "skipped"), episode_id

    def _send_file(self, summary: EpisodeSummary) -> bool:
        episode_id, format_name = summary.episode_id, summary.format
        content = self._source.read_episode(episode_id, format_name)
        if summary.sha256 and hashlib.sha256(content).hexdigest() != summary.sha256:
            raise errors.CorruptDataError(
                f"Its file in {self._source.url!r} is not what the index says: changed or "
                "damaged. Run `webtraj verify`."
            )
        stored = formats.format_named(format_name).decode(content, episode_id)
        found = stored.data["info"].get("episode_id")
        if found != episode_id:
            raise errors.CorruptDataError(f"Its file holds the episode {found!r:.200}.")
        blobs: BlobSource = stored.blobs or self._source.blobs_of(episode_id)
        if format_name != self._writer.format.name:
            if isinstance(blobs, BucketBlobs) and self._writer.format.self_contained:
                blobs = blobs.read_all(blobs_of(stored.data))
            content = self._writer.format.encode(stored.data, blobs)
            self._check(content, stored.data, episode_id)
        return self._writer.add_file(stored.data, content, blobs).added

    def _check(self, content: bytes, data: Mapping[str, Any], episode_id: str) -> None:
        """Checks that what was made of an episode is read back as the same."""
        again = self._writer.format.decode(content, episode_id)
        if orjson.dumps(again.data) != orjson.dumps(data):
            raise errors.CorruptDataError(
                f"It cannot be kept in the format {self._writer.format.name!r} without loss. "
                "Please report this."
            )
