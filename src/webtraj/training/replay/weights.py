"""The rows of a replay buffer, weightings, and weighted drawing.

A row is about 70 bytes of numbers. Names (of tasks, sites, ...) are stored once, and rows hold
their indices. A million steps take less than 100 MB, no matter how long their prompts are.

A weighting gives each sample a weight, for drawing or for the loss: a function of a `View` that
returns a number of at least 0 per sample. `product` multiplies weightings. You can pass your own
function.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.trajectory import Outcome

__all__ = [
    "EPISODES",
    "Growing",
    "LEVELS",
    "Names",
    "STEPS",
    "View",
    "Weighting",
    "advantage",
    "balanced",
    "by_reward",
    "by_success",
    "check",
    "draw",
    "effective_sample_size",
    "lifted",
    "mix",
    "product",
    "quotas",
    "rank",
    "recency",
    "uniform",
]

STEPS = np.dtype(
    [
        ("episode", "<i4"), ("step", "<i4"), ("call", "<i2"), ("verb", "<i2"), ("version", "<i4"),
        ("prompt_tokens", "<i4"), ("completion_tokens", "<i4"), ("counted", "?"), ("recorded", "?"),
        ("prompt", "V16"), ("sample", "V16"), ("page", "V8"),
    ]
)  # fmt: skip
"""The columns of a sample's row."""

EPISODES = np.dtype(
    [
        ("source", "<i4"), ("iteration", "<i4"), ("task", "<i4"), ("site", "<i4"),
        ("group", "<i4"), ("level", "<i1"), ("outcome", "<i1"), ("format", "<i1"),
        ("reward", "<f8"), ("hash", "<u8"), ("sha256", "V32"),
    ]
)  # fmt: skip
"""The columns of an episode's row."""

LEVELS = ("unknown", "easy", "medium", "hard")


class Names(dict[str, int]):
    """Names in order of first appearance, with their indices."""

    def number(self, name: str) -> int:
        """Return a name's index, adding it if new."""
        return self.setdefault(name, len(self))

    def renumber(self, numbers: NDArray[Any], names: Sequence[str]) -> NDArray[np.int64]:
        """Translate indices into other names to indices into these; add new names in order."""
        used, first, places = np.unique(numbers, return_index=True, return_inverse=True)
        found = np.zeros(len(used), np.int64)
        for place in np.argsort(first):
            found[place] = self.number(names[used[place]])
        return found[places.reshape(-1)]


class Growing:
    """A growing table of rows."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._rows = np.zeros(1024, dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, rows: Sequence[tuple[Any, ...]] | NDArray[Any]) -> None:
        """Add rows."""
        end = self._length + len(rows)
        if end > len(self._rows):
            # In place, to avoid a second copy.
            self._rows.resize(max(end, len(self._rows) * 5 // 4), refcheck=False)
        self._rows[self._length : end] = rows
        self._length = end

    def take(self) -> NDArray[Any]:
        """Return the rows as an array without a copy, and empty this object."""
        rows = self._rows
        rows.resize(self._length, refcheck=False)
        self._rows, self._length = np.zeros(0, rows.dtype), 0
        return rows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Samples as input of weightings and splits: arrays with one number per sample."""

    episode: NDArray[np.int64]
    """Index of its episode."""
    step: NDArray[np.int64]
    iteration: NDArray[np.int64]
    task: NDArray[np.int64]
    """Index into `tasks`."""
    site: NDArray[np.int64]
    """Index into `sites`."""
    level: NDArray[np.int64]
    """Index into `LEVELS`: the task's difficulty."""
    outcome: NDArray[np.int64]
    """A `webtraj.Outcome`."""
    reward: NDArray[np.float64]
    """The reward of its episode; NaN if unknown."""
    advantage: NDArray[np.float64]
    """The reward minus the mean of its group's graded episodes, including those that the buffer's
    filters leave out; 0 in a group without a success, whatever its rewards. NaN if the reward is
    unknown or there is no other episode."""
    tokens: NDArray[np.int64]
    """Tokens of prompt and completion."""
    version: NDArray[np.int64]
    """Index into `versions`."""
    tasks: tuple[str, ...]
    sites: tuple[str, ...]
    versions: tuple[str, ...]
    """The versions of the weights; empty text if unknown."""
    iterations: tuple[int, ...]
    """The iterations of the buffer, in order."""

    def __len__(self) -> int:
        return len(self.episode)


