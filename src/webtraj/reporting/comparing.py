"""Compare two points: the differences of their rates, and whether chance can explain them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj.rates import (
    Rate,
    difference_interval,
    mcnemar_p,
    paired_difference_interval,
)
from webtraj.reporting.sources import Point

__all__ = ["Comparison", "Difference", "Pairs", "compare"]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """The rate of the second point minus the rate of the first."""

    name: str
    first: Rate
    second: Rate

    @property
    def value(self) -> float | None:
        """The difference, from -1 to 1; None if either rate is unknown."""
        before, after = self.first.value, self.second.value
        return None if before is None or after is None else after - before

    @property
    def interval(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval for independent episodes."""
        return difference_interval(_counts(self.first), _counts(self.second))

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        ends = self.interval
        return ends is not None and (ends[0] > 0 or ends[1] < 0)

    def to_data(self) -> dict[str, Any]:
        """Return the difference as JSON data."""
        low, high = self.interval or (None, None)
        return {
            "name": self.name,
            "first": self.first.to_data(),
            "second": self.second.to_data(),
            "difference": self.value,
            "low": low,
            "high": high,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of episodes with the same task and seed in both points."""

    both: int
    """Pairs in which both succeeded."""
    first_only: int
    """Pairs in which only the first succeeded."""
    second_only: int
    """Pairs in which only the second succeeded."""
    neither: int
    """Pairs in which neither succeeded."""
    gained: Mapping[str, int]
    """Pairs in which only the second succeeded, by task."""
    lost: Mapping[str, int]
    """Pairs in which only the first succeeded, by task."""

    @property
    def number(self) -> int:
        """The number of pairs."""
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def value(self) -> float:
        """The second's success rate minus the first's."""
        return (self.second_only - self.first_only) / self.number

    @property
    def interval(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval for pairs."""
        return paired_difference_interval(
            self.both, self.first_only, self.second_only, self.neither
        )

    @property
    def p(self) -> float:
        """The p-value of McNemar's exact test."""
        return mcnemar_p(self.first_only, self.second_only)

    def to_data(self) -> dict[str, Any]:
        """Return the pairs as JSON data."""
        low, high = self.interval or (None, None)
        numbers = {"difference": self.value, "low": low, "high": high, "p": self.p}
        return {**dataclasses.asdict(self), "pairs": self.number, **numbers}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two points."""

    first_name: str
    second_name: str
    first: Point
    second: Point
    rates: tuple[Difference, ...]
    """The differences over all episodes: success, crashed, blocked."""
    groups: Mapping[str, tuple[Difference, ...]]
    """The success rates of shared groups, by grouping; the largest differences first."""
    pairs: Pairs | None
    """The pairs; None if the points share no task and seed."""

    def to_data(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        return {
            "first": self.first_name,
            "second": self.second_name,
            "rates": [difference.to_data() for difference in self.rates],
            "groups": {
                by: [difference.to_data() for difference in found]
                for by, found in self.groups.items()
            },
            "pairs": None if self.pairs is None else self.pairs.to_data(),
        }


def compare(first_name: str, first: Point, second_name: str, second: Point) -> Comparison:
    """Compare the second point with the first."""
    one, other = first.report.overall, second.report.overall
    rates = (
        Difference("success rate", one.success_rate, other.success_rate),
        Difference("crashed rate", one.crashed_rate, other.crashed_rate),
        Difference("blocked rate", one.blocked_rate, other.blocked_rate),
    )
    return Comparison(
        first_name=first_name,
        second_name=second_name,
        first=first,
        second=second,
        rates=rates,
        groups={by: _groups(first, second, by) for by in first.report.by if by != "site"},
        pairs=_pairs(first.graded, second.graded),
    )


def _groups(first: Point, second: Point, by: str) -> tuple[Difference, ...]:
    before, after = first.report.by[by], second.report.by.get(by, {})
    found = [
        Difference(name, metrics.success_rate, after[name].success_rate)
        for name, metrics in before.items()
        if name in after
    ]
    known = [difference for difference in found if difference.value is not None]
    return tuple(sorted(known, key=lambda difference: -abs(difference.value or 0.0)))


def _pairs(first: Mapping[Any, bool], second: Mapping[Any, bool]) -> Pairs | None:
    shared = [key for key in first if key in second]
    if not shared:
        return None
    counts = collections.Counter((first[key], second[key]) for key in shared)
    gained = collections.Counter(key[0] for key in shared if second[key] and not first[key])
    lost = collections.Counter(key[0] for key in shared if first[key] and not second[key])
    return Pairs(
        both=counts[True, True],
        first_only=counts[True, False],
        second_only=counts[False, True],
        neither=counts[False, False],
        gained=dict(gained.most_common()),
        lost=dict(lost.most_common()),
    )


def _counts(rate: Rate) -> tuple[int, int]:
    return rate.numerator, rate.denominator
