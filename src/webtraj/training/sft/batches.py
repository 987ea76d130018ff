"""The plan of batches: a stateless function of the seed.

A *row* is one sample, or several packed together. A step has `batch_size * accumulation * world`
rows; the last step of an epoch has the rest. Within a step, rows of similar length share a pass to
reduce padding, which changes no sum; a single process also uses more passes if that saves time.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from webtraj.training.sft.encoding import Encoded

__all__ = ["Batch", "MicroBatch", "Plan", "PolicyColumns", "Step", "make_batch", "pack"]

Row = tuple[int, ...]
"""Indices of the samples in a row."""


@dataclasses.dataclass(frozen=True, slots=True)
class MicroBatch:
    """The rows that one device computes in one pass."""

    rows: tuple[Row, ...]
    counts: bool = True
    """Whether it adds to the loss. The others are filler, so that all devices make the same number
    of passes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The passes of one weight update."""

    epoch: int
    ranks: tuple[tuple[MicroBatch, ...], ...]
    """The passes of each process: the same number for all."""

    @property
    def samples(self) -> tuple[int, ...]:
        """The step's samples, each once."""
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
        lengths: The number of tokens of each sample.
        batch_size: The maximum number of rows per pass.
        accumulation: Passes per step.
        world: The number of processes.
        row_length: The maximum number of tokens in a packed row; None for no packing.
        epochs: Passes over the data, unless `max_steps` is given.
        max_steps: The exact number of steps.
        seed: Seed of the order.
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
        """Yield the steps from index `start` on."""
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
        rows = sorted(rows, key=self._length, reverse=True)
        batches = [MicroBatch(tuple(part)) for part in self._passes(rows)]
        passes = -(-len(batches) // self._world)
        filler = MicroBatch((rows[-1],), counts=False)
        batches += [filler] * (passes * self._world - len(batches))
        ranks = tuple(tuple(batches[rank :: self._world]) for rank in range(self._world))
        return Step(epoch, ranks)

    def _length(self, row: Row) -> int:
        return sum(self._lengths[sample] for sample in row)

    def _passes(self, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
        """Cut rows, the longest first, into passes."""
        start = padding = 0
        for end, row in enumerate(rows):
            padding += self._length(rows[start]) - self._length(row)
            alone = self._world == 1  # Others would wait for the one with the most passes.
            if end - start == self._batch_size or (alone and padding > _PASS_TOKENS):
                yield rows[start:end]
                start, padding = end, 0
        yield rows[start:]


_PASS_TOKENS = 512
"""What a pass costs besides its rows, as a number of tokens; a rough figure."""


def pack(
    order: Sequence[int] | npt.NDArray[np.int_], lengths: Sequence[int], room: int
) -> list[Row]:
    """Pack samples into rows, each into the first open row with room for it.

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
        # Only a few open rows are tried, to keep packing fast.
        first_open = max(first_open, len(rows) - _OPEN_ROWS)
    return [tuple(row) for row in rows]


_OPEN_ROWS = 64


# Rows of token ids as tensors.

_IGNORED = -100


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """The input of one pass. All tensors are on the CPU."""

    inputs: dict[str, Any]
    """The model's arguments."""
    targets: Any
    """The next token at each position, or -100 if it is not trained on: int64, rows by length."""
    weights: Any
    """The weight of each target: float32, rows by length."""
    owners: Any
    """The sample of each target, as an index into `names`: int64, rows by length."""
    names: tuple[str, ...]
    """The samples' names."""
    num_tokens: int
    """The number of tokens, without padding."""
    policy: PolicyColumns | None = None
    """Columns for policy-gradient training."""


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyColumns:
    """The inputs of the policy gradient at each position: float32, rows by length."""

    advantages: Any
    """NaN where the reply is imitated."""
    behaviour: Any
    """Log-probabilities under the weights that sampled the tokens."""
    proximal: Any
    """Log-probabilities in the ratio's denominator."""


def make_batch(
    rows: Sequence[Sequence[Encoded]],
    *,
    pad_id: int,
    counts: bool = True,
    masked: bool = True,
    image_token_id: int | None = None,
    pixels: dict[str, Any] | None = None,
) -> Batch:
    """Return rows as tensors, padded on the right.

    Args:
        rows: Samples, grouped by row. Samples in one row do not attend to each other.
        pad_id: The token that pads rows.
        counts: Whether anything is trained on.
        masked: Whether packed rows get a mask; without one, attention must use the positions.
        image_token_id: The image token, for models that need token types.
        pixels: The model's other arguments.
    """
    import torch

    packed = any(len(row) > 1 for row in rows)
    width = max(sum(map(len, row)) for row in rows)
    shape = (len(rows), width)
    ids = np.full(shape, pad_id, dtype=np.int64)
    segments = np.full(shape, -1, dtype=np.int64)
    positions = np.zeros(shape, dtype=np.int64)
    targets = np.full(shape, _IGNORED, dtype=np.int64)
    weights = np.zeros(shape, dtype=np.float32)
    owners = np.zeros(shape, dtype=np.int64)
    names: list[str] = []
    policy = None
    if any(sample.advantage is not None for row in rows for sample in row):
        policy = np.zeros((3, *shape), dtype=np.float32)
        policy[0] = np.nan
    for index, row in enumerate(rows):
        at = 0
        for segment, sample in enumerate(row):
            end = at + len(sample)
            ids[index, at:end] = sample.input_ids
            segments[index, at:end] = segment
            positions[index, at:end] = np.arange(len(sample))
            if counts and sample.weight > 0:
                # Position t predicts token t + 1 of the same sample.
                trained = sample.trained[1:]
                targets[index, at : end - 1][trained] = sample.input_ids[1:][trained]
                weights[index, at : end - 1] = sample.weight
            if policy is not None and sample.behaviour is not None and sample.advantage is not None:
                at_start = sample.behaviour if sample.proximal is None else sample.proximal
                policy[0, index, at : end - 1] = sample.advantage
                policy[1, index, at : end - 1] = sample.behaviour[1:]
                policy[2, index, at : end - 1] = at_start[1:]
            owners[index, at:end] = len(names)
            names.append(sample.name)
            at = end
    tensor = torch.from_numpy
    inputs: dict[str, Any] = {"input_ids": tensor(ids)}
    if not packed:
        inputs["attention_mask"] = tensor((segments >= 0).astype(np.int64))
    else:
        inputs["position_ids"] = tensor(positions)
        if masked:
            inputs["attention_mask"] = _block_mask(tensor(segments))
    if pixels:
        inputs |= pixels
    if image_token_id is not None:
        inputs["mm_token_type_ids"] = tensor((ids == image_token_id).astype(np.int64))
    return Batch(
        inputs,
        tensor(targets),
        tensor(weights),
        tensor(owners),
        tuple(names),
        int(np.count_nonzero(segments >= 0)),
        None if policy is None else PolicyColumns(*(tensor(part) for part in policy)),
    )


def _block_mask(segments: Any) -> Any:
    """Return the attention mask: earlier tokens of the same sample. Padding sees only itself."""
    import torch

    length = segments.shape[1]
    same = segments[:, :, None] == segments[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    real = (segments >= 0)[:, None, :]
    alone = torch.eye(length, dtype=torch.bool)
    return ((same & causal & real) | alone)[:, None]