def mix(values: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return pseudorandom numbers determined by each value and the seed (splitmix64)."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(seed % 2**64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


Weighting = Callable[[View], NDArray[Any]]
"""A function that returns a weight of at least 0 for each sample."""

Balance = Literal["task", "site", "level", "outcome", "iteration", "episode"]


def uniform(view: View) -> NDArray[np.float64]:
    """Return the same weight for all samples."""
    return np.ones(len(view))


def by_success(view: View) -> NDArray[np.float64]:
    """Return 1 for the samples of successful episodes, and 0 for all others."""
    return np.asarray(view.outcome == Outcome.SUCCESS, np.float64)


def by_reward(view: View) -> NDArray[np.float64]:
    """Return the reward of each sample's episode: 1 for a success, 0 for a failure, or the judge's.

    Negative and unknown rewards count as 0. A format without weights writes a sample of reward 0.5
    with probability one half.
    """
    return np.maximum(np.nan_to_num(view.reward, nan=0.0), 0.0)


def recency(power: float = 2.0) -> Weighting:
    """Return the weighting by recency: `i ** power` for samples of the i-th oldest iteration.

    Raises:
        InvalidInputError: The power is not a number of at least 0.
    """
    return functools.partial(_recency, power=_check_power(power))


def balanced(by: Balance) -> Weighting:
    """Return the weighting that gives all tasks (or sites, ...) the same total weight.

    By "episode", long episodes count no more than short ones.

    Raises:
        InvalidInputError: `by` is unknown.
    """
    known = ("task", "site", "level", "outcome", "iteration", "episode")
    if by not in known:
        raise errors.InvalidInputError(
            f"balanced({by!r:.100}): expected one of {', '.join(known)}."
        )
    return functools.partial(_balance, by=by)


def lifted(by: Balance, *, most: float = 8.0) -> Weighting:
    """Return the weighting that raises the weight of rare tasks (or sites, ...) and lowers none.

    A sample's weight is the average number of samples per task divided by that of its own task, at
    least 1 and at most `most`.

    Raises:
        InvalidInputError: `by` is unknown, or `most` is below 1.
    """
    balanced(by)
    if not 1.0 <= most < math.inf:
        raise errors.InvalidInputError(
            f"lifted(most={most!r:.100}): expected a number of at least 1."
        )
    return functools.partial(_lift, by=by, most=float(most))


def advantage(*, positive_only: bool = True, scale: float | None = None) -> Weighting:
    """Return the weighting by the reward minus the mean of the group.

    Samples without an advantage have weight 0.

    Args:
        positive_only: Whether samples below their group's mean have weight 0. Otherwise the weight
            is the absolute advantage.
        scale: If given, the weight is `exp(advantage / scale)`, as in advantage-weighted
            regression.

    Raises:
        InvalidInputError: The scale is not a number above 0.
    """
    if scale is not None and not 0.0 < scale < math.inf:
        raise errors.InvalidInputError(
            f"advantage(scale={scale!r:.100}): expected a number above 0."
        )
    return functools.partial(_advantage, positive_only=positive_only, scale=scale)


def product(*weightings: Weighting) -> Weighting:
    """Return the product of weightings."""

    def weigh(view: View) -> NDArray[np.float64]:
        total = np.ones(len(view))
        for weighting in weightings:
            total = total * check(weighting, view)
        return total

    return weigh


def check(weighting: Weighting, view: View) -> NDArray[np.float64]:
    """Return the validated weights of a weighting.

    Raises:
        InvalidInputError: The weights are not one finite number of at least 0 per sample.
    """
    try:
        weights = np.asarray(weighting(view), np.float64)
    except (TypeError, ValueError) as error:
        raise errors.InvalidInputError(
            f"A weighting gave values that are not numbers: {error}."
        ) from error
    if weights.shape != (len(view),):
        raise errors.InvalidInputError(
            f"A weighting gave an array of shape {weights.shape}; expected ({len(view)},): one "
            "weight per sample."
        )
    if not np.all(np.isfinite(weights) & (weights >= 0.0)):
        raise errors.InvalidInputError(
            "A weighting gave negative or non-finite weights; expected at least 0."
        )
    return weights


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Return the effective sample size: (sum w)^2 / sum w^2.

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


def _recency(view: View, power: float) -> NDArray[np.float64]:
    ages = 1.0 + np.searchsorted(np.asarray(view.iterations), view.iteration)
    return np.asarray(ages**power, np.float64)


def _balance(view: View, by: Balance) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(getattr(view, by), return_inverse=True, return_counts=True)
    return 1.0 / counts[inverse.reshape(-1)]


def _lift(view: View, by: Balance, most: float) -> NDArray[np.float64]:
    shares = _balance(view, by)
    if not len(shares):
        return shares
    average = len(shares) / len(np.unique(getattr(view, by)))
    return np.clip(average * shares, 1.0, most)


def _advantage(view: View, positive_only: bool, scale: float | None) -> NDArray[np.float64]:
    known = np.isfinite(view.advantage)
    values = np.where(known, view.advantage, 0.0)
    if scale is not None:
        return np.where(known, np.exp(values / scale), 0.0)
    return np.maximum(values, 0.0) if positive_only else np.abs(values)


def _check_power(power: float) -> float:
    if isinstance(power, bool) or not 0.0 <= power < math.inf:
        raise errors.InvalidInputError(
            f"The power of recency is {power!r:.100}; expected a number of at least 0."
        )
    return float(power)


# Weighted drawing: seeded, and the same on every machine.
#
# Each sample's random number follows from the seed and the sample's origin, not from its position.
# So a draw without replacement from a grown buffer differs from the old one only where new samples
# displace old ones.

_Floats = NDArray[np.float64]


def draw(
    weights: _Floats, keys: NDArray[np.uint64], count: int, *, seed: int, replacement: bool
) -> NDArray[np.int64]:
    """Return the drawn indices in order. Weight 0 is never drawn.

    Args:
        weights: Weights of at least 0.
        keys: A stable key for each sample.
        count: The number to draw. Without replacement, at most the number of keys.
        seed: Seed of the draw.
        replacement: Whether an index may be drawn several times.

    Raises:
        InvalidInputError: The count is negative, or there is nothing to draw from.
    """
    if isinstance(count, bool) or count < 0:
        raise errors.InvalidInputError(f"num_samples is {count!r:.100}; expected at least 0.")
    if count == 0:
        return np.zeros(0, np.int64)
    if not len(weights) or weights.max() <= 0.0:
        raise errors.InvalidInputError(
            "There is nothing to draw from: no sample has a weight above 0. The buffer's report "
            "lists what was left out, and why."
        )
    if replacement:
        sums = np.cumsum(weights / weights.max())
        points = _uniform(np.arange(count, dtype=np.uint64), seed) * sums[-1]
        found = np.searchsorted(sums, points, side="right")
        last = int(np.flatnonzero(weights)[-1])
        return np.sort(np.minimum(found, last)).astype(np.int64)
    # Efraimidis and Spirakis: the smallest exponential times, each at the rate of its weight,
    # compared by their logarithms, which do not overflow.
    possible = np.flatnonzero(weights > 0.0)
    times = np.log(-np.log(_uniform(keys[possible], seed))) - np.log(weights[possible])
    if count < len(possible):
        possible = possible[np.lexsort((keys[possible], times))[:count]]
    return np.sort(possible).astype(np.int64)


def quotas(shares: _Floats, sizes: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
    """Return how many to draw from each part to meet their shares as closely as possible.

    Args:
        shares: The total weight of each part.
        sizes: The size of each part. If a part is too small, the others get the rest in proportion
            to their shares. None with replacement.
        count: The total number.

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


def rank(groups: NDArray[np.int64], keys: NDArray[np.uint64], *, seed: int) -> NDArray[np.int64]:
    """Return each item's rank within its group, from 0, in a seeded random order.

    The order of two items does not depend on the other items.
    """
    luck = mix(keys, seed)
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
    """Return numbers above 0 and below 1."""
    numbers = mix(mix(keys, seed), seed + 1) >> np.uint64(11)
    return (numbers.astype(np.float64) + 0.5) * math.ldexp(1.0, -53)
