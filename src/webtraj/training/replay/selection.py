"""Selections: an ordered subset of a replay buffer's samples with loss weights."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import map_in_order
from webtraj.store.index import EpisodeSummary
from webtraj.training.replay.cutting import Rendered, Renderer, sample_of
from webtraj.training.replay.filling import Contents
from webtraj.training.replay.filters import check_parts, leaking_rows
from webtraj.training.replay.scanning import digests_of, unit_digest
from webtraj.training.replay.weights import View, Weighting, checked, mixed
from webtraj.training.samples import Sample, SampleKey
from webtraj.trajectory import EpisodeTrajectory

if TYPE_CHECKING:
    from webtraj.training.replay.buffer import ReplayBuffer

__all__ = ["Loader", "Parts", "Selection", "SplitBy", "in_validation"]

# Splits into training and validation: by episodes, groups, tasks or sites, never by steps.
#
# A unit's part follows from the seed and its name alone, so it stays when data is added: validation
# data never becomes training data later.

SplitBy = Literal["episode", "group", "task", "site"]
"""The unit that a split keeps together."""


def in_validation(names: Sequence[str], ratio: float, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return a mask of the units for validation: about `ratio` of them.

    If there would be none among two or more units, the nearest one is taken: the only case in which
    a unit can change its part when others are added.

    >>> in_validation(["a", "b"], 0.0).tolist()
    [False, False]

    Args:
        names: The units, each once.
        ratio: The share for validation, from 0 to below 1.
        seed: Seed of the split.

    Raises:
        InvalidInputError: The ratio is out of range, or nothing would be left to train on.
    """
    if isinstance(ratio, bool) or not 0.0 <= ratio < 1.0:
        raise errors.InvalidInputError(
            f"The validation ratio is {ratio!r}; expected a number from 0 to below 1."
        )
    luck = np.array([unit_digest("split", seed, name) for name in names], np.uint64)
    chosen: NDArray[np.bool_] = luck.astype(np.float64) / 2.0**64 < ratio
    if ratio > 0.0 and len(names) > 1 and not chosen.any():
        chosen[int(np.argmin(luck))] = True
    if len(names) and chosen.all():
        raise errors.InvalidInputError(
            f"A split of {ratio} leaves nothing to train on: there are only {len(names)} units to "
            "split. Use a smaller ratio, or split by a finer unit."
        )
    return chosen


# Loading the samples of rows: one episode at a time, with the last few cached.

_KEPT = 4
_AHEAD = 4


@dataclasses.dataclass(frozen=True, slots=True)
class _Episode:
    trajectory: EpisodeTrajectory
    render: _Once | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Once:
    """A renderer with the finished result for one episode."""

    reference: Mapping[str, Any]
    rendered: Mapping[int, Rendered]

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """Return the rendered decisions."""
        del trajectory
        return self.rendered


class Loader:
    """A loader of samples. Safe to share between threads."""

    def __init__(self, contents: Contents, render: Renderer | None) -> None:
        self._contents = contents
        self._render = render
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[int, _Episode] = collections.OrderedDict()

    def load(self, rows: Sequence[int] | NDArray[np.int64]) -> Iterator[Sample]:
        """Yield the samples of rows, without loss weights or advantages.

        Raises:
            CorruptDataError: An episode is missing, damaged, or has changed since it was read.
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
            same = digests_of(sample) == record["sample"].tobytes()
        except errors.InvalidInputError:
            same = False
        if not same:
            raise errors.CorruptDataError(
                f"The episode {episode.trajectory.episode_id!r} has changed since the replay "
                "buffer read it. Build the buffer again; datasets must not change meanwhile."
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
        # From a bucket, load all blobs at once; from a folder, only those in a prompt.
        blobs = functools.partial(Dataset, place, [summary])
        dataset = blobs("eager" if place.is_remote else "lazy")
        trajectory = dataset[summary.episode_id]
        if self._render is None:
            return _Episode(trajectory, None)
        once = _Once(self._render.reference, self._render.render(trajectory))
        return _Episode(trajectory, once)


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a split selection."""

    train: Selection
    validation: Selection
    left_out: int
    """Validation samples dropped because another episode trains on the same prompt or page."""


