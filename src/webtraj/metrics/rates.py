"""Rates, ratios and spreads with their counts; intervals, pass@k, pass^k, differences of rates.

`success_rate` is the one rule for what a success rate counts. Everything else is a pure
function of numbers. Intervals of rates are Wilson's; intervals of differences are Newcombe's, built
from two of Wilson's. Unlike the textbook's intervals, they stay within -1 and 1, and are useful for
3 successes of 3. Intervals of pass@k and pass^k are bootstrapped over tasks.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from webtraj import errors
from webtraj.trajectory import AGENT_FAILURES, Outcome

__all__ = [
    "CONFIDENCE",
    "GRADED",
    "PassRate",
    "Rate",
    "Ratio",
    "Spread",
    "SpreadTally",
    "bootstrap_interval",
    "bounds",
    "difference_interval",
    "mcnemar_p",
    "mean_of_tasks",
    "paired_difference_interval",
    "pass_at_k",
    "pass_hat_k",
    "success_rate",
    "wilson_interval",
]

# Each number keeps the counts it is computed from. A number that cannot be known is None, never 0:
# a rate of no episodes, the mean of no values.

CONFIDENCE = 0.95
"""The default confidence of intervals."""


def wilson_interval(
    successes: int, trials: int, *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return Wilson's score interval for a probability, from the counts of independent trials.

    Unlike the textbook's `p ± z·sqrt(p(1-p)/n)` it stays within 0 and 1, and is useful for 3
    successes of 3. Attempts at one task are not quite independent, so with many attempts at few
    tasks the uncertainty is larger than the interval.

    >>> [round(end, 3) for end in wilson_interval(8, 10)]
    [0.49, 0.943]
    >>> wilson_interval(0, 0) is None
    True

    Returns:
        The bounds; None without trials.

    Raises:
        InvalidInputError: A count is invalid, or `confidence` is not between 0 and 1.
    """
    if not 0 <= successes <= trials:
        raise errors.InvalidInputError(
            f"{successes} successes of {trials} trials: expected 0 up to the number of trials."
        )
    if not 0 < confidence < 1:
        raise errors.InvalidInputError(
            f"Invalid confidence {confidence}: expected a number between 0 and 1, such as 0.95."
        )
    if not trials:
        return None
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    spread = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    # With no success or no failure, a bound is exactly 0 or 1, whatever the rounding.
    low = 0.0 if successes == 0 else max(middle - spread / scale, 0.0)
    high = 1.0 if successes == trials else min(middle + spread / scale, 1.0)
    return low, high


