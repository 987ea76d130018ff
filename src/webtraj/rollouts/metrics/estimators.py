"""What counts say about chances: confidence intervals, and pass@k. Functions of numbers alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from webtraj import errors

__all__ = ["CONFIDENCE", "mean_of_tasks", "pass_at_k", "wilson_interval"]

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
