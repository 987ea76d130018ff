"""An environment that does exactly what a test tells it to, faults included."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from dm_env import specs

from webtraj import errors
from webtraj.testing.fakes import async_base

__all__ = ["HANG", "Call", "Hang", "ScriptedEnvironment"]


@dataclasses.dataclass(frozen=True, slots=True)
class Hang:
    """In a script: a call that does not return until it is cancelled."""


HANG = Hang()
"""The one `Hang` that a script needs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call that a `ScriptedEnvironment` received."""

    method: Literal["reset", "step", "close"]
    action: Any = None
    """The action given to `step`."""


_SCRIPT_AT_END = (
    "The script of {count} entries is at its end, and {method} was called. Expected: an entry for "
    "each call of reset or step. Add the entry, or pass cycle=True."
)


class ScriptedEnvironment(async_base.AsyncBase):
    """Replays a script: each call of `reset` or `step` plays the next entry, whatever it is.

    It has no opinion on the contract, so that tests can break it.

    Args:
        script: What the calls do, in order. A timestep is returned, an exception is raised, `HANG`
            waits until the call is cancelled.
        cycle: Whether `reset` begins the script anew, and `step` after its end too.
        close_error: What every `close` raises; None lets it succeed.
        observation_spec: Spec of the observations; by default a float scalar.
        action_spec: Spec of the actions; by default three discrete ones.

    Attributes:
        calls: Every call so far, in order.
    """

    def __init__(
        self,
        script: Sequence[Any],
        *,
        cycle: bool = False,
        close_error: BaseException | None = None,
        observation_spec: Any = None,
        action_spec: Any = None,
    ) -> None:
        self._script = tuple(script)
        self._cycle = cycle
        self._entries = self._begin()
        self._close_error = close_error
        self._observation_spec = observation_spec or specs.Array((), float, name="observation")
        self._action_spec = action_spec or specs.DiscreteArray(3, dtype=int, name="action")
        self.calls: list[Call] = []

    async def reset(self) -> Any:
        """Plays the next entry; the first one, if the script is to cycle."""
        self.calls.append(Call("reset"))
        if self._cycle:
            self._entries = self._begin()
        return await self._play("reset")

    async def step(self, action: Any) -> Any:
        """Plays the next entry."""
        self.calls.append(Call("step", action))
        return await self._play("step")

    async def close(self) -> None:
        """Raises the `close_error`, if there is one."""
        self.calls.append(Call("close"))
        if self._close_error is not None:
            raise self._close_error

    def observation_spec(self) -> Any:
        """Returns the spec that was given."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the spec that was given."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Returns dm_env's default."""
        return specs.Array((), float, name="reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Returns dm_env's default."""
        return specs.BoundedArray((), float, minimum=0.0, maximum=1.0, name="discount")

    def _begin(self) -> Iterator[Any]:
        return itertools.cycle(self._script) if self._cycle else iter(self._script)

    async def _play(self, method: str) -> Any:
        entry = next(self._entries, _END)
        if entry is _END:
            raise errors.EnvironmentMisuseError(
                _SCRIPT_AT_END.format(count=len(self._script), method=method)
            )
        await asyncio.sleep(0)
        if isinstance(entry, Hang):
            await asyncio.get_running_loop().create_future()
        if isinstance(entry, BaseException) or (
            isinstance(entry, type) and issubclass(entry, BaseException)
        ):
            raise entry
        return entry


_END = object()
