"""Which weights answer: the version that a server tells, read around each call, but not for each.

vLLM tells the version of its weights by `GET /weight_info`, and no reply carries it. A record is to
say which weights its tokens came from, so the version is looked at before and after each call.
Reading it each time would triple the requests. So what was read is good for `interval` seconds, and
all calls share it:

* A change is noticed up to `interval` seconds late. A call within that time may be recorded with
  the version before it.
* With an interval of 0 nothing is shared but reads under way: each record is exact.
* Who changes the weights knows when: `invalidate` makes what was read worthless at once, `set` says
  what the version is, and ends all reading. Either makes records exact at no cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from webtraj.agents.models.clock import Clock
from webtraj.agents.models.failures import AttemptError

__all__ = ["WeightVersions", "span"]

_NEVER = float("-inf")
_UNKNOWN = "?"


class WeightVersions:
    """Knows the version of a server's weights.

    Args:
        read: Reads it from the server. Raises `AttemptError`.
        interval: Seconds that a version that was read is good for.
        clock: The time to go by.
    """

    def __init__(self, read: Callable[[], Awaitable[str]], interval: float, clock: Clock) -> None:
        self._read = read
        self._interval = interval
        self._clock = clock
        self._reading = asyncio.Lock()
        self._given: str | None = None
        self._version = ""
        self._read_at = _NEVER
        self._num_changes = 0
        self._untold = False

    def set(self, version: str | None) -> None:
        """Says what the version is from now on; None has it read from the server again."""
        self._given = version
        self.invalidate()

    def invalidate(self) -> None:
        """Says that the weights may have changed."""
        self._read_at = _NEVER
        self._num_changes += 1
        self._untold = False

    async def before_call(self) -> str:
        """Returns the version; empty if the server does not tell it.

        Raises:
            AttemptError: The server does not answer.
        """
        if self._given is not None or self._untold:
            return self._given or ""
        asked_at = self._clock.monotonic()
        if asked_at - self._read_at < self._interval:
            return self._version
        async with self._reading:
            # Somebody else may have read it since.
            while self._read_at < asked_at and not self._untold:
                await self._read_now()
        return self._version

    async def after_call(self) -> str:
        """Returns the version as `before_call` does; `?` if the server does not answer now."""
        try:
            return await self.before_call()
        except AttemptError:
            # The call itself has succeeded.
            return _UNKNOWN

    async def _read_now(self) -> None:
        began_at, num_changes = self._clock.monotonic(), self._num_changes
        try:
            version = await self._read()
        except AttemptError as failure:
            if failure.may_heal:
                raise
            version = ""
            self._untold = True
        if num_changes == self._num_changes:
            self._version, self._read_at = version, began_at


def span(before: str, after: str) -> str:
    """Returns what a record says: the version, or both if it changed during the call.

    >>> span("3", "3"), span("3", "4")
    ('3', '3..4')
    """
    return before if before == after else f"{before}..{after}"
