"""How long it took in all: the time during which any episode was under way."""

from __future__ import annotations

import bisect
import math

__all__ = ["BusyTime"]

PAUSE = 60.0
"""Seconds between two episodes that still belong to the rollout. A longer pause does not: a run is
gone on with the next day, and a dataset has the runs of a month."""


class BusyTime:
    """Takes the spans of episodes in any order; keeps few, since those close together are one."""

    __slots__ = ("_ends", "_pause", "_starts")

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start: float, end: float) -> None:
        """Takes a span. One that ends before it begins, by a clock set back, has no length."""
        end = max(start, end)
        first = bisect.bisect_left(self._ends, start - self._pause)
        last = bisect.bisect_right(self._starts, end + self._pause)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    @property
    def seconds(self) -> float | None:
        """The length of all spans together; None if there were none."""
        if not self._starts:
            return None
        return math.fsum(self._ends) - math.fsum(self._starts)
