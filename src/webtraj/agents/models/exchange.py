"""One call of a client: its turn, its attempts, its one deadline, and the record of how it went."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.clock import Clock
from webtraj.agents.models.failures import AttemptError
from webtraj.agents.models.limits import Limits, Turn
from webtraj.agents.models.retries import RetryPolicy

__all__ = ["Exchange", "Timing", "fail"]

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)

_PATIENCE = 3
"""Attempts of a call that may fail before anybody is told."""
_TOLD_EVERY = 30.0
"""Seconds in which a client tells no more than once that it is waiting: all its calls wait."""
_MOST_TOLD = 500
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclasses.dataclass(slots=True)
class Timing:
    """When a call was made, and how long it took. It begins with its first attempt's turn."""

    clock: Clock
    start_time: float = dataclasses.field(init=False)
    _start: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Lets the call begin now."""
        self.start_time = self.clock.time()
        self._start = self.clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self.clock.monotonic() - self._start


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """How a client makes its calls."""

    limits: Limits
    retries: RetryPolicy
    clock: Clock
    timeout: float | None
    """Seconds for a call that does not bring its own; None for no limit."""
    attempt_timeout: float | None
    """Seconds for each attempt; None for no limit but the call's."""
    notices: Notices = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notices", Notices(self.clock))

    async def call(
        self,
        attempt: Callable[[Turn], Awaitable[_T]],
        timing: Timing,
        *,
        timeout: float | None,
        tokens: float,
    ) -> _T:
        """Makes attempts until one succeeds.

        While it waits between attempts, it leaves its place to other calls.

        Args:
            attempt: Makes one attempt. Raises `AttemptError`.
            timing: Begins when the first attempt has its turn.
            timeout: Seconds for all of it, instead of the client's own.
            tokens: An estimate of what an attempt takes, for the limit.

        Raises:
            AttemptError: No attempt can help, or there is no time or retry left.
        """
        seconds = self.timeout if timeout is None else timeout
        progress = _Progress()
        deadline = None if seconds is None else self.clock.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds) as whole:
                return await self._attempts(attempt, timing, tokens, deadline, progress)
        except TimeoutError:
            # Those of single attempts have become failures.
            assert whole.expired()
            raise _too_late(seconds, progress) from progress.failure

    async def _attempts(
        self,
        attempt: Callable[[Turn], Awaitable[_T]],
        timing: Timing,
        tokens: float,
        deadline: float | None,
        progress: _Progress,
    ) -> _T:
        while True:
            try:
                async with self.limits.turn(tokens) as turn:
                    if progress.attempts == 0:
                        timing.begin()
                    progress.attempts += 1
                    return await self._attempt(attempt, turn)
            except AttemptError as failure:
                if not failure.may_heal:
                    raise
                progress.failure = failure
            await self._pause(progress, deadline)

    async def _attempt(self, attempt: Callable[[Turn], Awaitable[_T]], turn: Turn) -> _T:
        if self.attempt_timeout is None:
            return await attempt(turn)
        try:
            async with asyncio.timeout(self.attempt_timeout) as limit:
                return await attempt(turn)
        except TimeoutError:
            if not limit.expired():
                raise
            raise AttemptError(
                f"The model server did not answer within {self.attempt_timeout:g} s, the limit of "
                "one attempt (attempt_timeout)."
            ) from None

    async def _pause(self, progress: _Progress, deadline: float | None) -> None:
        """Waits before the next attempt.

        Raises:
            AttemptError: There is to be none.
        """
        failure = progress.failure
        assert failure is not None
        if progress.attempts > self.retries.max_retries:
            raise _given_up(failure, f"Given up after {progress.attempts} attempts.")
        delay = self.retries.delay(progress.attempts - 1, failure.retry_after, self.clock)
        if deadline is not None and self.clock.monotonic() + delay >= deadline:
            why = f"Given up: the next attempt is due in {delay:.1f} s, after the call's deadline."
            raise _given_up(failure, why)
        if progress.attempts >= _PATIENCE:
            most = self.retries.max_retries + 1
            self.notices.waiting(failure, delay, f"{progress.attempts} of {most} attempts")
        await self.clock.sleep(delay)


@dataclasses.dataclass(slots=True)
class Notices:
    """Tells whoever watches that calls wait for the server: a rollout seems to stand still then."""

    clock: Clock
    _last: float = float("-inf")

    def waiting(self, failure: AttemptError, delay: float, tried: str) -> None:
        """Logs why a call waits, unless that was told just now."""
        now = self.clock.monotonic()
        if now - self._last < _TOLD_EVERY:
            return
        self._last = now
        said = _CONTROLS.sub("?", str(failure)[:_MOST_TOLD])  # It may end up on a terminal.
        _logger.warning("%s Trying again in %.0f s (%s failed).", said, delay, tried)


@dataclasses.dataclass(slots=True)
class _Progress:
    """How far the attempts of a call have got."""

    attempts: int = 0
    failure: AttemptError | None = None


def _given_up(failure: AttemptError, why: str) -> AttemptError:
    last = AttemptError(
        f"{failure} {why}", retry_after=failure.retry_after, response=failure.response
    )
    last.__cause__ = failure.__cause__
    return last


def _too_late(seconds: float | None, progress: _Progress) -> AttemptError:
    failure = progress.failure
    if failure is not None:
        before = f"The failure before it: {failure}"
    elif progress.attempts:
        before = "The server had the request, and has not answered. Give it more time."
    else:
        before = "It never got its turn: other calls had all places. Allow more, or more time."
    message = f"No reply within {seconds:g} s (timeout), in attempt {progress.attempts}. {before}"
    return AttemptError(message, response=failure.response if failure else None)


def fail(
    failure: AttemptError, call: trajectory_lib.ModelCall, timing: Timing
) -> errors.ModelError:
    """Returns the error of a call that failed, with the call on record."""
    message = str(failure)
    error = failure.error_class(message)
    error.call = dataclasses.replace(
        call,
        response=failure.response,
        error=message,
        start_time=timing.start_time,
        latency=timing.elapsed,
    )
    error.__cause__ = failure.__cause__
    return error
