"""Deadlines: a call that takes too long ends the episode in an error, never in a reward.

`DeadlineEnvironment` goes inside the recording wrapper, so that the record shows a timeout and not
a cancellation.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from webtraj import errors
from webtraj.environments import base as environment_lib

__all__ = ["Deadline", "DeadlineEnvironment", "Deadlines"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Time limits in seconds; None for no limit."""

    step: float | None = None
    """Limit of one `reset`, one `step`, or one decision of the agent."""
    episode: float | None = None
    """Limit of one try at an episode."""
    run: float | None = None
    """Limit of the whole rollout. Open episodes are then recorded as cancelled, and played again
    when the rollout is resumed."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            seconds = getattr(self, field.name)
            if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
                raise errors.InvalidInputError(
                    f"The deadline {field.name!r} must be more than 0 s; got {seconds!r}."
                )


class Deadline:
    """Tracks the time limits of one running episode."""

    def __init__(
        self, deadlines: Deadlines, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._step = deadlines.step
        self._episode = deadlines.episode
        self._clock = clock
        self._end = None if deadlines.episode is None else clock() + deadlines.episode

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


class DeadlineEnvironment:
    """An environment whose `reset` and `step` have time limits.

    Other attributes come from the inner environment.
    """

    def __init__(self, environment: environment_lib.Environment) -> None:
        self._environment = environment
        self.deadline: Deadline | None = None
        """Deadline of the current episode; None for no limits."""

    @property
    def environment_name(self) -> str:
        """The inner environment's name, for the record."""
        name = getattr(self._environment, "environment_name", "")
        return name or type(self._environment).__name__

    async def reset(self) -> Any:
        """Reset the environment under the time limits."""
        return await self._within("reset", self._environment.reset())

    async def step(self, action: Any) -> Any:
        """Take a step under the time limits."""
        return await self._within("step", self._environment.step(action))

    async def _within(self, what: str, call: Coroutine[Any, Any, _T]) -> _T:
        return await (call if self.deadline is None else self.deadline.within(what, call))

    async def __aenter__(self) -> DeadlineEnvironment:
        if hasattr(self._environment, "__aenter__"):
            await self._environment.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        if hasattr(self._environment, "__aexit__"):
            await self._environment.__aexit__(*exc_info)
        else:
            await self._environment.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._environment, name)