class Selection(Sequence[Sample]):
    """A selection of a replay buffer's samples. Iterating loads one episode at a time.

    Attributes:
        rows: The rows of the buffer.
        loss_weights: The loss weight of each sample.
        how: The provenance of the selection, as plain data.
    """

    def __init__(
        self,
        buffer: ReplayBuffer,
        rows: NDArray[np.int64],
        loss_weights: NDArray[np.float64],
        how: Mapping[str, Any],
    ) -> None:
        self.buffer = buffer
        self.rows = rows
        self.loss_weights = loss_weights
        self.how = dict(how)
        self._loader = Loader(buffer.contents, buffer.render)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Selection: {len(self)} samples of {len(self.episode_ids)} episodes>"

    @overload
    def __getitem__(self, key: int) -> Sample: ...
    @overload
    def __getitem__(self, key: slice) -> Selection: ...

    def __getitem__(self, key: int | slice) -> Sample | Selection:
        """Return the loaded sample at an index, or a selection for a slice.

        Raises:
            IndexError: The index is out of range.
            CorruptDataError: Its episode is missing, damaged, or has changed.
        """
        if isinstance(key, slice):
            return self._some(np.arange(len(self))[key], {})
        position = range(len(self))[key]
        return next(iter(self._some(np.array([position]), {})))

    def __iter__(self) -> Iterator[Sample]:
        advantages = self.view.advantage
        loaded = self._loader.load(self.rows)
        for sample, weight, advantage in zip(loaded, self.loss_weights, advantages, strict=True):
            yield dataclasses.replace(
                sample,
                loss_weight=float(weight),
                advantage=None if np.isnan(advantage) else float(advantage),
            )

    @functools.cached_property
    def view(self) -> View:
        """The samples as input of weightings."""
        return self.buffer.contents.view(self.rows)

    @property
    def records(self) -> NDArray[Any]:
        """The samples' rows of `columns.STEPS`."""
        return self.buffer.contents.steps[self.rows]

    @functools.cached_property
    def episode_ids(self) -> tuple[str, ...]:
        """The ids of the samples' episodes, each once."""
        ids = self.buffer.contents.episode_ids
        return tuple(ids[number] for number in np.unique(self.records["episode"]))

    @property
    def keys(self) -> list[SampleKey]:
        """The key of each sample."""
        ids = self.buffer.contents.episode_ids
        return [
            SampleKey(ids[episode], step, call)
            for episode, step, call in self.records[["episode", "step", "call"]].tolist()
        ]

    def positive(self) -> Selection:
        """Return the samples with a loss weight above 0."""
        return self._some(np.flatnonzero(self.loss_weights > 0.0), {"positive": True})

    def shuffled(self, seed: int = 0) -> Selection:
        """Return the samples in a seeded random order. Iterating it reloads episodes repeatedly."""
        luck = mixed(np.arange(len(self), dtype=np.uint64), seed)
        return self._some(np.argsort(luck, kind="stable"), {"shuffled": seed})

    def with_loss_weights(self, weighting: Weighting) -> Selection:
        """Return the same samples with loss weights from a weighting.

        Raises:
            InvalidInputError: A weight is invalid.
        """
        weights = checked(weighting, self.view)
        return Selection(self.buffer, self.rows, weights, {**self.how, "loss_weights": "set"})

    def split(
        self,
        ratio: float,
        *,
        by: SplitBy = "episode",
        seed: int | None = None,
        shared: Literal["drop", "error", "allow"] = "drop",
    ) -> Parts:
        """Split the samples into training and validation, keeping units together.

        A unit's part follows from its name and the seed, and stays the same when data is added.

        Args:
            ratio: The share of units for validation.
            by: The unit: an episode, a group of attempts, a task or a site. Samples without a
                group or site use their episode.
            seed: Seed of the split; None for the buffer's.
            shared: The treatment of validation samples whose prompt, or page and goal, is also in
                training. "drop": put them in neither part; "error": raise a `LeakError`; "allow":
                keep them.

        Raises:
            LeakError: See `shared`.
            InvalidInputError: The ratio is invalid, or a part has no samples.
        """
        if shared not in ("drop", "error", "allow"):
            raise errors.InvalidInputError(
                f"shared={shared!r} is unknown; expected 'drop', 'error' or 'allow'."
            )
        seed = self.buffer.seed if seed is None else seed
        names, units = np.unique(self._units(by), return_inverse=True)
        held = in_validation(names.tolist(), ratio, seed=seed)[units.reshape(-1)]
        how = {"split": {"by": by, "ratio": ratio, "seed": seed, "shared": shared}}
        train = self._some(np.flatnonzero(~held), {**how, "part": "train"})
        candidates = np.flatnonzero(held)
        if shared == "drop":
            leaking = leaking_rows(train.records, self.records[candidates])
            candidates = candidates[~leaking]
        validation = self._some(candidates, {**how, "part": "validation"})
        if ratio > 0.0 and held.any() and not len(validation):
            raise errors.InvalidInputError(
                "Nothing is left to validate on: every page of the validation episodes is also in "
                "the training data. Split by='task' or by='site', or pass shared='allow'."
            )
        if shared != "allow":
            kinds = ("episode", *([by] if by in ("task", "site") else []), "prompt", "page")
            check_parts(train, validation, by=kinds)
        return Parts(train, validation, int(held.sum()) - len(validation))

    def provenance(self) -> dict[str, Any]:
        """Return the provenance of the selection as JSON data, equal for equal inputs.

        It lists datasets and episodes with the SHA-256 of their files, the selected steps of each,
        filters, seeds and webtraj's version.
        """
        contents = self.buffer.contents
        records = self.records
        order = np.argsort(records["episode"], kind="stable")
        numbers, starts = np.unique(records["episode"][order], return_index=True)
        parts = np.split(order, starts[1:]) if len(order) else []
        episodes = [
            {
                "episode_id": contents.episode_ids[number],
                "sha256": contents.episodes["sha256"][number].tobytes().hex(),
                "dataset": int(contents.episodes["source"][number]),
                "steps": records["step"][part].tolist(),
            }
            for number, part in zip(numbers, parts, strict=True)
        ]
        return {
            **self.buffer.settings(),
            "selection": self.how,
            "num_samples": len(self),
            "sha256": self.sha256,
            "episodes": episodes,
        }

    @functools.cached_property
    def sha256(self) -> str:
        """The SHA-256 of its samples in order, with their loss weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.records["sample"]).tobytes())
        digest.update(self.loss_weights.astype("<f8").tobytes())
        digest.update(orjson.dumps([[key.episode_id, key.step, key.call] for key in self.keys]))
        return digest.hexdigest()

    def _some(self, positions: NDArray[Any], how: Mapping[str, Any]) -> Selection:
        rows, weights = self.rows[positions], self.loss_weights[positions]
        return Selection(self.buffer, rows, weights, {**self.how, **how})

    def _units(self, by: SplitBy) -> NDArray[np.str_]:
        contents, view = self.buffer.contents, self.view
        alone = np.array([f"episode {name}" for name in contents.recorded_ids], np.str_)
        match by:
            case "episode":
                return alone[view.episode] if len(self) else np.zeros(0, np.str_)
            case "group":
                groups = contents.episodes["group"][view.episode]
                named = np.array([contents.groups[number] for number in groups], np.str_)
            case "task":
                return np.array([view.tasks[number] for number in view.task], np.str_)
            case "site":
                named = np.array([view.sites[number] for number in view.site], np.str_)
            case _:
                raise errors.InvalidInputError(
                    f"split(by={by!r}): expected episode, group, task or site."
                )
        return np.where(named == "", alone[view.episode], named) if len(self) else named
