"""Episodes from one dataset into others: copied, merged, converted, split, or sent from a spool."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson

from webtraj import errors
from webtraj.collectors.bucket import open_uploader
from webtraj.collectors.spool import Spool
from webtraj.collectors.uploading import Pauses, Unsent, UploadStatus
from webtraj.datasets.dataset import Dataset, open_dataset, parse_condition
from webtraj.datasets.place import BucketBlobs, DatasetPlace, Place, create_place, map_in_order
from webtraj.datasets.recovery import RecoveryReport, recover
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.blobs import BlobSource, blobs_of
from webtraj.store.index import EpisodeSummary
from webtraj.store.index import merge as merge_index
from webtraj.store.journal import claim
from webtraj.store.layout import DatasetHeader, format_named
from webtraj.store.places import is_url

__all__ = [
    "PushReport",
    "Together",
    "TransferReport",
    "assign",
    "convert",
    "copy",
    "merge",
    "push",
    "split",
    "transfer",
]

# Episodes from one dataset into another: copied, merged, and converted from format to format.
#
# Whatever the places and formats, an episode arrives as the same data, and its blobs as the same
# bytes. To a dataset of the same format its file goes byte for byte. Checked on the way are the
# file's hash against its index line, each blob against its name, and that what was made of an
# episode in another format is read back as the same data.
#
# All of it may be interrupted, and run again: an episode that is there already is skipped if it is
# the same. One of the same id that is not the same is left as it is, and reported.

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
        where: The condition; `webtraj.datasets.dataset.parse_condition` makes one of text.
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
        stored = format_named(format_name).decode(content, episode_id)
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


# Splitting a dataset: by shares, where what belongs together stays so, or by conditions.
#
# A split by shares is a function of the episodes, the seed and what is kept together. It orders the
# groups by a hash of the seed and their names, and deals them out so that each part gets its share
# of the episodes as nearly as whole groups allow.

Together = Literal["episode", "task", "site", "group"]
"""What is kept in one part: each episode alone, or all of a task, of a site, of a group."""

_KEYS: dict[str, Callable[[EpisodeSummary], str]] = {
    "episode": lambda summary: summary.episode_id,
    "task": lambda summary: summary.task,
    "site": lambda summary: summary.site,
    # An episode that is in no group is one of its own.
    "group": lambda summary: summary.group_id or f"episode {summary.episode_id}",
}
_PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def split(
    source: Place,
    into: Place,
    parts: Mapping[str, float | str],
    *,
    together: Together = "episode",
    seed: int = 0,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> dict[str, TransferReport]:
    """Copies the episodes of a dataset into several, each a folder of its own under `into`.

    Args:
        source: The dataset's folder, or its URL.
        into: The folder or URL under which the parts go.
        parts: What goes to each part, by its name: a share, such as 0.8, or a condition, such as
            "outcome == 'success'" (see `webtraj.datasets.dataset`). Shares add up to 1 at most.
            An episode that meets several conditions goes to the first such part.
        together: For shares: what is kept in one part.
        seed: For shares: another one gives another split.
        source_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        target_options: Likewise.

    Returns:
        What became of the episodes of each part.

    Raises:
        InvalidInputError: The parts are no such shares or conditions.
        NotADatasetError: The source is no dataset, or a part's place holds other things.
        StorageError: One of them could not be read or written; run it again.
    """
    dataset = open_dataset(source, storage_options=source_options, complete=True)
    assigned = assign(dataset.summaries, parts, together=together, seed=seed)
    reports = {}
    for name, episode_ids in assigned.items():
        wanted = frozenset(episode_ids)
        part = dataset.filter(lambda summary, wanted=wanted: summary.episode_id in wanted)  # type: ignore[misc]
        target = _under(into, name)
        header = dataset.place.header
        with DatasetWriter(target, format=header.format, storage_options=target_options) as writer:
            reports[name] = transfer(part, writer)
    return reports


def assign(
    summaries: Iterable[EpisodeSummary],
    parts: Mapping[str, float | str],
    *,
    together: Together = "episode",
    seed: int = 0,
) -> dict[str, list[str]]:
    """Returns the ids of the episodes that go to each part; see `split`.

    >>> episodes = [EpisodeSummary(episode_id=f"e{n}") for n in range(10)]
    >>> {name: len(ids) for name, ids in assign(episodes, {"train": 0.8, "test": 0.2}).items()}
    {'train': 8, 'test': 2}

    Raises:
        InvalidInputError: The parts are no such shares or conditions.
    """
    for name in parts:
        if not _PART_NAME.fullmatch(name):
            raise errors.InvalidInputError(
                f"{name!r:.100} cannot name a part; expected letters, digits, . _ and -."
            )
    shares = {n: float(p) for n, p in parts.items() if isinstance(p, (int, float))}
    conditions = {name: part for name, part in parts.items() if isinstance(part, str)}
    if not parts or len(shares) not in (0, len(parts)):
        raise errors.InvalidInputError(
            f"The parts are {dict(parts)!r:.300}; expected shares, or conditions, not both."
        )
    if conditions:
        return _by_conditions(summaries, conditions)
    if together not in _KEYS:
        raise errors.InvalidInputError(
            f"Cannot keep episodes together by {together!r}; expected one of {', '.join(_KEYS)}."
        )
    total = math.fsum(shares.values())
    if not (all(share > 0.0 for share in shares.values()) and total <= 1.0 + 1e-9):
        raise errors.InvalidInputError(
            f"The shares are {shares!r:.300}; expected numbers above 0 that sum to at most 1."
        )
    return _by_shares(list(summaries), shares, _KEYS[together], seed)


def _by_conditions(
    summaries: Iterable[EpisodeSummary], conditions: Mapping[str, str]
) -> dict[str, list[str]]:
    tests = {name: parse_condition(text) for name, text in conditions.items()}
    found: dict[str, list[str]] = {name: [] for name in conditions}
    for summary in summaries:
        for name, met in tests.items():
            if met(summary):
                found[name].append(summary.episode_id)
                break
    return found


def _by_shares(
    summaries: Sequence[EpisodeSummary],
    shares: Mapping[str, float],
    key_of: Callable[[EpisodeSummary], str],
    seed: int,
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for summary in summaries:
        groups.setdefault(key_of(summary), []).append(summary.episode_id)
    found: dict[str, list[str]] = {name: [] for name in shares}
    # What no part asks for goes to none.
    rest = max(0.0, 1.0 - math.fsum(shares.values()))
    wanted: dict[str | None, float] = {name: s * len(summaries) for name, s in shares.items()}
    if rest > 1e-9:
        wanted[None] = rest * len(summaries)
    given: dict[str | None, int] = dict.fromkeys(wanted, 0)
    for name in sorted(groups, key=lambda name: _hash(seed, name)):
        # To whom the most is owed; of equals, to the first.
        target = max(wanted, key=lambda part: wanted[part] - given[part])
        given[target] += len(groups[name])
        if target is not None:
            found[target].extend(groups[name])
    return found


def _hash(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()


def _under(place: Place, name: str) -> Place:
    if is_url(place):
        return f"{os.fspath(place).rstrip('/')}/{name}"
    return os.path.join(place, name)  # noqa: PTH118  (As given: a path need not be a Path.)


# Pushing: sending what waits in a spool, once whatever kept it there is mended, or elsewhere.


@dataclasses.dataclass(frozen=True, slots=True)
class PushReport:
    """What `push` found and did."""

    destination: str
    """Where the episodes went: a URL, or a folder's path."""
    recovery: RecoveryReport
    """What was sealed first, and what could not be."""
    sent_episodes: int
    """Episodes that are there now, and gone from the spool."""
    sent_bytes: int
    """Bytes that were written there; what it had already does not count."""
    unsent: tuple[Unsent, ...]
    """Episodes that are still in the spool, and why."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left but what a living writer is recording."""
        return not (self.unsent or self.recovery.unreadable)


