"""Copy, merge and convert datasets, and send the episodes of a spool."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.collectors.bucket import open_destination
from webtraj.collectors.spool import Spool
from webtraj.collectors.uploader import Pauses, Unsent, Uploader
from webtraj.datasets import workers
from webtraj.datasets.dataset import (
    Dataset,
    decode_episode,
    encode_episode,
    open_dataset,
)
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import DatasetPlace, Place, create_place, map_in_order
from webtraj.datasets.progress import Progress, count_items, find_watcher
from webtraj.datasets.recovery import RecoveryReport, recover
from webtraj.datasets.sidecar import Sidecar, seal_line
from webtraj.datasets.workers import Workers
from webtraj.datasets.writer import DatasetWriter, MemoryBlobs
from webtraj.redaction.parts import Stripper, check_parts
from webtraj.redaction.parts import without as without_parts
from webtraj.store.blobs import BlobSource, LazyBlobs
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary
from webtraj.store.index import merge as merge_index
from webtraj.store.journal import claim
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url
from webtraj.store.storage import Storage, is_key
from webtraj.store.tries import find_counted_only_in_part

__all__ = [
    "PushReport",
    "TransferReport",
    "convert",
    "copy",
    "merge",
    "push",
    "transfer",
]

# Moving episodes from one dataset into another.
#
# Whatever the places and formats, an episode arrives as the same data, and its blobs as the same
# bytes. If the formats match, its file is copied byte for byte. Every transfer checks the file's
# hash against its index line and each blob against its name; a converted episode must read back as
# the same data. Judgements and labels beside the episodes go with them; so do the files of runs and
# the proposed tasks, if the whole dataset goes. Part of a run's episodes with its whole plan would
# look unfinished.
#
# A transfer can be interrupted and run again: existing episodes are skipped if they are the same.
# A different episode with the same id is kept, and the clash is reported.

_WORKERS = 8
_BATCH = 32
_LARGE = 50_000
"""Steps of a dataset in a folder that are worth the start of processes, about a second each."""

Condition = Callable[[EpisodeSummary], bool]
Options = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class TransferReport:
    """The result for each episode."""

    added: tuple[str, ...] = ()
    """Ids of episodes that were written."""
    skipped: tuple[str, ...] = ()
    """Ids of episodes that the target already had, unchanged."""
    clashes: tuple[str, ...] = ()
    """Errors of episodes whose id the target has for a different episode, which was kept."""
    failed: tuple[str, ...] = ()
    """Errors of episodes that could not be read; they were not written."""
    left_open: tuple[str, ...] = ()
    """Ids of the source's episodes that are being recorded or wait for `webtraj recover`."""
    runs: tuple[str, ...] = ()
    """Ids of the runs whose plan and other files the target now has."""
    left_runs: tuple[str, ...] = ()
    """Ids of the source's runs that were left out, because only some episodes were copied, or the
    target has another plan under that id. The target cannot resume them."""

    superseded: tuple[str, ...] = ()
    """Ids of episodes that were left out, because another try of their row counts, and is not among
    those that were to be copied."""

    @property
    def complete(self) -> bool:
        """Whether the target has every episode."""
        return not (self.clashes or self.failed)


