"""Samplers: from a stream of tasks to those that are played.

A sampler reads its stream once and keeps no more of it than it returns, so that 300,000 tasks need
the memory of a thousand. What it picks follows from the stream and the seed alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import random
from collections.abc import Iterable, Mapping
from typing import Protocol

from webtraj import errors
from webtraj.rollouts.tasks.spec import TaskSpec

__all__ = ["Band", "RatioSampler", "Sampler", "Sequence", "UniformSampler"]

_LOGGER = logging.getLogger(__name__)


class Sampler(Protocol):
    """Picks tasks."""

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks to play, in the order to play them in.

        Raises:
            InvalidInputError: There is nothing to pick from.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """Takes the first tasks as they come, the whole sequence several times over if asked to."""

    size: int | None = None
    """How many; None for all."""
    repeat: int = 1
    """How often."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if self.repeat < 1:
            raise errors.InvalidInputError(f"A sequence is played once or more; got {self.repeat}.")

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks; `seed` does not matter."""
        del seed
        return _some(list(itertools.islice(tasks, self.size))) * self.repeat


@dataclasses.dataclass(frozen=True, slots=True)
class UniformSampler:
    """Picks without replacement, each task as likely as any other."""

    size: int | None = None
    """How many; None for all, shuffled. If there are fewer, all of them."""

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks, shuffled."""
        source = _source(seed, "uniform")
        picked = _some(_Reservoir(self.size, source).fill(tasks))
        if self.size is not None and len(picked) < self.size:
            _LOGGER.warning("There are only %d of the %d tasks wanted.", len(picked), self.size)
        source.shuffle(picked)
        return picked


@dataclasses.dataclass(frozen=True, slots=True)
class Band:
    """Tasks from one difficulty to another."""

    low: int
    """The least difficulty."""
    high: int
    """The greatest difficulty."""
    weight: float
    """Its share of the sample, beside the weights of the other bands."""


@dataclasses.dataclass(frozen=True, slots=True)
class RatioSampler:
    """Picks from each band of difficulty as many as its weight says.

    Shares are rounded down; what is left goes to the largest remainders (WebGym's rule). A band
    with too few tasks leaves the rest of its share to the others, by their weights.
    """

    size: int
    """How many in all."""
    bands: Mapping[str, Band]
    """The bands by name; those that overlap share no task: the first one has it."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not self.bands:
            raise errors.InvalidInputError("A ratio needs one band of difficulty or more.")
        for name, band in self.bands.items():
            if not (band.low <= band.high and band.weight > 0):
                raise errors.InvalidInputError(
                    f"The band {name!r} is {band}; expected low <= high and a weight above 0."
                )

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks, shuffled."""
        reservoirs = {
            # Any band may have to make up for all others.
            name: _Reservoir(self.size, _source(seed, name))
            for name in self.bands
        }
        for task in tasks:
            for name, band in self.bands.items():
                if band.low <= task.difficulty <= band.high:
                    reservoirs[name].offer(task)
                    break
        shares = _shares(
            self.size,
            {name: band.weight for name, band in self.bands.items()},
            {name: len(reservoir.picked) for name, reservoir in reservoirs.items()},
        )
        picked: list[TaskSpec] = []
        for name, reservoir in reservoirs.items():
            candidates = list(reservoir.picked)
            reservoir.source.shuffle(candidates)
            picked += candidates[: shares[name]]
        if len(picked) < self.size:
            _LOGGER.warning("There are only %d of the %d tasks wanted.", len(picked), self.size)
        _source(seed, "order").shuffle(_some(picked))
        return picked


class _Reservoir:
    """Keeps a uniform sample of what it is offered (Vitter's algorithm R)."""

    def __init__(self, size: int | None, source: random.Random) -> None:
        self.source = source
        self.picked: list[TaskSpec] = []
        self._size = size
        self._offered = 0

    def offer(self, task: TaskSpec) -> None:
        self._offered += 1
        if self._size is None or len(self.picked) < self._size:
            self.picked.append(task)
            return
        place = self.source.randrange(self._offered)
        if place < self._size:
            self.picked[place] = task

    def fill(self, tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
        for task in tasks:
            self.offer(task)
        return self.picked


def _shares(
    size: int, weights: Mapping[str, float], available: Mapping[str, int]
) -> dict[str, int]:
    """Returns how many each band gives, never more than it has."""
    shares = dict.fromkeys(weights, 0)
    while (left := size - sum(shares.values())) > 0:
        open_bands = {name: weights[name] for name in weights if shares[name] < available[name]}
        if not open_bands:
            break
        for name, share in _rounded(left, open_bands).items():
            shares[name] += min(share, available[name] - shares[name])
    return shares


def _rounded(size: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divides `size` by weight: rounded down, the rest to the largest remainders."""
    total = sum(weights.values())
    exact = {name: size * weight / total for name, weight in weights.items()}
    shares = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _source(seed: int, purpose: str) -> random.Random:
    # A text, which Random digests, gives nearby seeds nothing in common.
    return random.Random(f"{seed}/{purpose}")


def _some(tasks: list[TaskSpec]) -> list[TaskSpec]:
    if not tasks:
        raise errors.InvalidInputError(
            "There is no task to play: the files have none, or all were filtered out."
        )
    return tasks


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise errors.InvalidInputError(f"A sample has one task or more; got {size}.")
