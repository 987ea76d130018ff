"""Datasets: the episodes that a collector keeps in a folder or a bucket, also while it writes.

What is read when: opening reads the index alone, of a bucket its files many at once. In a folder
the names of the episodes' files are read too, so that an episode without an index line (its writer
died, or is just about to write it) is found by its file. To list all files of a bucket takes a
second for every few thousand, so that such episodes are found there only if asked for by
`complete=True`, or where there is no index at all. `webtraj recover` gives them their index lines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.bucket_blobs import BucketBlobs
from webtraj.datasets.episode_file import decode_episode, summarize_file
from webtraj.datasets.parallel import map_in_order
from webtraj.datasets.place import DatasetPlace, Place, open_place
from webtraj.store import formats
from webtraj.store.blobs import BlobSource, LazyBlobs, blobs_of
from webtraj.store.index import EpisodeSummary, merge

__all__ = ["Blobs", "Dataset", "open_dataset", "with_unindexed"]

Blobs = Literal["eager", "lazy"]
_Enum = TypeVar("_Enum", trajectory_lib.EndReason, trajectory_lib.Outcome)
_EPISODES_AHEAD = 4
_WORKERS = 16


def open_dataset(
    place: Place,
    *,
    blobs: Blobs = "eager",
    storage_options: Mapping[str, Any] | None = None,
    blob_cache: Place | None = None,
    complete: bool = False,
) -> Dataset:
    """Opens a dataset that a collector wrote, or is writing.

    Args:
        place: The dataset's folder, or its URL: `s3://bucket/prefix`, `gs://`, `az://`, ...
        blobs: What stands in an episode for long bytes and text. "eager": those themselves, so that
            what was recorded comes back equal. "lazy": `webtraj.store.blobs.LazyBlob` objects,
            which read them when asked to.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        blob_cache: For a bucket: a folder that keeps the blobs that were read, for other processes
            and other days.
        complete: For a bucket: whether to look for episodes that the index lacks, too.

    Raises:
        NotADatasetError: There is no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        InvalidInputError: `blobs` is neither, or there is no such kind of place.
        StorageError: The bucket cannot be read.
    """
    if blobs not in ("eager", "lazy"):
        raise errors.InvalidInputError(f"blobs={blobs!r} is not known; expected 'eager' or 'lazy'.")
    opened = open_place(place, storage_options, blob_cache=blob_cache)
    return Dataset(opened, _read_summaries(opened, complete=complete), blobs)


class Dataset:
    """A sequence of sealed episodes, ordered by the time they began.

    `len(dataset)`, `dataset[0]`, `dataset[-1]`, `dataset["<episode id>"]` and iteration load one
    episode at a time, or from a bucket the next few ahead. `summaries` and `filter` need no episode
    at all. Episodes that are sealed after the dataset was opened appear by `refresh`.
    """

    def __init__(
        self, place: DatasetPlace, summaries: Iterable[EpisodeSummary], blobs: Blobs
    ) -> None:
        self._place = place
        self._blobs: Blobs = blobs
        self._summaries = tuple(summaries)
        self._by_id = {summary.episode_id: summary for summary in self._summaries}

    @property
    def path(self) -> Path:
        """The dataset's folder.

        Raises:
            InvalidInputError: It lies in a bucket; `url` names that.
        """
        if self._place.layout is None:
            raise errors.InvalidInputError(
                f"The dataset {self.url!r} lies in a bucket and has no path; its `url` names it."
            )
        return self._place.layout.root

    @property
    def url(self) -> str:
        """Names the dataset: its folder's path, or its URL without credentials."""
        return self._place.url

    @property
    def place(self) -> DatasetPlace:
        """Where it lies."""
        return self._place

    @property
    def summaries(self) -> Sequence[EpisodeSummary]:
        """What a list shows of each episode, in the dataset's order."""
        return self._summaries

    @property
    def episode_ids(self) -> Sequence[str]:
        """The ids of the episodes, in the dataset's order."""
        return tuple(self._by_id)

    @property
    def open_episodes(self) -> Sequence[str]:
        """The ids of episodes that are still being recorded, or that wait for recovery.

        In a bucket there are none: they are in the spools of their collectors.
        """
        return tuple(sorted(self._place.open_episodes() - self._by_id.keys()))

    def __len__(self) -> int:
        return len(self._summaries)

    def __contains__(self, episode_id: object) -> bool:
        return episode_id in self._by_id

    def __iter__(self) -> Iterator[trajectory_lib.EpisodeTrajectory]:
        return self._place.map(self._load, self._by_id, workers=_EPISODES_AHEAD)

    @overload
    def __getitem__(self, key: int | str) -> trajectory_lib.EpisodeTrajectory: ...
    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    def __getitem__(self, key: int | str | slice) -> trajectory_lib.EpisodeTrajectory | Dataset:
        """Returns an episode by its position or its id; for a slice, a dataset of those.

        Raises:
            UnknownEpisodeError: There is no episode of that id.
            IndexError: There is no episode at that position.
            CorruptDataError: The episode, or a blob of it, is missing, damaged, or not what the
                index says.
            StorageError: The bucket cannot be read.
        """
        if isinstance(key, slice):
            return Dataset(self._place, self._summaries[key], self._blobs)
        if isinstance(key, str):
            if key not in self._by_id:
                raise errors.UnknownEpisodeError(
                    f"{self.url!r} has no sealed episode {key!r} among its {len(self)}."
                )
            return self._load(key)
        return self._load(self._summaries[key].episode_id)

    def filter(
        self,
        predicate: Callable[[EpisodeSummary], bool] | None = None,
        *,
        task: str | None = None,
        site: str | None = None,
        policy: str | None = None,
        outcome: trajectory_lib.Outcome | str | None = None,
        end_reason: trajectory_lib.EndReason | str | None = None,
        min_reward: float | None = None,
        max_reward: float | None = None,
    ) -> Dataset:
        """Returns the episodes that meet all conditions, without reading any.

        Args:
            predicate: Any condition on a summary.
            task: The task's exact name.
            site: The site's exact name.
            policy: The policy's exact name.
            outcome: An `Outcome` or its name, in upper or lower case.
            end_reason: An `EndReason` or its name, in upper or lower case.
            min_reward: The least total reward.
            max_reward: The greatest total reward.

        Raises:
            InvalidInputError: An outcome or end reason of that name does not exist.
        """
        wanted_outcome = _member(trajectory_lib.Outcome, outcome)
        wanted_reason = _member(trajectory_lib.EndReason, end_reason)

        def meets(summary: EpisodeSummary) -> bool:
            return (
                (task is None or summary.task == task)
                and (site is None or summary.site == site)
                and (policy is None or summary.policy == policy)
                and (wanted_outcome is None or summary.outcome == wanted_outcome)
                and (wanted_reason is None or summary.end_reason == wanted_reason)
                and (min_reward is None or summary.total_reward >= min_reward)
                and (max_reward is None or summary.total_reward <= max_reward)
                and (predicate is None or predicate(summary))
            )

        return Dataset(self._place, filter(meets, self._summaries), self._blobs)

    def refresh(self, *, complete: bool = False) -> Dataset:
        """Returns the whole dataset as it is now.

        Args:
            complete: Whether to look for episodes without an index line in a bucket too.

        Raises:
            StorageError: The bucket cannot be read.
        """
        return Dataset(self._place, _read_summaries(self._place, complete=complete), self._blobs)

    def to_parquet(self, target: Place, *, storage_options: Mapping[str, Any] | None = None) -> int:
        """Writes `summaries` as a Parquet file, one row an episode; returns their number.

        Args:
            target: The file's path, or its URL.
            storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.

        Raises:
            MissingDependencyError: pyarrow is not installed.
            StorageError: The file cannot be written.
        """
        from webtraj.datasets.parquet import write_parquet

        return write_parquet(self._summaries, target, storage_options=storage_options)

    def __repr__(self) -> str:
        return f"<Dataset {self.url!r}: {len(self)} episodes>"

    def _load(self, episode_id: str) -> trajectory_lib.EpisodeTrajectory:
        summary = self._by_id[episode_id]
        format_name = summary.format
        content = self._place.read_episode(episode_id, format_name, sha256=summary.sha256)
        where = f"{self.url}: {episode_id}"
        stored = formats.format_named(format_name).decode(content, where)
        beside = self._place.blobs_of(episode_id)
        source: BlobSource = stored.blobs or beside
        if self._blobs == "lazy":
            source = LazyBlobs(source)
        elif isinstance(source, BucketBlobs):
            source = source.read_all(blobs_of(stored.data))
        found = decode_episode(stored.data, source, where=where, size=len(content))
        if found.episode_id != episode_id:
            raise errors.CorruptDataError(
                f"{where!r} holds the episode {found.episode_id!r}: it was copied or renamed."
            )
        return found