def push(
    spool: str | os.PathLike[str],
    *,
    to: Place | None = None,
    storage_options: Mapping[str, Any] | None = None,
    max_uploads: int = 16,
    pauses: Pauses | None = None,
    on_progress: Callable[[UploadStatus], object] | None = None,
) -> PushReport:
    """Sends every episode that waits in a spool; those of dead writers are sealed first.

    Safe to run at any time, beside collectors and other pushes, and again. An episode leaves the
    spool when it is in the index of where it went.

    Args:
        spool: The spool folder.
        to: Where the episodes go instead, if their bucket is gone for good: a folder or URL, new,
            empty, or a dataset of the same format, which is added to. Nobody may be recording into
            the spool then, since a rollout takes what has left it for being in its bucket.
        storage_options: What `webtraj.store.bucket.BucketStorage` takes; by default, and for what
            is not given, what the collector was given, its credentials excepted. With `to`, these
            are its options, and the collector's do not count.
        max_uploads: Requests that are under way at once.
        pauses: How long to leave a bucket alone that does not answer, between the few attempts.
        on_progress: Called, on any thread, when something was sent or has failed.

    Raises:
        NotADatasetError: The folder holds no dataset; or `to` holds other things.
        InvalidInputError: It is no spool, or the destination does not take the options; or `to` is
            of another format or within the spool, or an episode is being recorded.
        MissingDependencyError: A package for the bucket is not installed.
        UnsupportedSchemaError: It was written by a newer webtraj.
        CollectorError: The disk is full, or read-only; what waited was sent all the same.
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
    uploader = open_uploader(
        opened, destination, options, max_uploads=max_uploads, pauses=pauses or Pauses(cap=10.0)
    )
    with contextlib.ExitStack() as stack:
        stack.callback(uploader.stop)
        if on_progress is not None:
            report = on_progress
            stack.enter_context(uploader.watched(lambda: report(uploader.status())))
        seen: set[str] = set()

        def send() -> list[Unsent]:
            for episode_id in opened.waiting():
                if episode_id not in seen:
                    seen.add(episode_id)
                    uploader.add(episode_id, opened.size(episode_id))
            return uploader.wait()

        try:
            recovery = recover(Path(spool))
        except errors.CollectorError:
            send()  # A full disk has room then, perhaps for what is to be sealed.
            recovery = recover(Path(spool))
        unsent = send()
        opened.tidy()
        status = uploader.status()
    return PushReport(destination, recovery, status.sent_episodes, status.sent_bytes, tuple(unsent))


def _check_outside(spool: Spool, to: Place) -> None:
    if not is_url(to) and Path(to).resolve().is_relative_to(spool.path.resolve()):
        raise errors.InvalidInputError(
            f"{os.fspath(to)!r:.200} is within the spool {str(spool.path)!r}, which "
            "goes when it is empty; name another folder."
        )


def _check_nobody_records(spool: Spool, to: Place) -> None:
    for episode_id in sorted(spool.layout.open_episodes()):
        # What is gone by now, its writer has sealed.
        with contextlib.suppress(FileNotFoundError), claim(spool.layout.journal(episode_id)) as its:
            if its:
                continue
            raise errors.InvalidInputError(
                f"The episode {episode_id!r} is being recorded into {str(spool.path)!r}, by a "
                f"process that takes what has left the spool for sent to its bucket. End it, and "
                f"then send what waits to {os.fspath(to)!r:.200}."
            )
