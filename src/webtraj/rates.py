"""Rates, ratios and spreads with their counts; intervals, pass@k, and how much two rates differ.

Functions of numbers alone. Intervals are Wilson's; those of differences are Newcombe's, made of
two of these. Unlike the textbook's they stay within -1 and 1, and say something of 3 out of 3.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

from webtraj import errors

__all__ = [
    "CONFIDENCE",
    "PassAtK",
    "Rate",
    "Ratio",
    "Spread",
    "SpreadTally",
    "difference_interval",
    "mcnemar_p",
    "mean_of_tasks",
    "paired_difference_interval",
    "pass_at_k",
    "wilson_interval",
]

# Each number keeps the counts that it follows from.
#
# A number that nothing is known about is None, never 0: a rate of nothing, the mean of none.

CONFIDENCE = 0.95
"""How sure intervals are, where nothing else is said."""


def wilson_interval(
    successes: int, trials: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Returns Wilson's score interval for a chance, given what came of independent trials.

    Unlike the textbook's `p ± z·sqrt(p(1-p)/n)` it stays within 0 and 1, and says something about
    3 successes out of 3. Attempts at one task are not quite independent, so that over many attempts
    at few tasks the truth is less certain than the interval.

    >>> [round(end, 3) for end in wilson_interval(8, 10)]
    [0.49, 0.943]
    >>> wilson_interval(0, 0) is None
    True

    Returns:
        The ends of the interval; None without trials.

    Raises:
        InvalidInputError: The counts are none, or `confidence` is not between 0 and 1.
    """
    if not 0 <= successes <= trials:
        raise errors.InvalidInputError(
            f"{successes} of {trials} is no count of successes; expected 0 up to all trials."
        )
    if not 0 < confidence < 1:
        raise errors.InvalidInputError(
            f"A confidence is between 0 and 1, such as 0.95; got {confidence}."
        )
    if not trials:
        return None
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    spread = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    # With no success, or no failure, an end is 0 or 1 exactly, whatever rounding made of it.
    low = 0.0 if successes == 0 else max(middle - spread / scale, 0.0)
    high = 1.0 if successes == trials else min(middle + spread / scale, 1.0)
    return low, high