def _read_summaries(place: DatasetPlace, *, complete: bool = False) -> list[EpisodeSummary]:
    """Returns the summaries of all sealed episodes, ordered by the time they began."""
    return with_unindexed(place, merge(place.read_index()).values(), complete=complete)


def with_unindexed(
    place: DatasetPlace, indexed: Iterable[EpisodeSummary], *, complete: bool = False
) -> list[EpisodeSummary]:
    """Returns what the index has, and those that only have a file, ordered by when they began.

    Args:
        place: The dataset.
        indexed: What its index has.
        complete: Whether to look for such files in a bucket too, if there is an index.

    Raises:
        StorageError: The files cannot be listed or read.
    """
    by_id = {summary.episode_id: summary for summary in indexed}
    if complete or not place.is_remote or not by_id:
        stored = place.sealed_episodes()
        lost = [episode_id for episode_id in stored if episode_id not in by_id]
        find = functools.partial(_summarize, place, stored)
        for summary in map_in_order(find, lost, workers=_WORKERS) if lost else ():
            by_id[summary.episode_id] = summary
    return sorted(by_id.values(), key=lambda summary: (summary.start_time or 0, summary.episode_id))


def _summarize(place: DatasetPlace, stored: Mapping[str, str], episode_id: str) -> EpisodeSummary:
    format_name = stored[episode_id]
    content = b""
    try:
        content = place.read_episode(episode_id, format_name)
        return summarize_file(episode_id, format_name, content, place.blobs_of(episode_id))
    except errors.DatasetError:  # `verify` says what is wrong with it.
        return EpisodeSummary(episode_id=episode_id, format=format_name, size=len(content))


def _member(enum_class: type[_Enum], name: _Enum | str | None) -> _Enum | None:
    if name is None or isinstance(name, enum_class):
        return name
    member = enum_class.__members__.get(str(name).upper())
    if member is None:
        known = ", ".join(member.lower() for member in enum_class.__members__)
        raise errors.InvalidInputError(
            f"{name!r} is no {enum_class.__name__}; expected one of {known}."
        )
    return member
