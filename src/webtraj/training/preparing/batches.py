"""Rows of token ids as tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from webtraj.training.preparing.encoding import Encoded

__all__ = ["Batch", "make_batch"]

_IGNORED = -100


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """What one pass takes. All tensors are on the CPU."""

    inputs: dict[str, Any]
    """The model's arguments."""
    targets: Any
    """For each position the token after it, or -100 if it is not trained on: int64, rows by
    length."""
    weights: Any
    """How much each counts: float32, rows by length."""
    owners: Any
    """Which sample each is of, by its place in `names`: int64, rows by length."""
    names: tuple[str, ...]
    """The samples."""
    num_tokens: int
    """How many tokens there are, without padding."""


def make_batch(
    rows: Sequence[Sequence[Encoded]],
    *,
    pad_id: int,
    counts: bool = True,
    masked: bool = True,
    image_token_id: int | None = None,
    pixels: dict[str, Any] | None = None,
) -> Batch:
    """Returns rows as tensors, padded on the right.

    Args:
        rows: Samples; those of one row are packed together, and do not see each other.
        pad_id: What fills rows up.
        counts: Whether anything is trained on.
        masked: Whether packed rows get a mask; without one, attention has to go by positions.
        image_token_id: For models that have to be told which tokens are images.
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
    for index, row in enumerate(rows):
        at = 0
        for segment, sample in enumerate(row):
            end = at + len(sample)
            ids[index, at:end] = sample.input_ids
            segments[index, at:end] = segment
            positions[index, at:end] = np.arange(len(sample))
            if counts and sample.weight > 0:
                # Position t predicts token t + 1, of the same sample.
                trained = sample.trained[1:]
                targets[index, at : end - 1][trained] = sample.input_ids[1:][trained]
                weights[index, at : end - 1] = sample.weight
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
    )


def _block_mask(segments: Any) -> Any:
    """Returns who sees whom: earlier tokens of the same sample. Padding sees itself alone."""
    import torch

    length = segments.shape[1]
    same = segments[:, :, None] == segments[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    real = (segments >= 0)[:, None, :]
    alone = torch.eye(length, dtype=torch.bool)
    return ((same & causal & real) | alone)[:, None]
