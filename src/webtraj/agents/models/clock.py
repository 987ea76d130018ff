"""The time that model clients go by, and the chance: all that a test wants to hold in its hand."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock"]


class Clock(Protocol):
    """Tells the time, lets it pass, and rolls the dice."""

    def time(self) -> float:
        """Returns the seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Returns seconds that only ever grow."""

    async def sleep(self, seconds: float) -> None:
        """Returns after so many seconds."""

    def jitter(self) -> float:
        """Returns a random number of [0, 1), to keep clients from acting in step."""


class SystemClock:
    """The machine's own clock."""

    def time(self) -> float:
        """See `Clock`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        await asyncio.sleep(seconds)

    def jitter(self) -> float:
        """See `Clock`."""
        return random.random()


SYSTEM_CLOCK: Clock = SystemClock()
