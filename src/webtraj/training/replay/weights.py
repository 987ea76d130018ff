"""Weightings: how likely each sample is to be drawn, or how much it counts.

A weighting is a function of a `View` that returns a number of at least 0 for each sample. They are
multiplied by `product`. Any function of yours is one, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.training.replay.columns import View

__all__ = [
    "Weighting",
    "advantage",
    "balanced",
    "by_reward",
    "checked",
    "effective_sample_size",
    "iteration_shares",
    "product",
    "recency",
    "uniform",
]

Weighting = Callable[[View], NDArray[Any]]
"""Returns a weight of at least 0 for each sample."""

Balance = Literal["task", "site", "level", "outcome", "iteration", "episode"]


def uniform(view: View) -> NDArray[np.float64]:
    """Gives all samples the same weight."""
    return np.ones(len(view))


def by_reward(view: View) -> NDArray[np.float64]:
    """Gives a sample what its episode was worth: 1 for a success, 0 for a failure.

    Rewards below 0, and those that are not known, count 0.
    """
    return np.maximum(np.nan_to_num(view.reward, nan=0.0), 0.0)


def recency(power: float = 2.0) -> Weighting:
    """Returns the weighting by the age of iterations: of the i-th oldest, i to a power.

    Ages go by the iterations that the buffer holds, not by the places of samples in a list.

    Raises:
        InvalidInputError: The power is no number of at least 0.
    """
    return functools.partial(_recency, power=_checked_power(power))


def balanced(by: Balance) -> Weighting:
    """Returns the weighting by which all tasks (or sites, ...) have the same weight in sum.

    By "episode" a long episode counts no more than a short one.

    Raises:
        InvalidInputError: There is nothing of that name to balance by.
    """
    known = ("task", "site", "level", "outcome", "iteration", "episode")
    if by not in known:
        raise errors.InvalidInputError(f"balanced({by!r}): expected one of {', '.join(known)}.")
    return functools.partial(_balanced, by=by)


def advantage(*, positive_only: bool = True, scale: float | None = None) -> Weighting:
    """Returns the weighting by the reward minus the mean of the group.

    Samples without an advantage, since nothing compares with their episode, count 0.

    Args:
        positive_only: Whether samples below their group's mean count 0; otherwise by how much
            they are off it, in either direction.
        scale: If given, the weight is `exp(advantage / scale)`, as advantage-weighted regression
            has it, for all samples that have one.

    Raises:
        InvalidInputError: The scale is no number above 0.
    """
    if scale is not None and not 0.0 < scale < math.inf:
        raise errors.InvalidInputError(f"advantage(scale={scale!r}): expected a number above 0.")
    return functools.partial(_advantage, positive_only=positive_only, scale=scale)


def product(*weightings: Weighting) -> Weighting:
    """Returns the weighting that multiplies those."""

    def weigh(view: View) -> NDArray[np.float64]:
        total = np.ones(len(view))
        for weighting in weightings:
            total = total * checked(weighting, view)
        return total

    return weigh


def checked(weighting: Weighting, view: View) -> NDArray[np.float64]:
    """Returns the weights that a weighting gives.

    Raises:
        InvalidInputError: They are not one finite number of at least 0 for each sample.
    """
    try:
        weights = np.asarray(weighting(view), np.float64)
    except (TypeError, ValueError) as error:
        raise errors.InvalidInputError(f"A weighting gave no numbers: {error}.") from error
    if weights.shape != (len(view),):
        raise errors.InvalidInputError(
            f"A weighting gave an array of shape {weights.shape}; expected ({len(view)},): a "
            "weight for each sample."
        )
    if not np.all(np.isfinite(weights) & (weights >= 0.0)):
        raise errors.InvalidInputError(
            "A weighting gave weights that are negative or no numbers; expected at least 0."
        )
    return weights


def iteration_shares(iterations: int, power: float) -> list[float]:
    """Returns which share of a draw each of several equal iterations has, the oldest first.

    >>> [round(100 * share) for share in iteration_shares(4, power=2)]
    [3, 13, 30, 53]
    """
    ages = np.arange(1, iterations + 1, dtype=np.float64) ** _checked_power(power)
    return [float(share) for share in ages / ages.sum()]


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Returns how many equally weighted samples would say as much: (sum w)^2 / sum w^2.

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


def _recency(view: View, power: float) -> NDArray[np.float64]:
    ages = 1.0 + np.searchsorted(np.asarray(view.iterations), view.iteration)
    return np.asarray(ages**power, np.float64)


def _balanced(view: View, by: Balance) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(getattr(view, by), return_inverse=True, return_counts=True)
    return 1.0 / counts[inverse.reshape(-1)]


def _advantage(view: View, positive_only: bool, scale: float | None) -> NDArray[np.float64]:
    known = np.isfinite(view.advantage)
    values = np.where(known, view.advantage, 0.0)
    if scale is not None:
        return np.where(known, np.exp(values / scale), 0.0)
    return np.maximum(values, 0.0) if positive_only else np.abs(values)


def _checked_power(power: float) -> float:
    if isinstance(power, bool) or not 0.0 <= power < math.inf:
        raise errors.InvalidInputError(
            f"The power of recency is {power!r}; expected a number of at least 0."
        )
    return float(power)
