"""Selections: some of a replay buffer's samples, in an order, with what each counts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from webtraj import errors
from webtraj.training.replay.columns import View, mixed
from webtraj.training.replay.leaks import check_parts, leaking_rows
from webtraj.training.replay.loading import Loader
from webtraj.training.replay.splits import SplitBy, in_validation
from webtraj.training.replay.weights import Weighting, checked
from webtraj.training.samples import Sample, SampleKey

if TYPE_CHECKING:
    from webtraj.training.replay.buffer import ReplayBuffer

__all__ = ["Parts", "Selection"]


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """A selection, split."""

    train: Selection
    validation: Selection
    left_out: int
    """Samples that are in neither part: they would have been for validation, and are trained on in
    another episode, the same prompt or page."""


class Selection(Sequence[Sample]):
    """Samples of a replay buffer. Iterating loads one episode after the other.

    Attributes:
        rows: Which rows of the buffer they are.
        loss_weights: How much each counts.
        how: What they were selected by, as plain data.
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
        """Returns a sample, loaded; for a slice, a selection of those.

        Raises:
            IndexError: There is none at that position.
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
        """The samples as weightings see them."""
        return self.buffer.contents.view(self.rows)

    @property
    def records(self) -> NDArray[Any]:
        """The samples' rows of `columns.STEPS`."""
        return self.buffer.contents.steps[self.rows]

    @functools.cached_property
    def episode_ids(self) -> tuple[str, ...]:
        """The ids of the episodes that they are of, each once."""
        ids = self.buffer.contents.episode_ids
        return tuple(ids[number] for number in np.unique(self.records["episode"]))

    @property
    def keys(self) -> list[SampleKey]:
        """Where each sample is from."""
        ids = self.buffer.contents.episode_ids
        return [
            SampleKey(ids[episode], step, call)
            for episode, step, call in self.records[["episode", "step", "call"]].tolist()
        ]

    def positive(self) -> Selection:
        """Returns the samples that count: those whose loss weight is above 0."""
        return self._some(np.flatnonzero(self.loss_weights > 0.0), {"positive": True})

    def shuffled(self, seed: int = 0) -> Selection:
        """Returns the samples in an order that the seed gives. It loads episodes over and over."""
        luck = mixed(np.arange(len(self), dtype=np.uint64), seed)
        return self._some(np.argsort(luck, kind="stable"), {"shuffled": seed})

    def with_loss_weights(self, weighting: Weighting) -> Selection:
        """Returns the same samples, counting what a weighting says.

        Raises:
            InvalidInputError: A weight is none.
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
        """Splits the samples for training and validation. What is in one unit stays together.

        Where a unit goes follows from its name and the seed, and stays so when data is added.

        Args:
            ratio: Which share of the units is for validation.
            by: What a unit is: an episode, a group of attempts, a task or a site. Samples without a
                group or site go by their episode.
            seed: Another one gives another split; None for the buffer's.
            shared: What becomes of validation samples whose prompt, or whose page and goal, is
                trained on in another unit. "drop": they are in neither part; "error": a
                `LeakError`; "allow": they stay.

        Raises:
            LeakError: See `shared`.
            InvalidInputError: The ratio is none, or a part has no samples.
        """
        if shared not in ("drop", "error", "allow"):
            raise errors.InvalidInputError(
                f"shared={shared!r} is not known; expected 'drop', 'error' or 'allow'."
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
                "Nothing is left to validate on: every page of those episodes is trained on in "
                "another one, too. Split by='task' or by='site', or give shared='allow'."
            )
        if shared != "allow":
            kinds = ("episode", *([by] if by in ("task", "site") else []), "prompt", "page")
            check_parts(train, validation, by=kinds)
        return Parts(train, validation, int(held.sum()) - len(validation))

    def provenance(self) -> dict[str, Any]:
        """Returns what made the selection, as JSON data: the same inputs give the same.

        Datasets and episodes with the SHA-256 of their files, the steps of each that are in it,
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
        """Of what is in it, in order, and what each sample counts."""
        digest = hashlib.sha256(np.ascontiguousarray(self.records["sample"]).tobytes())
        digest.update(self.loss_weights.astype("<f8").tobytes())
        digest.update(orjson.dumps([[key.episode_id, key.step, key.call] for key in self.keys]))
        return digest.hexdigest()

    def _some(self, positions: NDArray[Any], how: Mapping[str, Any]) -> Selection:
        rows, weights = self.rows[positions], self.loss_weights[positions]
        return Selection(self.buffer, rows, weights, {**self.how, **how})

    def _units(self, by: SplitBy) -> NDArray[np.str_]:
        contents, view = self.buffer.contents, self.view
        alone = np.array([f"episode {name}" for name in contents.episode_ids], np.str_)
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
