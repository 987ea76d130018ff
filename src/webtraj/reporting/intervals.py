"""How much two rates differ, and how sure that is. Functions of numbers alone.

The intervals are Newcombe's, made of Wilson's intervals for the two rates. Unlike the textbook's
they stay within -1 and 1, and say something of 3 out of 3.
"""

from __future__ import annotations

import math

from webtraj import errors
from webtraj.rollouts.metrics.estimators import CONFIDENCE, wilson_interval

__all__ = ["difference_interval", "mcnemar_p", "paired_difference_interval"]


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
