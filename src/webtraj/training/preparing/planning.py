"""Which samples are trained on in which step: a function of the seed, with no state to keep.

A *row* is one sample, or several packed together. A step has `batch_size * accumulation * world`
rows; the last step of an epoch has what is left. Within a step, rows of like length go together, so
that little is padded; that changes no sum.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["MicroBatch", "Plan", "Step", "pack"]

Row = tuple[int, ...]
"""Samples by number, one after the other."""


@dataclasses.dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one device computes in one pass."""

    rows: tuple[Row, ...]
    counts: bool = True
    """Whether it adds to the loss. Those that do not are there so that all devices make the same
    number of passes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What one update of the weights is made from."""

    epoch: int
    ranks: tuple[tuple[MicroBatch, ...], ...]
    """For each process its passes: the same number for all."""

    @property
    def samples(self) -> tuple[int, ...]:
        """All its samples, each once."""
        return tuple(
            sample
            for passes in self.ranks
            for batch in passes
            if batch.counts
            for row in batch.rows
            for sample in row
        )


class Plan:
    """All steps of a run.

    Args:
        lengths: Each sample's number of tokens.
        batch_size: Rows in a pass.
        accumulation: Passes to a step.
        world: How many processes train together.
        row_length: Packs samples into rows of up to so many tokens; None leaves each by itself.
        epochs: How often each sample is trained on, unless `max_steps` is given.
        max_steps: How many steps there are.
        seed: Of the order.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        batch_size: int,
        accumulation: int = 1,
        world: int = 1,
        row_length: int | None = None,
        epochs: int = 1,
        max_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        self._lengths = lengths
        self._batch_size = batch_size
        self._accumulation = accumulation
        self._world = world
        self._row_length = row_length
        self._seed = seed
        self._rows_of = functools.lru_cache(maxsize=2)(self._make_rows)
        if max_steps is None and lengths:
            max_steps = sum(self._steps_in(epoch) for epoch in range(epochs))
        self.num_steps = max_steps if lengths and max_steps is not None else 0

    def steps(self, start: int = 0) -> Iterator[Step]:
        """Yields the steps from number `start` on."""
        number = 0
        for epoch in itertools.count():
            if number >= self.num_steps:
                return
            in_epoch = self._steps_in(epoch)
            for index in range(max(start - number, 0), min(in_epoch, self.num_steps - number)):
                yield self._step(epoch, index)
            number += in_epoch

    def _steps_in(self, epoch: int) -> int:
        return -(-len(self._rows_of(epoch)) // self._rows_of_step)

    @property
    def _rows_of_step(self) -> int:
        return self._batch_size * self._accumulation * self._world

    def _make_rows(self, epoch: int) -> list[Row]:
        order = np.random.default_rng([self._seed, epoch]).permutation(len(self._lengths))
        if self._row_length is None:
            return [(int(sample),) for sample in order]
        return pack(order, self._lengths, self._row_length)

    def _step(self, epoch: int, index: int) -> Step:
        size = self._rows_of_step
        rows = self._rows_of(epoch)[index * size : (index + 1) * size]
        rows = sorted(rows, key=lambda row: -sum(self._lengths[sample] for sample in row))
        batches = [MicroBatch(tuple(part)) for part in _parts(rows, self._batch_size)]
        passes = -(-len(batches) // self._world)
        filler = MicroBatch((rows[-1],), counts=False)
        batches += [filler] * (passes * self._world - len(batches))
        ranks = tuple(tuple(batches[rank :: self._world]) for rank in range(self._world))
        return Step(epoch, ranks)


def pack(
    order: Sequence[int] | npt.NDArray[np.int_], lengths: Sequence[int], room: int
) -> list[Row]:
    """Packs samples into rows: each into the first open row that has room for it.

    >>> pack([0, 1, 2, 3], [6, 5, 4, 3], room=10)
    [(0, 2), (1, 3)]
    """
    rows: list[list[int]] = []
    free: list[int] = []
    first_open = 0
    for item in order:
        sample = int(item)
        length = lengths[sample]
        for row in range(first_open, len(rows)):
            if free[row] >= length:
                break
        else:
            row = len(rows)
            rows.append([])
            free.append(room)
        rows[row].append(sample)
        free[row] -= length
        # Few are looked at, so that packing takes no longer than it is worth.
        first_open = max(first_open, len(rows) - _OPEN_ROWS)
    return [tuple(row) for row in rows]


_OPEN_ROWS = 64


def _parts(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
