"""Datasets: the episodes that a collector keeps in a folder, also while it is still writing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeVar, overload

from webtraj import errors, formats
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.blobs import BlobStore, LazyBlobs
from webtraj.collectors.index import EpisodeSummary, read_index
from webtraj.collectors.layout import DatasetLayout
from webtraj.datasets.episode_file import decode_episode, summarize_file
from webtraj.serialization.blobs import BlobSource

__all__ = ["Blobs", "Dataset", "open_dataset"]

Blobs = Literal["eager", "lazy"]
_Enum = TypeVar("_Enum", trajectory_lib.EndReason, trajectory_lib.Outcome)


def open_dataset(path: str | os.PathLike[str], *, blobs: Blobs = "eager") -> Dataset:
    """Opens a dataset that a collector wrote, or is writing.

    Args:
        path: The dataset folder.
        blobs: What stands in an episode for long bytes and text. "eager": those themselves, so that
            what was recorded comes back equal. "lazy": `webtraj.collectors.blobs.LazyBlob` objects,
            which read their file when asked to.

    Raises:
        NotADatasetError: The folder holds no dataset.
        UnsupportedSchemaError: It was written by a newer webtraj.
        InvalidInputError: `blobs` is neither.
    """
    if blobs not in ("eager", "lazy"):
        raise errors.InvalidInputError(f"blobs={blobs!r} is not known; expected 'eager' or 'lazy'.")
    layout = DatasetLayout(Path(path))
    layout.check()
    store = BlobStore(layout.blobs)
    source: BlobSource = LazyBlobs(store) if blobs == "lazy" else store
    return Dataset(layout, _read_summaries(layout), source)


class Dataset:
    """A sequence of sealed episodes, ordered by the time they began.

    `len(dataset)`, `dataset[0]`, `dataset[-1]`, `dataset["<episode id>"]` and iteration load one
    episode at a time. `summaries` and `filter` need no episode at all. Episodes that are sealed
    after the dataset was opened appear by `refresh`.
    """

    def __init__(
        self, layout: DatasetLayout, summaries: Iterable[EpisodeSummary], blobs: BlobSource
    ) -> None:
        self._layout = layout
        self._blobs = blobs
        self._summaries = tuple(summaries)
        self._by_id = {summary.episode_id: summary for summary in self._summaries}

    @property
    def path(self) -> Path:
        """The dataset folder."""
        return self._layout.root

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
        """The ids of episodes that are still being recorded, or that wait for recovery."""
        return tuple(sorted(self._layout.open_episodes() - self._by_id.keys()))

    def __len__(self) -> int:
        return len(self._summaries)

    def __contains__(self, episode_id: object) -> bool:
        return episode_id in self._by_id

    def __iter__(self) -> Iterator[trajectory_lib.EpisodeTrajectory]:
        return map(self._load, self._by_id)

    @overload
    def __getitem__(self, key: int | str) -> trajectory_lib.EpisodeTrajectory: ...
    @overload
    def __getitem__(self, key: slice) -> Dataset: ...

    def __getitem__(self, key: int | str | slice) -> trajectory_lib.EpisodeTrajectory | Dataset:
        """Returns an episode by its position or its id; for a slice, a dataset of those.

        Raises:
            UnknownEpisodeError: There is no episode of that id.
            IndexError: There is no episode at that position.
            CorruptDataError: The episode, or a blob of it, is missing or damaged.
        """
        if isinstance(key, slice):
            return Dataset(self._layout, self._summaries[key], self._blobs)
        if isinstance(key, str):
            if key not in self._by_id:
                raise errors.UnknownEpisodeError(
                    f"{str(self.path)!r} has no sealed episode {key!r} among its {len(self)}."
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

        return Dataset(self._layout, filter(meets, self._summaries), self._blobs)

    def refresh(self) -> Dataset:
        """Returns the whole dataset as it is on disk now."""
        return Dataset(self._layout, _read_summaries(self._layout), self._blobs)

    def __repr__(self) -> str:
        return f"<Dataset {str(self.path)!r}: {len(self)} episodes>"

    def _load(self, episode_id: str) -> trajectory_lib.EpisodeTrajectory:
        format_name = self._by_id[episode_id].format
        path = self._layout.episode(episode_id, format_name)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise errors.CorruptDataError(
                f"The episode {episode_id!r} is in the index, but {str(path)!r} cannot be read: "
                f"{error.strerror}. Run `webtraj verify {self.path}`."
            ) from error
        stored = formats.format_named(format_name).decode(content, str(path))
        return decode_episode(stored.data, stored.blobs or self._blobs)


def _read_summaries(layout: DatasetLayout) -> list[EpisodeSummary]:
    """Returns the summaries of all sealed episodes, ordered by the time they began.

    An episode whose index line is missing (its writer died, or is just about to write it) is found
    by its file.
    """
    by_id = {summary.episode_id: summary for summary in read_index(layout.index)}
    store = BlobStore(layout.blobs)
    for episode_id, format_name in layout.sealed_episodes().items():
        if episode_id in by_id:
            continue
        content = layout.episode(episode_id, format_name).read_bytes()
        try:
            summary = summarize_file(episode_id, format_name, content, store)
        except errors.DatasetError:  # `verify` says what is wrong with it.
            summary = EpisodeSummary(episode_id=episode_id, format=format_name, size=len(content))
        by_id[episode_id] = summary
    return sorted(by_id.values(), key=lambda summary: (summary.start_time or 0, summary.episode_id))


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
