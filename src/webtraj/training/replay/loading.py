"""Loading the samples of rows: an episode at a time, the last few kept."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.parallel import map_in_order
from webtraj.store.index import EpisodeSummary
from webtraj.training.replay.cutting import Rendered, Renderer, sample_of
from webtraj.training.replay.filling import Contents
from webtraj.training.replay.scanning import digests_of
from webtraj.training.samples import Sample
from webtraj.trajectory import EpisodeTrajectory

__all__ = ["Loader"]

_KEPT = 4
_AHEAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _Episode:
    trajectory: EpisodeTrajectory
    render: _Once | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Once:
    """A renderer that has done its work for one episode."""

    reference: Mapping[str, Any]
    rendered: Mapping[int, Rendered]

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """Returns what was rendered."""
        del trajectory
        return self.rendered


class Loader:
    """Loads samples. Safe to share between threads."""

    def __init__(self, contents: Contents, render: Renderer | None) -> None:
        self._contents = contents
        self._render = render
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[int, _Episode] = collections.OrderedDict()

    def load(self, rows: Sequence[int] | NDArray[np.int64]) -> Iterator[Sample]:
        """Yields the samples of rows, without loss weights or advantages.

        Raises:
            CorruptDataError: An episode is missing, damaged, or not what it was when it was read.
            StorageError: A bucket cannot be read.
        """
        episodes = self._contents.steps["episode"]
        groups = (
            list(group) for _, group in itertools.groupby(rows, key=lambda row: int(episodes[row]))
        )
        if not any(origin.place.is_remote for origin in self._contents.sources):
            batches: Iterator[list[Sample]] = map(self._samples, groups)
        else:
            batches = map_in_order(self._samples, groups, workers=_AHEAD)
        return itertools.chain.from_iterable(batches)

    def _samples(self, rows: Sequence[int]) -> list[Sample]:
        number = int(self._contents.steps["episode"][rows[0]])
        episode = self._episode(number)
        return [self._sample(row, number, episode) for row in rows]

    def _sample(self, row: int, number: int, episode: _Episode) -> Sample:
        record = self._contents.steps[row]
        call = int(record["call"]) if record["recorded"] else None
        try:
            sample = sample_of(
                episode.trajectory,
                int(record["step"]),
                call,
                render=episode.render,
                iteration=int(self._contents.episodes["iteration"][number]),
            )
            same = digests_of(sample.messages, sample.completion) == record["sample"].tobytes()
        except errors.InvalidInputError:
            same = False
        if not same:
            raise errors.CorruptDataError(
                f"The episode {episode.trajectory.episode_id!r} is not what it was when the replay "
                "buffer read it. Make the buffer anew; datasets must not change meanwhile."
            )
        return sample

    def _episode(self, number: int) -> _Episode:
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        episode = self._read(number)
        with self._lock:
            self._kept[number] = episode
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return episode

    def _read(self, number: int) -> _Episode:
        contents = self._contents
        row = contents.episodes[number]
        summary = EpisodeSummary(
            episode_id=contents.episode_ids[number],
            format=contents.formats[row["format"]],
            sha256=row["sha256"].tobytes().hex(),
        )
        place = contents.sources[row["source"]].place
        # From a bucket all blobs come at once; of a folder, only those that a prompt shows.
        blobs = functools.partial(Dataset, place, [summary])
        dataset = blobs("eager" if place.is_remote else "lazy")
        trajectory = dataset[summary.episode_id]
        if self._render is None:
            return _Episode(trajectory, None)
        once = _Once(self._render.reference, self._render.render(trajectory))
        return _Episode(trajectory, once)