def copy(
    source: Place,
    target: Place,
    *,
    where: Condition | None = None,
    without: Collection[str] = (),
    source_options: Options | None = None,
    target_options: Options | None = None,
) -> TransferReport:
    """Copy a dataset, or the episodes that meet a condition, in the same format.

    Args:
        source: The dataset's folder or URL.
        target: A folder or URL: new, empty, or a dataset of the same format to add to.
        where: The condition; see `webtraj.datasets.dataset.parse_condition`.
        without: Parts to leave out of the copy; see `merge`.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        target_options: Bucket options for the target.

    Raises:
        NotADatasetError: The source is not a dataset, or the target holds other files.
        UnsupportedSchemaError: A newer webtraj wrote one of them.
        InvalidInputError: The target has another format, or a part is unknown.
        StorageError: One of them could not be read or written; run it again.
    """
    return merge(
        [source],
        target,
        where=where,
        without=without,
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
    """Write the episodes of a dataset in another format.

    Args:
        source: The dataset's folder or URL.
        target: A folder or URL: new, empty, or a dataset of that format to add to.
        format: The target's format. None: the source's.
        where: Predicate that selects episodes. Default: all.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        target_options: Bucket options for the target.

    Raises:
        NotADatasetError: The source is not a dataset, or the target holds other files.
        UnsupportedSchemaError: A newer webtraj wrote one of them.
        InvalidInputError: The target has another format.
        StorageError: One of them could not be read or written; run it again.
    """
    return merge(
        [source],
        target,
        format=format,
        where=where,
        source_options=source_options,
        target_options=target_options,
    )


def merge(
    sources: Sequence[Place],
    target: Place,
    *,
    format: str | None = None,  # noqa: A002  (As in DatasetHeader.)
    where: Condition | None = None,
    without: Collection[str] = (),
    with_runs: bool = True,
    source_options: Options | None = None,
    target_options: Options | None = None,
) -> TransferReport:
    """Copy several datasets into one.

    An episode found in several sources is taken from the first. If another source has a different
    episode with the same id, the clash is reported.

    Args:
        sources: Their folders or URLs, of any formats.
        target: A folder or URL: new, empty, or a dataset of that format to add to.
        format: The target's format. None: that of the first source.
        where: The condition; see `webtraj.datasets.dataset.parse_condition`. Default: all episodes.
        without: Names of parts to leave out; see `webtraj.redaction.parts.PARTS`. Each episode's
            `metadata["left_out"]` counts the values left out. Files of runs are left out too.
        with_runs: Whether the plans and other files of runs go along, if all episodes do.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        target_options: Bucket options for the target.

    Raises:
        InvalidInputError: There are no sources, the target has another format or is inside a
            source, a part is unknown, or the condition cannot be evaluated.
        NotADatasetError: A source is not a dataset, or the target holds other files.
        UnsupportedSchemaError: A newer webtraj wrote one of them.
        StorageError: One of them could not be read or written; run it again.
    """
    if not sources:
        raise errors.InvalidInputError("No datasets given. Name at least one to merge.")
    parts = check_parts(without)
    datasets = [
        open_dataset(source, storage_options=source_options, complete=True) for source in sources
    ]
    for dataset in datasets:
        dataset.place.check_outside(target, or_same=True)
    chosen = [dataset if where is None else dataset.filter(where) for dataset in datasets]
    wanted = format or datasets[0].place.header.format
    with DatasetWriter(target, format=wanted, storage_options=target_options) as writer:
        reports = [
            transfer(
                part,
                writer,
                without=parts,
                with_runs=with_runs and not parts and len(part) == len(whole),
            )
            for part, whole in zip(chosen, datasets, strict=True)
        ]
    return TransferReport(
        **{
            field.name: tuple(what for report in reports for what in getattr(report, field.name))
            for field in dataclasses.fields(TransferReport)
        }
    )


def transfer(
    dataset: Dataset,
    writer: DatasetWriter,
    *,
    without: frozenset[str] = frozenset(),
    with_runs: bool = False,
) -> TransferReport:
    """Add all episodes of a dataset, and the files beside them, to another.

    Args:
        dataset: The dataset, or a part of one.
        writer: Writes the other dataset.
        without: Parts to leave out of the episodes.
        with_runs: Whether to add the files of its runs too.

    Raises:
        UnsupportedSchemaError: A newer webtraj wrote an episode.
        StorageError: One of the datasets could not be read or written.
    """
    gone = find_counted_only_in_part(dataset.summaries, dataset.superseded)
    report = _Transfer(dataset.place, writer, without).run(
        [summary for summary in dataset.summaries if summary.episode_id not in gone]
    )
    report = dataclasses.replace(
        report,
        left_open=tuple(sorted(dataset.place.open_episodes())),
        superseded=tuple(sorted(gone)),
    )
    there = (*report.added, *report.skipped)
    try:
        with Judgements(writer.place) as judgements:
            judgements.refresh()
            judgements.take_over(dataset.judgements, there, without=without)
    except errors.CorruptDataError as error:
        return dataclasses.replace(report, failed=(*report.failed, str(error)))
    _take_labels(dataset.place, writer.place, frozenset(there), without)
    runs, left = _take_runs(dataset.place.storage, writer.place.storage, with_runs)
    return dataclasses.replace(report, runs=runs, left_runs=left)


def _take_labels(
    source: DatasetPlace,
    target: DatasetPlace,
    episode_ids: frozenset[str],
    parts: frozenset[str],
) -> None:
    """Add people's labels of some episodes, except those that the target has already."""
    with Sidecar(source, "labels") as theirs, Sidecar(target, "labels") as ours:
        here = {content for _, content in ours.new_lines()}
        wanted = (
            content for _, content in theirs.new_lines() if _episode_of(content) in episode_ids
        )
        new = [line for line in (_strip(one, parts) for one in wanted) if line not in here]
        if new:
            ours.add(b"".join(content + b"\n" for content in new))


def _strip(line: bytes, parts: frozenset[str]) -> bytes:
    """Return a line of a sidecar without some parts."""
    if not parts:
        return line
    data = orjson.loads(line)
    made = Stripper(parts).walk(data)
    if made is data:
        return line
    made.pop("crc32", None)
    return seal_line(orjson.dumps(made))


def _episode_of(line: bytes) -> Any:
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return data.get("episode_id") if isinstance(data, dict) else None


def _take_runs(
    source: Storage, target: Storage, wanted: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy the files of runs and the proposed tasks; return the copied and the skipped runs."""
    keys = [entry.key for entry in source.list("runs/") if is_key(entry.key)]
    runs = sorted({key.split("/")[1] for key in keys if key.endswith("/plan.jsonl")})
    if not wanted:
        return (), tuple(runs)
    taken, left = [], []
    for run in runs:
        files = [key for key in keys if key.startswith(f"runs/{run}/")]
        # The plan is first: what is beside another run's plan stays as it is.
        files.sort(key=lambda key: not key.endswith("/plan.jsonl"))
        if _same_or_new(source, target, files[0]):
            taken.append(run)
            for key in files[1:]:
                # What follows from the episodes is left: a copy made again would keep the old one.
                if not key.endswith(("/underway.json", "/metrics.json")):
                    _same_or_new(source, target, key)
        else:
            left.append(run)
    for entry in source.list("tasks/"):
        if is_key(entry.key):
            _same_or_new(source, target, entry.key)
    return tuple(taken), tuple(left)


def _same_or_new(source: Storage, target: Storage, key: str) -> bool:
    """Copy an object unless the target has it; return whether both are now the same."""
    content = source.read(key)
    try:
        target.write(key, content, overwrite=False)
    except errors.StorageConflictError:
        return target.read(key) == content
    return True


def _reopen(
    source: DatasetPlace, target: str, format_name: str, parts: frozenset[str]
) -> _Transfer:
    return _Transfer(source, DatasetWriter(target, format=format_name), parts)


class _Transfer:
    def __init__(self, source: DatasetPlace, writer: DatasetWriter, parts: frozenset[str]) -> None:
        self._source = source
        self._writer = writer
        self._parts = parts
        self._there = {
            s.episode_id: s.sha256 for s in merge_index(writer.place.read_index()).values()
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the places of a transfer from folder to folder."""
        target = self._writer.place.url
        return _reopen, (self._source, target, self._writer.format.name, self._parts)

    def run(self, summaries: Sequence[EpisodeSummary]) -> TransferReport:
        found: dict[str, list[str]] = {"added": [], "skipped": [], "clashes": [], "failed": []}
        sent = zip(summaries, self._send_all(summaries), strict=True)
        sized = count_items(sent, "Copying episodes", len(summaries), size=lambda one: one[0].size)
        for _, (kind, what) in sized:
            found[kind].append(what)
        self._writer.flush()
        return TransferReport(**{kind: tuple(names) for kind, names in found.items()})

    def _send_all(self, summaries: Sequence[EpisodeSummary]) -> Iterator[tuple[str, str]]:
        """Send all episodes. Many episodes from folder to folder are sent by a process per core."""
        size, remote = workers.cores(), self._source.is_remote or self._writer.place.is_remote
        if remote or size == 1 or sum(summary.num_steps for summary in summaries) < _LARGE:
            yield from map_in_order(self._send, summaries, workers=_WORKERS)
            return
        batches = (summaries[start : start + _BATCH] for start in range(0, len(summaries), _BATCH))
        with contextlib.closing(Workers(self.send_batch, size)) as processes:
            for done in map_in_order(processes.do, batches, workers=2 * size):
                yield from done

    def send_batch(self, summaries: Sequence[EpisodeSummary]) -> list[tuple[str, str]]:
        """Send episodes; return for each the result, and its id or an error."""
        return list(map_in_order(self._send, summaries, workers=_WORKERS))

    def _send(self, summary: EpisodeSummary) -> tuple[str, str]:
        episode_id = summary.episode_id
        same = summary.sha256 and self._there.get(episode_id) == summary.sha256
        if same and not self._parts:
            return "skipped", episode_id  # The same hash: no need to read it.
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
                f"Its file in {self._source.url!r} does not match the index: changed or damaged. "
                "Run `webtraj verify`."
            )
        stored = format_named(format_name).decode(content, episode_id)
        found = stored.data["info"].get("episode_id")
        if found != episode_id:
            raise errors.CorruptDataError(f"Its file holds the episode {found!r:.200}.")
        blobs: BlobSource = stored.blobs or self._source.blobs_of(episode_id)
        if self._parts:
            whole = decode_episode(
                stored.data,
                LazyBlobs(blobs.read_ahead(stored.data)),
                where=episode_id,
                size=len(content),
            )
            made = MemoryBlobs()
            data = encode_episode(without_parts(whole, self._parts), made)
            content = self._writer.format.encode(data, made)
            return self._writer.add_file(data, content, made).added
        if format_name != self._writer.format.name:
            if self._writer.format.self_contained:
                blobs = blobs.read_ahead(stored.data)
            content = self._writer.format.encode(stored.data, blobs)
            self._check(content, stored.data, episode_id)
        return self._writer.add_file(stored.data, content, blobs).added

    def _check(self, content: bytes, data: Mapping[str, Any], episode_id: str) -> None:
        """Check that a converted episode reads back as the same data."""
        again = self._writer.format.decode(content, episode_id)
        if orjson.dumps(again.data) != orjson.dumps(data):
            raise errors.CorruptDataError(
                f"It cannot be converted to the format {self._writer.format.name!r} without loss. "
                "Please report this as a bug."
            )


# Pushing: sending the episodes left in a spool, to its destination or elsewhere.


@dataclasses.dataclass(frozen=True, slots=True)
class PushReport:
    """The result of `push`."""

    destination: str
    """Where the episodes went: a URL, or a folder's path."""
    recovery: RecoveryReport
    """The result of sealing the spool's open episodes first."""
    sent_episodes: int
    """Episodes stored at the destination and removed from the spool."""
    sent_bytes: int
    """Bytes written to the destination, without what it had already."""
    unsent: tuple[Unsent, ...]
    """Episodes that are still in the spool, with the reason."""

    @property
    def complete(self) -> bool:
        """Whether the spool is empty, except for episodes being recorded now."""
        return not (self.unsent or self.recovery.unreadable)


def push(
    spool: str | os.PathLike[str],
    *,
    to: Place | None = None,
    storage_options: Mapping[str, Any] | None = None,
    max_uploads: int = 16,
    pauses: Pauses | None = None,
) -> PushReport:
    """Send every episode in a spool, sealing those of dead writers first.

    Safe to run at any time, beside collectors and other pushes, and repeatedly. An episode leaves
    the spool once the destination's index has it.

    Args:
        spool: The spool folder.
        to: Another destination, if the bucket is gone for good: a folder or URL, new, empty, or a
            dataset of the same format to add to. Nothing may be recording into the spool, because
            a rollout assumes that episodes which left the spool are in its bucket.
        storage_options: Options for `webtraj.store.bucket.BucketStorage`. Options that are not
            given default to the collector's, except credentials; with `to`, the collector's
            options are not used.
        max_uploads: The most requests in flight at once.
        pauses: How long to wait between the few attempts when a bucket does not answer.

    Raises:
        NotADatasetError: The folder is not a dataset, or `to` holds other files.
        InvalidInputError: The folder is not a spool; an option is wrong; or `to` has another
            format, is within the spool, or an episode is being recorded.
        MissingDependencyError: A package for the bucket is not installed.
        UnsupportedSchemaError: A newer webtraj wrote the spool.
        CollectorError: The disk is full or read-only; sealed episodes were sent nevertheless.
        StorageError: `to` cannot be written.
    """
    opened, destination = Spool.open(spool)
    if to is None:
        options = {**opened.options(), **(storage_options or {})}
    else:
        _check_outside(opened, to)
        _check_nobody_records(opened, to)
        place = create_place(to, DatasetHeader(format=opened.format), storage_options)
        destination, options = place.url, dict(storage_options or {})
    uploader = Uploader(
        opened,
        open_destination(destination, options),
        max_uploads=max_uploads,
        pauses=pauses or Pauses(cap=10.0),
    )
    with contextlib.ExitStack() as stack:
        if (watcher := find_watcher()) is not None:
            report = functools.partial(_report, uploader, watcher)
            stack.callback(report, ended=True)
            stack.enter_context(uploader.watch(report))
        stack.callback(uploader.stop)  # Exits first: its threads report until they have stopped.
        seen: set[str] = set()

        def send() -> list[Unsent]:
            for episode_id in opened.list_waiting():
                if episode_id not in seen:
                    seen.add(episode_id)
                    uploader.add(episode_id, opened.size(episode_id))
            return uploader.wait()

        try:
            recovery = recover(Path(spool))
        except errors.CollectorError:
            send()  # This may free enough of a full disk to seal the rest.
            recovery = recover(Path(spool))
        unsent = send()
        opened.tidy()
        status = uploader.status()
    return PushReport(destination, recovery, status.sent_episodes, status.sent_bytes, tuple(unsent))


def _report(
    uploader: Uploader, watcher: Callable[[Progress], object], *, ended: bool = False
) -> None:
    status = uploader.status()
    total = status.sent_episodes + status.unsent_episodes
    sent = (status.sent_episodes, total, status.sent_bytes)
    watcher(Progress("Sending episodes", *sent, ended=ended))


def _check_outside(spool: Spool, to: Place) -> None:
    if not is_url(to) and Path(to).resolve().is_relative_to(spool.path.resolve()):
        raise errors.InvalidInputError(
            f"{os.fspath(to)!r:.200} is inside the spool {str(spool.path)!r}, which is "
            "removed when it is empty. Choose another folder."
        )


def _check_nobody_records(spool: Spool, to: Place) -> None:
    for episode_id in sorted(spool.layout.open_episodes()):
        # If the journal is gone, its writer has sealed the episode.
        with contextlib.suppress(FileNotFoundError), claim(spool.layout.journal(episode_id)) as its:
            if its:
                continue
            raise errors.InvalidInputError(
                f"The episode {episode_id!r} is still being recorded into {str(spool.path)!r} by a "
                f"process that expects its episodes to go to its bucket. Stop that process first, "
                f"then push to {os.fspath(to)!r:.200}."
            )
