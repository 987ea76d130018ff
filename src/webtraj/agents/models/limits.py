"""When a request to a model may begin, and begin again: the clock, retries, limits."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import email.utils
import random
import time
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from webtraj import errors

__all__ = ["Clock", "Limits", "RetryPolicy", "SYSTEM_CLOCK", "SystemClock", "Turn", "retry_after"]

# The time that model clients go by, and the chance: all that a test wants to hold in its hand.


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


# When to ask again: how often, and how long to wait before.

_MAX_DOUBLINGS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that may heal is tried again: waits that double, and vary at random."""

    max_retries: int = 8
    """Attempts after the first. The default spans about a minute and a half: a server's restart."""
    first_delay: float = 0.5
    """Seconds before the first retry, at most; each further one waits twice as long."""
    max_delay: float = 30.0
    """Seconds that no wait exceeds, unless the server asks for more."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.first_delay < 0 or self.max_delay < 0:
            raise errors.InvalidInputError(f"A retry policy takes no negative numbers; got {self}.")

    def delay(self, retries: int, asked: float | None, clock: Clock) -> float:
        """Returns how many seconds to wait.

        Args:
            retries: How many retries there have been.
            asked: What the server asked for. It is waited for in full, and up to a tenth longer, so
                that not all clients come back in the same moment.
            clock: Gives the jitter.
        """
        longest = min(self.max_delay, self.first_delay * 2.0 ** min(retries, _MAX_DOUBLINGS))
        delay = longest * (0.5 + clock.jitter() / 2)
        if asked is not None:
            delay = max(delay, asked * (1 + clock.jitter() / 10))
        return delay


def retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Returns the seconds that a server asks to wait; None if it does not say.

    It may say so by `retry-after-ms`, or by `Retry-After` in seconds or as a date.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - clock.time())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


# How much is asked of a server at once and by the minute.
#
# Calls get their turn in the order in which they asked. One that is cancelled while it waits has
# used nothing up. Nothing is saved for later beyond a second's worth, so that requests go out
# evenly, not in a burst at the start of each minute.

_MINUTE = 60.0


class _Allowance:
    """Grows by the second, and is spent. It may go into debt, which later calls wait for."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._whole_per_second = self._per_second = per_minute / _MINUTE
        self._most = max(1.0, self._per_second)
        self._clock = clock
        self._left = self._most
        self._counted_at = clock.monotonic()

    def seconds_until(self, amount: float) -> float:
        """Returns how long to wait before so much may be spent; 0 if it may be now.

        More than a second's worth may be spent as soon as nothing is owed.
        """
        self._grow()
        missing = min(amount, self._most) - self._left
        # Sleeps and sums of floats are not exact; a millionth short is enough.
        return missing / self._per_second if missing > 1e-6 * self._most else 0.0

    def set_share(self, share: float) -> None:
        """Goes on with a part of the whole rate; what was saved up shrinks alike."""
        self._grow()
        per_second = self._whole_per_second * share
        if self._left > 0:
            self._left *= min(1.0, per_second / self._per_second)
        self._per_second = per_second
        self._most = max(1.0, per_second)

    def _grow(self) -> None:
        now = self._clock.monotonic()
        self._left = min(self._most, self._left + (now - self._counted_at) * self._per_second)
        self._counted_at = now

    def spend(self, amount: float) -> None:
        """Spends; a negative amount is given back."""
        self._left = min(self._most, self._left - amount)


class Turn:
    """A call's permission to go to the server."""

    def __init__(self, tokens: _Allowance | None, estimate: float) -> None:
        self._tokens = tokens
        self._estimate = estimate

    def used(self, tokens: float | None) -> None:
        """Says how many tokens it really was, if that is known. Later calls wait for the rest."""
        if self._tokens is not None and tokens is not None:
            self._tokens.spend(tokens - self._estimate)
            self._estimate = tokens


class Limits:
    """Limits of one client, over all of its calls.

    Args:
        concurrency: How many requests are under way at once.
        requests_per_minute: How many are begun; None for no limit. Retries count.
        tokens_per_minute: How many tokens go there and back; None for no limit. Before a call, its
            prompt is estimated; after it, what the server has counted takes the estimate's place.
        clock: The time to go by.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        for name, value in {
            "max_concurrency": concurrency,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }.items():
            if value is not None and not value > 0:
                raise errors.InvalidInputError(
                    f"{name} is {value}; give a number above 0, or None for no limit."
                )
        self.counts_tokens = tokens_per_minute is not None
        self._slots = asyncio.Semaphore(concurrency)
        self._line = asyncio.Lock()
        self._clock = clock
        self._requests = _allowance(requests_per_minute, clock)
        self._tokens = _allowance(tokens_per_minute, clock)

    def set_share(self, share: float) -> None:
        """Goes on with a part of what is allowed by the minute, for one of several who share it.

        How much is under way at once stays as it is.

        Raises:
            InvalidInputError: The share is not above 0 and up to 1.
        """
        if not 0 < share <= 1:
            raise errors.InvalidInputError(f"A share of a limit is above 0, up to 1; got {share}.")
        for allowance in (self._requests, self._tokens):
            if allowance is not None:
                allowance.set_share(share)

    @contextlib.asynccontextmanager
    async def turn(self, tokens: float = 0) -> AsyncIterator[Turn]:
        """Waits for a turn, and holds one of the concurrent places while it lasts.

        Args:
            tokens: How many tokens it will be, by estimate.
        """
        async with self._slots:
            if self._requests is not None or self._tokens is not None:
                await self._pay(tokens)
            yield Turn(self._tokens, tokens)

    async def _pay(self, tokens: float) -> None:
        costs = [
            (allowance, cost)
            for allowance, cost in ((self._requests, 1.0), (self._tokens, tokens))
            if allowance is not None
        ]
        async with self._line:
            while delay := max(allowance.seconds_until(cost) for allowance, cost in costs):
                await self._clock.sleep(delay)
            for allowance, cost in costs:
                allowance.spend(cost)


def _allowance(per_minute: float | None, clock: Clock) -> _Allowance | None:
    return None if per_minute is None else _Allowance(per_minute, clock)
