"""Deadlines: a call that takes too long ends the episode in an error, never in a reward.

`GuardedEnvironment` goes inside the recording wrapper, so that the record shows a timeout and not
a cancellation.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from webtraj import errors
from webtraj.environments import base as environment_lib

__all__ = ["Deadline", "GuardedEnvironment", "NotMade"]

_CLOSING = 30.0
"""The most seconds for closing an environment."""
_CLOSING_AGAIN = 5.0
"""The most seconds for a second try, after the first was cancelled."""

_WITHIN_LIMITS = ("snapshot", "restore")

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Deadline:
    """Tracks the time limits of one running episode."""

    def __init__(
        self,
        *,
        step: float | None = None,
        episode: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start an episode's time.

        Args:
            step: Limit in seconds of one `reset`, one `step`, or one decision of the agent.
            episode: Limit in seconds of the episode.
            clock: Returns the time in seconds.
        """
        self._step = step
        self._episode = episode
        self._clock = clock
        self._end = None if episode is None else clock() + episode

    async def within(self, what: str, call: Coroutine[Any, Any, _T]) -> _T:
        """Await a call under the time limits.

        Raises:
            EpisodeTimeoutError: The call took too long and was cancelled.
        """
        left = None if self._end is None else self._end - self._clock()
        limits = [limit for limit in (self._step, left) if limit is not None]
        limit = min(limits, default=None)
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                return await call
        except TimeoutError as error:
            if not timeout.expired():
                raise  # A timeout inside the call, not ours.
            raise errors.EpisodeTimeoutError(self._message(what, limit, left)) from error

    def _message(self, what: str, limit: float | None, left: float | None) -> str:
        if limit == left:
            return f"The episode did not end within {self._episode:g} s; {what} was cancelled."
        return f"{what} took more than {self._step:g} s and was cancelled."


class GuardedEnvironment:
    """An environment whose faults end its episode, and not the rollout.

    * `reset`, `step`, `restore` and `close` have time limits. A call that hangs is abandoned.
    * A `CancelledError` that the environment raises by itself becomes an error. Otherwise it would
      look like a cancellation of the rollout.
    * An error of `set_seed` is raised by the next `reset`, so that it is on record.

    Other attributes come from the inner environment.
    """

    def __init__(self, environment: environment_lib.Environment) -> None:
        self._environment = environment
        self._unseeded: Exception | None = None
        self._hangs = False
        self._closing = _CLOSING
        self.deadline: Deadline | None = None
        """Deadline of the current episode; None for no limits."""

    @property
    def environment_name(self) -> str:
        """The inner environment's name, for the record."""
        name = getattr(self._environment, "environment_name", "")
        return name or type(self._environment).__name__

    async def reset(self) -> Any:
        """Reset the environment under the time limits."""
        unseeded, self._unseeded = self._unseeded, None
        if unseeded is not None:
            raise unseeded
        return await self._within("reset", self._environment.reset())

    async def step(self, action: Any) -> Any:
        """Take a step under the time limits."""
        return await self._within("step", self._environment.step(action))

    async def close(self) -> None:
        """Close the environment, or abandon it if that takes too long."""
        close = getattr(self._environment, "close", None)
        if close is not None:  # One that holds nothing needs none.
            await self._close_within(close)

    async def __aenter__(self) -> Self:
        if hasattr(self._environment, "__aenter__"):
            await self._environment.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        if hasattr(self._environment, "__aexit__"):
            await self._close_within(functools.partial(self._environment.__aexit__, *exc_info))
        else:
            await self.close()

    async def _call_within(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call an optional method of the environment, which may be plain or `async`."""
        result = function(*args)
        return await self._within(what, result) if inspect.iscoroutine(result) else result

    async def _within(self, what: str, call: Coroutine[Any, Any, _T]) -> _T:
        limited = call if self.deadline is None else self.deadline.within(what, call)
        return await _await_call(what, limited)

    async def _close_within(self, close: Callable[..., Coroutine[Any, Any, object]]) -> None:
        if self._hangs:
            return
        timeout = asyncio.timeout(self._closing)
        try:
            async with timeout:
                await _await_call("close", close())
        except TimeoutError:
            if not timeout.expired():
                raise
            self._hangs = True
            _logger.warning(
                "%s did not close within %g s; it is abandoned.",
                self.environment_name,
                self._closing,
            )
        except asyncio.CancelledError:
            self._closing = _CLOSING_AGAIN
            raise

    def _seed(self, set_seed: Callable[[int], object], seed: int) -> None:
        try:
            set_seed(seed)
        except Exception as error:
            self._unseeded = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._environment, name)
        if name in _WITHIN_LIMITS:
            return functools.partial(self._call_within, name, found)
        return functools.partial(self._seed, found) if name == "set_seed" else found


class NotMade:
    """Stands for an environment that could not be made: `reset` raises the error."""

    def __init__(self, error: Exception, name: str) -> None:
        self._error = error
        self.environment_name = name

    def set_seed(self, seed: int) -> None:
        """Do nothing. The seed is on record as the episode's."""

    async def reset(self) -> Any:
        """Raise the error."""
        raise self._error

    async def step(self, action: Any) -> Any:
        """Raise the error."""
        raise self._error


async def _await_call(what: str, call: Coroutine[Any, Any, _T]) -> _T:
    """Await a call. A `CancelledError` without a request to cancel becomes an error.

    Raises:
        RuntimeError: The call raised `CancelledError` by itself.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        return await call
    except asyncio.CancelledError as leaked:
        if task.cancelling() > before:
            raise
        raise RuntimeError(
            f"{what} raised CancelledError, though nobody cancelled it: something that it awaits "
            "was cancelled."
        ) from leaked
