"""Splitting into training and validation: by episodes, groups, tasks or sites, never by steps.

Which part a unit goes to follows from the seed and its name alone, so that it stays there when data
is added: what was validated on is never trained on later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.training.replay.digests import unit_digest

__all__ = ["SplitBy", "in_validation"]

SplitBy = Literal["episode", "group", "task", "site"]
"""What is kept in one part."""


def in_validation(names: Sequence[str], ratio: float, *, seed: int = 0) -> NDArray[np.bool_]:
    """Returns which of some units are for validation: about `ratio` of them.

    If none would be, and there are two at least, the one that comes nearest to it is: the only case
    in which a unit can change its part when others are added.

    >>> in_validation(["a", "b"], 0.0).tolist()
    [False, False]

    Args:
        names: The units, each once.
        ratio: From 0 to below 1.
        seed: Another one gives another split.

    Raises:
        InvalidInputError: The ratio is another number, or nothing would be left to train on.
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
            "split. Take a smaller ratio, or split by something finer."
        )
    return chosen