def mean_of_tasks(rates: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Returns the mean of tasks' success rates, each counting the same, and its interval.

    The variance of each rate is that of Agresti and Coull, which does not vanish for a task that
    always succeeds; so the interval is rather too wide than too narrow.

    Args:
        rates: Of each task, successes and trials; a task without trials is left out.

    >>> mean_of_tasks([(10, 10), (5, 10)])["value"]
    0.75
    """
    known = [(successes, trials) for successes, trials in rates if trials]
    if not known:
        return {"value": None, "low": None, "high": None, "tasks": 0}
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    value = statistics.fmean(successes / trials for successes, trials in known)
    variance = 0.0
    for successes, trials in known:
        wider = trials + z * z
        share = (successes + z * z / 2) / wider
        variance += share * (1 - share) / wider
    spread = z * math.sqrt(variance) / len(known)
    return {
        "value": value,
        "low": max(value - spread, 0.0),
        "high": min(value + spread, 1.0),
        "tasks": len(known),
    }


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Returns the chance that at least one of `k` attempts is a success, without bias.

    Of all ways to draw k of the attempts that were made, it is the share that has a success in it:
    `1 - C(n - c, k) / C(n, k)` (Chen et al. 2021, Evaluating Large Language Models Trained on
    Code, eq. 1). `1 - (1 - c/n)^k` would be too low.

    >>> pass_at_k(4, 1, 2)
    0.5

    Raises:
        InvalidInputError: There are fewer attempts than `k`, or more successes than attempts.
    """
    if not 0 <= successes <= attempts or not 1 <= k <= attempts:
        raise errors.InvalidInputError(
            f"pass@{k} of {successes} successes in {attempts} attempts: expected k from 1 to the "
            "number of attempts, and no more successes than those."
        )
    # In whole numbers up to the one division: exact, however many attempts there are.
    draws = math.comb(attempts, k)
    return (draws - math.comb(attempts - successes, k)) / draws


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """The share of episodes for which something holds."""

    numerator: int = 0
    """The episodes for which it holds,"""
    denominator: int = 0
    """among these."""

    @property
    def value(self) -> float | None:
        """The share; None of no episodes."""
        return self.numerator / self.denominator if self.denominator else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of 95 % for the chance behind it; None of no episodes."""
        return wilson_interval(self.numerator, self.denominator)

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data, with what follows from the counts."""
        low, high = self.interval or (None, None)
        return {
            "value": self.value,
            "numerator": self.numerator,
            "denominator": self.denominator,
            "low": low,
            "high": high,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """So much of one thing for each of another: steps an episode, invalid actions an action.

    It has no interval: steps of one episode follow from each other.
    """

    numerator: float = 0
    denominator: float = 0

    @property
    def value(self) -> float | None:
        """The ratio; None if there is nothing to divide by."""
        return self.numerator / self.denominator if self.denominator else None

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data, with what follows from the counts."""
        return {
            "value": self.value,
            "numerator": self.numerator,
            "denominator": self.denominator,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How the values of one number are spread, such as the rewards of episodes."""

    count: int = 0
    """How many values there are."""
    mean: float | None = None
    std: float | None = None
    """The standard deviation of the sample; None of fewer than two values."""
    minimum: float | None = None
    maximum: float | None = None

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        return dataclasses.asdict(self)


class SpreadTally:
    """Takes values one by one and keeps none (Welford's method)."""

    __slots__ = ("_count", "_maximum", "_mean", "_minimum", "_squares")

    def __init__(self) -> None:
        self._count = 0
        self._mean = self._squares = 0.0
        self._minimum, self._maximum = math.inf, -math.inf

    def add(self, value: float) -> None:
        """Takes a value, which must be finite."""
        self._count += 1
        away = value - self._mean
        self._mean += away / self._count
        self._squares += away * (value - self._mean)
        self._minimum = min(self._minimum, value)
        self._maximum = max(self._maximum, value)

    def spread(self) -> Spread:
        """Returns how the values so far are spread."""
        if not self._count:
            return Spread()
        several = self._count > 1
        return Spread(
            count=self._count,
            mean=self._mean,
            std=math.sqrt(self._squares / (self._count - 1)) if several else None,
            minimum=self._minimum,
            maximum=self._maximum,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PassAtK:
    """The chance that one of k attempts at a task is a success, as the mean over tasks."""

    k: int
    total: float = 0.0
    """The sum of `estimators.pass_at_k` over the groups of attempts,"""
    groups: int = 0
    """which are so many, each of k attempts or more;"""
    left_out: int = 0
    """and so many groups had fewer attempts that were a success or a failure."""

    @property
    def value(self) -> float | None:
        """The mean; None if no group has enough attempts."""
        return self.total / self.groups if self.groups else None

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data, with what follows from the counts."""
        return {
            "value": self.value,
            "numerator": self.total,
            "denominator": self.groups,
            "left_out": self.left_out,
        }


# Two rates.


def difference_interval(
    first: tuple[int, int], second: tuple[int, int], *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Returns an interval for how much higher the second chance is than the first.

    Method 10 of Newcombe 1998, Interval estimation for the difference between independent
    proportions: comparison of eleven methods, Statistics in Medicine 17:873-890.

    >>> [round(end, 4) for end in difference_interval((48, 80), (56, 70))]
    [0.0524, 0.3339]

    Args:
        first: Successes and trials.
        second: Successes and trials, other ones.
        confidence: How sure the interval is.

    Returns:
        Its ends; None if either has no trials.

    Raises:
        InvalidInputError: The counts are none, or `confidence` is not between 0 and 1.
    """
    one, other = (wilson_interval(*counts, confidence=confidence) for counts in (first, second))
    if one is None or other is None:
        return None
    before, after = first[0] / first[1], second[0] / second[1]
    difference = after - before
    low = difference - math.hypot(after - other[0], one[1] - before)
    high = difference + math.hypot(other[1] - after, before - one[0])
    return max(low, -1.0), min(high, 1.0)


def paired_difference_interval(
    both: int, first_only: int, second_only: int, neither: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Returns the same of pairs: the same episodes, played by two.

    Method 10 of Newcombe 1998, Improved confidence intervals for the difference between binomial
    proportions based on paired data, Statistics in Medicine 17:2635-2650.

    Args:
        both: Pairs in which both are a success;
        first_only: only the first;
        second_only: only the second;
        neither: none.
        confidence: How sure the interval is.

    >>> [round(end, 4) for end in paired_difference_interval(20, 2, 12, 16)]
    [0.0562, 0.3292]

    Returns:
        Its ends; None without pairs.

    Raises:
        InvalidInputError: The counts are none, or `confidence` is not between 0 and 1.
    """
    counts = (both, first_only, second_only, neither)
    if min(counts) < 0:
        raise errors.InvalidInputError(f"{counts} are no counts of pairs; expected 0 or more.")
    pairs = sum(counts)
    one = wilson_interval(both + first_only, pairs, confidence=confidence)
    other = wilson_interval(both + second_only, pairs, confidence=confidence)
    if one is None or other is None:
        return None
    before, after = (both + first_only) / pairs, (both + second_only) / pairs
    alike = _correlation(both, first_only, second_only, neither)
    difference = after - before
    low = difference - _length(after - other[0], one[1] - before, alike)
    high = difference + _length(other[1] - after, before - one[0], alike)
    return max(low, -1.0), min(high, 1.0)


def mcnemar_p(first_only: int, second_only: int) -> float:
    """Returns how likely pairs differ so unevenly, or more, if neither is better: two-sided, exact.

    McNemar 1947, Note on the sampling error of the difference between correlated proportions or
    percentages, Psychometrika 12:153-157; by the binomial distribution itself.

    >>> mcnemar_p(0, 5), mcnemar_p(3, 3)
    (0.0625, 1.0)
    """
    changed = first_only + second_only
    tail: int = sum(math.comb(changed, k) for k in range(min(first_only, second_only) + 1))
    ways: int = 2**changed
    return min(2 * tail / ways, 1.0)


def _length(one: float, other: float, alike: float) -> float:
    return math.sqrt(max(one * one - 2 * alike * one * other + other * other, 0.0))


def _correlation(both: int, first_only: int, second_only: int, neither: int) -> float:
    """Returns how alike the two are, from -1 to 1, corrected for continuity as Newcombe does."""
    margins = (
        (both + first_only)
        * (second_only + neither)
        * (both + second_only)
        * (first_only + neither)
    )
    if not margins:
        return 0.0
    product = float(both * neither - first_only * second_only)
    if product > 0:
        product = max(product - (both + first_only + second_only + neither) / 2, 0.0)
    return product / math.sqrt(margins)
