"""Weights for trainers that know none: a sample of weight 2 is there twice.

What is left of a weight after whole copies is rounded up or down by chance, so that it is right on
average; chance follows from the sample's name and a seed, so that an export can be made again.
"""

from __future__ import annotations

import hashlib
import math

from webtraj.training.export.base import LeftOut, name_of
from webtraj.training.samples import Sample

__all__ = ["copies_of"]

_MOST = 1000


def copies_of(sample: Sample, seed: int, *, column: bool = False) -> int | LeftOut:
    """Returns how often a sample is written, or why it is not.

    Args:
        sample: A sample.
        seed: Rounds weights that are no whole numbers.
        column: Whether a column says the weight, so that all are written once.

    >>> from webtraj.training.samples import SampleKey
    >>> key = SampleKey("e1", 1)
    >>> copies_of(Sample(key=key, messages=(), completion="a", loss_weight=2.0), seed=0)
    2
    """
    weight = sample.loss_weight
    if not math.isfinite(weight) or (weight < 0 and not column):
        return LeftOut("its weight is negative or no number, which copies cannot say")
    if column:
        return 1
    if weight == 0:
        return LeftOut("its weight is 0")
    if weight > _MOST:
        return LeftOut(f"its weight is more than {_MOST}")
    whole = math.floor(weight)
    digest = hashlib.sha256(f"{seed}/{name_of(sample.key)}".encode()).digest()
    chance = int.from_bytes(digest[:8]) / 2**64
    copies = whole + (chance < weight - whole)
    return copies or LeftOut("its weight is below 1, and chance has left it out")
