"""Drawing rows by weight: seeded, and the same on every machine.

Each sample's luck follows from the seed and where the sample is from, not from its place in a list.
So a draw without replacement from a buffer that has grown differs from the old one only by what the
new samples push out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.training.replay.columns import mixed

__all__ = ["draw", "quotas", "ranked"]

_Floats = NDArray[np.float64]


def draw(
    weights: _Floats, keys: NDArray[np.uint64], count: int, *, seed: int, replacement: bool
) -> NDArray[np.int64]:
    """Returns the indices that were drawn, in order; those of weight 0 never are.

    Args:
        weights: At least 0 each.
        keys: What tells the samples apart, the same whatever else is drawn from.
        count: How many. Without replacement no more are drawn than there are.
        seed: Another one gives another draw.
        replacement: Whether one may be drawn several times.

    Raises:
        InvalidInputError: The count is negative, or there is nothing to draw from.
    """
    if isinstance(count, bool) or count < 0:
        raise errors.InvalidInputError(f"num_samples is {count!r}; expected at least 0.")
    if count == 0:
        return np.zeros(0, np.int64)
    if not len(weights) or weights.max() <= 0.0:
        raise errors.InvalidInputError(
            "There is nothing to draw from: no sample has a weight above 0. The buffer's report "
            "says what was left out, and why."
        )
    if replacement:
        sums = np.cumsum(weights / weights.max())
        points = _uniform(np.arange(count, dtype=np.uint64), seed) * sums[-1]
        found = np.searchsorted(sums, points, side="right")
        last = int(np.flatnonzero(weights)[-1])
        return np.sort(np.minimum(found, last)).astype(np.int64)
    # Efraimidis and Spirakis: the least of exponential times, each at the rate of its weight,
    # by their logarithms, which do not overflow.
    possible = np.flatnonzero(weights > 0.0)
    times = np.log(-np.log(_uniform(keys[possible], seed))) - np.log(weights[possible])
    if count < len(possible):
        possible = possible[np.lexsort((keys[possible], times))[:count]]
    return np.sort(possible).astype(np.int64)


def quotas(shares: _Floats, sizes: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
    """Returns how many to draw of each part, so that their shares are met as nearly as can be.

    Args:
        shares: The weight of each part, in sum.
        sizes: How many there are of each; what a part lacks goes to the others by their shares.
            None if they are drawn with replacement.
        count: How many in all.

    >>> quotas(np.array([1.0, 4.0, 9.0, 16.0]), None, 100).tolist()
    [3, 13, 30, 54]
    >>> quotas(np.array([1.0, 9.0]), np.array([50, 20]), 40).tolist()
    [20, 20]
    """
    found = np.zeros(len(shares), np.int64)
    left = count if sizes is None else min(count, int(sizes[shares > 0.0].sum()))
    while left:
        room = shares > 0.0 if sizes is None else (shares > 0.0) & (found < sizes)
        wanted = np.where(room, shares, 0.0)
        wanted = wanted / wanted.sum() * left
        given = np.floor(wanted).astype(np.int64)
        rest = left - int(given.sum())
        order = np.lexsort((np.arange(len(shares)), given - wanted))
        given[[index for index in order if room[index]][:rest]] += 1
        if sizes is not None:
            given = np.minimum(given, sizes - found)
        found += given
        left -= int(given.sum())
    return found


def ranked(groups: NDArray[np.int64], keys: NDArray[np.uint64], *, seed: int) -> NDArray[np.int64]:
    """Returns each one's place among those of its group, from 0, in an order that the seed gives.

    Which ones of a group come first does not depend on how many there are.
    """
    luck = mixed(keys, seed)
    order = np.lexsort((keys, luck, groups))
    places = np.empty(len(groups), np.int64)
    if not len(groups):
        return places
    starts = np.flatnonzero(np.r_[True, np.diff(groups[order]) != 0])
    offsets = np.zeros(len(groups), np.int64)
    offsets[starts] = starts
    places[order] = np.arange(len(groups)) - np.maximum.accumulate(offsets)
    return places


def _uniform(keys: NDArray[np.uint64], seed: int) -> _Floats:
    """Returns numbers above 0 and below 1."""
    numbers = mixed(mixed(keys, seed), seed + 1) >> np.uint64(11)
    return (numbers.astype(np.float64) + 0.5) * math.ldexp(1.0, -53)
