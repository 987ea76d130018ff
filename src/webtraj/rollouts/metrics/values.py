"""The numbers that metrics are made of. Each keeps the counts that it follows from.

A number that nothing is known about is None, never 0: a rate of nothing, the mean of none.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from webtraj.rollouts.metrics.estimators import wilson_interval

__all__ = ["PassAtK", "Rate", "Ratio", "Spread", "SpreadTally"]


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