def mean_of_tasks(rates: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the mean of tasks' success rates, each task weighted equally, and its interval.

    The variance of each rate is Agresti and Coull's. It is not 0 for a task that always succeeds,
    so the interval tends to be too wide rather than too narrow.

    Args:
        rates: Successes and trials of each task; tasks without trials are left out.

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


def bounds(interval: tuple[float, float] | None) -> dict[str, float | None]:
    """Return an interval as JSON data. Without an interval, both bounds are None."""
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Return the unbiased estimate of the probability that one of `k` attempts succeeds.

    It is the share of all ways to draw k of the attempts that include a success:
    `1 - C(n - c, k) / C(n, k)` (Chen et al. 2021, Evaluating Large Language Models Trained on
    Code, eq. 1). `1 - (1 - c/n)^k` would be too low.

    >>> pass_at_k(4, 1, 2)
    0.5

    Raises:
        InvalidInputError: There are fewer attempts than `k`, or more successes than attempts.
    """
    draws = _draws(attempts, successes, k, f"pass@{k}")
    return (draws - math.comb(attempts - successes, k)) / draws


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Return the unbiased estimate of the probability that all of `k` attempts succeed.

    It is the share of all ways to draw k of the attempts that are all successes:
    `C(c, k) / C(n, k)` (Yao et al. 2024, tau-bench). `(c/n)^k` would be too high.

    >>> pass_hat_k(4, 3, 2)
    0.5

    Raises:
        InvalidInputError: There are fewer attempts than `k`, or more successes than attempts.
    """
    draws = _draws(attempts, successes, k, f"pass^{k}")
    return math.comb(successes, k) / draws


def _draws(attempts: int, successes: int, k: int, name: str) -> int:
    """Return the number of ways to draw k attempts, as an integer to keep it exact."""
    if not 0 <= successes <= attempts or not 1 <= k <= attempts:
        raise errors.InvalidInputError(
            f"{name} of {successes} successes in {attempts} attempts: expected k from 1 to the "
            "number of attempts, and at most as many successes as attempts."
        )
    return math.comb(attempts, k)


_RESAMPLES = 2000
_SEED = 0


def bootstrap_interval(tasks: Iterable[tuple[float, int, int]]) -> tuple[float, float] | None:
    """Return the 95 % interval for a mean of shares, by a percentile bootstrap over tasks.

    All shares of a task are drawn together, so that many attempts at few tasks do not make the
    interval too narrow. The draws include two more tasks, one with only zeros and one with only
    ones. Without them, the interval of a few tasks misses the truth too often, and has no width if
    all tasks agree. The random seed is fixed: the same numbers give the same interval, in any
    order.

    >>> [round(end, 2) for end in bootstrap_interval([(1.0, 1, 10)])]
    [0.7, 1.0]

    Args:
        tasks: The sum of a task's shares, their number, and the number of such tasks.

    Returns:
        Its bounds; None for fewer than two tasks, which say nothing about others.
    """
    counts: collections.Counter[tuple[float, float]] = collections.Counter()
    for total, shares, number in tasks:
        counts[total, shares] += number
    known = counts.total()
    if known < 2:
        return None
    of_all = sum(shares * number for (_, shares), number in counts.items())
    value = math.fsum(total * number for (total, _), number in counts.items()) / of_all
    typical = of_all / known
    counts[0.0, typical] += 1
    counts[typical, typical] += 1
    ordered = sorted(counts.items())
    chances = np.array([number for _, number in ordered]) / (known + 2)
    drawn = np.random.default_rng(_SEED).multinomial(known, chances, size=_RESAMPLES)
    sums = drawn @ np.array([pair for pair, _ in ordered])
    beyond = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [beyond, 1 - beyond])
    return min(float(low), value), max(float(high), value)


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """The share of episodes for which something holds."""

    numerator: int = 0
    """The number of episodes for which it holds."""
    denominator: int = 0
    """The number of episodes in all."""

    @property
    def value(self) -> float | None:
        """The share; None if there are no episodes."""
        return self.numerator / self.denominator if self.denominator else None

    @property
    def counts(self) -> tuple[int, int]:
        """Both numbers."""
        return self.numerator, self.denominator

    @classmethod
    def total(cls, rates: Iterable[Self]) -> Self:
        """Return the rate over all episodes of several rates."""
        counts = [rate.counts for rate in rates]
        return cls(sum(made for made, _ in counts), sum(of for _, of in counts))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval for the underlying probability; None if there are no episodes."""
        return wilson_interval(*self.counts)

    def to_data(self) -> dict[str, Any]:
        """Return JSON data, with the values computed from the counts."""
        return {"value": self.value, **dataclasses.asdict(self), **bounds(self.interval)}


GRADED = (Outcome.SUCCESS, *AGENT_FAILURES)
"""The outcomes that success rates count. An agent's error is its failure; failures of browsers,
pages, servers and judges are not, and stand beside the rate."""


def success_rate(outcomes: Mapping[Outcome, int]) -> Rate:
    """Return the success rate from the number of episodes with each outcome.

    >>> success_rate({Outcome.SUCCESS: 2, Outcome.AGENT_ERROR: 1, Outcome.ENV_ERROR: 5})
    Rate(numerator=2, denominator=3)
    """
    return Rate(
        outcomes.get(Outcome.SUCCESS, 0), sum(outcomes.get(outcome, 0) for outcome in GRADED)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two totals, such as steps per episode or invalid actions per action.

    It has no interval: the steps of one episode are not independent.
    """

    numerator: float = 0
    denominator: float = 0

    @property
    def value(self) -> float | None:
        """The ratio; None if the denominator is 0."""
        return self.numerator / self.denominator if self.denominator else None

    def to_data(self) -> dict[str, Any]:
        """Return JSON data, with the value computed from the counts."""
        return {"value": self.value, **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of one number's values, such as the rewards of episodes."""

    count: int = 0
    """The number of values."""
    mean: float | None = None
    std: float | None = None
    """The standard deviation of the sample; None for fewer than two values."""
    minimum: float | None = None
    maximum: float | None = None

    def to_data(self) -> dict[str, Any]:
        """Return JSON data."""
        return dataclasses.asdict(self)


class SpreadTally:
    """Computes a spread from values added one by one, without keeping them (Welford's method)."""

    __slots__ = ("_count", "_maximum", "_mean", "_minimum", "_squares", "_total")

    def __init__(self) -> None:
        self._count = 0
        self._mean = self._squares = self._total = 0.0
        self._minimum, self._maximum = math.inf, -math.inf

    def add(self, value: float) -> None:
        """Add a finite value."""
        away = value - self._mean
        self._count += 1
        self._total += value  # Exact for whole numbers, as a mean that is moved is not.
        self._mean = self._total / self._count
        self._squares += away * (value - self._mean)
        self._minimum = min(self._minimum, value)
        self._maximum = max(self._maximum, value)

    def spread(self) -> Spread:
        """Return the spread of the values so far."""
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
class PassRate:
    """The probability that k attempts pass, averaged over groups of attempts: pass@k or pass^k.

    The attempts of a group have the same task, and the same seed if the plan has groups.
    """

    k: int
    tasks: tuple[tuple[float, int, int], ...] = ()
    """For each kind of task: the sum of its groups' probabilities, the number of groups with k
    attempts or more, and the number of such tasks."""
    left_out: int = 0
    """The number of groups with fewer attempts that were a success or a failure."""

    @property
    def total(self) -> float:
        """The sum of the groups' probabilities."""
        return math.fsum(total * number for total, _, number in self.tasks)

    @property
    def groups(self) -> int:
        """The number of groups with k attempts or more."""
        return sum(groups * number for _, groups, number in self.tasks)

    @property
    def num_tasks(self) -> int:
        """The number of tasks with such a group."""
        return sum(number for _, _, number in self.tasks)

    @property
    def value(self) -> float | None:
        """The mean; None if no group has enough attempts."""
        return self.total / self.groups if self.groups else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval by `bootstrap_interval`; None for fewer than two tasks."""
        return bootstrap_interval(self.tasks)

    def to_data(self) -> dict[str, Any]:
        """Return JSON data, with the values computed from the counts."""
        return {
            "value": self.value,
            "numerator": self.total,
            "denominator": self.groups,
            **bounds(self.interval),
            "tasks": self.num_tasks,
            "left_out": self.left_out,
        }


# Two rates.


def difference_interval(
    first: tuple[int, int], second: tuple[int, int], *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return an interval for the second probability minus the first.

    Method 10 of Newcombe 1998, Interval estimation for the difference between independent
    proportions: comparison of eleven methods, Statistics in Medicine 17:873-890.

    >>> [round(end, 4) for end in difference_interval((48, 80), (56, 70))]
    [0.0524, 0.3339]

    Args:
        first: Successes and trials.
        second: Successes and trials, independent of the first.
        confidence: The confidence of the interval.

    Returns:
        The bounds; None if either has no trials.

    Raises:
        InvalidInputError: A count is invalid, or `confidence` is not between 0 and 1.
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
    """Return an interval for the same difference, from pairs of attempts at the same episode.

    Method 10 of Newcombe 1998, Improved confidence intervals for the difference between binomial
    proportions based on paired data, Statistics in Medicine 17:2635-2650.

    Args:
        both: The number of pairs in which both succeed.
        first_only: The number in which only the first succeeds.
        second_only: The number in which only the second succeeds.
        neither: The number in which neither succeeds.
        confidence: The confidence of the interval.

    >>> [round(end, 4) for end in paired_difference_interval(20, 2, 12, 16)]
    [0.0562, 0.3292]

    Returns:
        The bounds; None without pairs.

    Raises:
        InvalidInputError: A count is negative, or `confidence` is not between 0 and 1.
    """
    counts = (both, first_only, second_only, neither)
    if min(counts) < 0:
        raise errors.InvalidInputError(f"Invalid counts of pairs {counts}: expected 0 or more.")
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
    """Return McNemar's exact, two-sided p-value for the pairs in which only one succeeds.

    McNemar 1947, Note on the sampling error of the difference between correlated proportions or
    percentages, Psychometrika 12:153-157; computed from the binomial distribution.

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
    """Return the correlation of the pairs, -1 to 1, with Newcombe's continuity correction."""
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
