"""When a request to a model may start or be retried: clock, retries and rate limits."""

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

# The clients' source of time and randomness, which tests can replace.


class Clock(Protocol):
    """A source of time and randomness."""

    def time(self) -> float:
        """Return the seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds."""

    def jitter(self) -> float:
        """Return a random number in [0, 1), to keep clients from acting in step."""


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


# Retries: how often, and after what delay.

_MAX_DOUBLINGS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to retry a failed call that may recover. Delays double, with random jitter."""

    max_retries: int = 8
    """Retries after the first attempt. The default spans about 90 seconds: a server's restart."""
    first_delay: float = 0.5
    """The most seconds before the first retry; each later delay doubles."""
    max_delay: float = 30.0
    """The longest delay in seconds, unless the server asks for more."""

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.first_delay < 0 or self.max_delay < 0:
            raise errors.InvalidInputError(f"A retry policy takes no negative numbers; got {self}.")

    def delay(self, retries: int, asked: float | None, clock: Clock) -> float:
        """Return the seconds to wait.

        Args:
            retries: The number of retries so far.
            asked: The seconds that the server asked for, if any. The delay is at least that, and up
                to a tenth longer, so that clients do not all return at the same moment.
            clock: The source of jitter.
        """
        longest = min(self.max_delay, self.first_delay * 2.0 ** min(retries, _MAX_DOUBLINGS))
        delay = longest * (0.5 + clock.jitter() / 2)
        if asked is not None:
            delay = max(delay, asked * (1 + clock.jitter() / 10))
        return delay


def retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Return the seconds that a server asks to wait; None if it does not ask.

    It may use `retry-after-ms`, or `Retry-After` in seconds or as a date.
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


# Rate limits: requests in flight, and requests and tokens per minute.
#
# Calls get their turn in the order in which they asked. A call cancelled while waiting uses nothing
# up. At most one second's worth is saved up, so requests go out evenly rather than in a burst each
# minute.

_MINUTE = 60.0


class _Allowance:
    """An amount that refills over time. It may go into debt, which later calls wait for."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._whole_per_second = self._per_second = per_minute / _MINUTE
        self._most = max(1.0, self._per_second)
        self._clock = clock
        self._left = self._most
        self._counted_at = clock.monotonic()

    def seconds_until(self, amount: float) -> float:
        """Return the seconds to wait before spending an amount; 0 if it can be spent now.

        An amount larger than one second's refill can be spent once there is no debt.
        """
        self._grow()
        missing = min(amount, self._most) - self._left
        # Sleeps and sums of floats are not exact; a millionth short is enough.
        return missing / self._per_second if missing > 1e-6 * self._most else 0.0

    def set_share(self, share: float) -> None:
        """Use a share of the whole rate from now on. The saved amount shrinks in proportion."""
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
        """Spend an amount; a negative one is given back."""
        self._left = min(self._most, self._left - amount)


class Turn:
    """A call's permission to go to the server."""

    def __init__(self, tokens: _Allowance | None, estimate: float) -> None:
        self._tokens = tokens
        self._estimate = estimate

    def report_used(self, tokens: float | None) -> None:
        """Report the actual number of tokens, if known. Later calls wait for the difference."""
        if self._tokens is not None and tokens is not None:
            self._tokens.spend(tokens - self._estimate)
            self._estimate = tokens


class Limits:
    """Limits of one client, over all of its calls.

    Args:
        concurrency: The most requests in flight at once.
        requests_per_minute: The most requests started, including retries; None for no limit.
        tokens_per_minute: The most tokens sent and received; None for no limit. Before a call, its
            prompt is estimated; after it, the server's count replaces the estimate.
        clock: The clock.
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
                    f"{name} must be above 0, or None for no limit; got {value}."
                )
        self.counts_tokens = tokens_per_minute is not None
        self._slots = asyncio.Semaphore(concurrency)
        self._line = asyncio.Lock()
        self._clock = clock
        self._requests = _allowance(requests_per_minute, clock)
        self._tokens = _allowance(tokens_per_minute, clock)

    def set_share(self, share: float) -> None:
        """Use a share of the rates per minute from now on, as one of several clients.

        The number of requests in flight does not change.

        Raises:
            InvalidInputError: The share is not above 0 and at most 1.
        """
        if not 0 < share <= 1:
            raise errors.InvalidInputError(f"share must be above 0 and at most 1; got {share}.")
        for allowance in (self._requests, self._tokens):
            if allowance is not None:
                allowance.set_share(share)

    @contextlib.asynccontextmanager
    async def turn(self, tokens: float = 0) -> AsyncIterator[Turn]:
        """Wait for a turn, and hold one of the concurrent slots during it.

        Args:
            tokens: The estimated number of tokens.
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
