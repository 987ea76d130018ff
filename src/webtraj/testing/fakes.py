"""Small environments without a browser, for tests.

`Catch` and `CatchEnvironment` are a well-behaved game, synchronous and asynchronous.
`ScriptedEnvironment` follows a script, faults included. `AresEnvironment` breaks the contract the
way ARES environments do.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import dm_env
import numpy as np
from dm_env import specs

from webtraj import errors
from webtraj.environments.base import Environment

__all__ = [
    "AresEnvironment",
    "AresTimeStep",
    "Call",
    "Catch",
    "CatchEnvironment",
    "HANG",
    "Hang",
    "ScriptedEnvironment",
]

# One small, well-behaved game, synchronous and asynchronous.


class Catch(dm_env.Environment):  # type: ignore[misc]  # dm_env has no types.
    """A ball falls and a paddle moves left, stays or moves right: dm_env's own example.

    Observations are float boards of shape (rows, columns) with 1 at the ball and the paddle. The
    reward is 1 for a catch, -1 for a miss, 0 before. An episode terminates after `rows - 1` steps.

    Args:
        rows: Height of the board, at least 2.
        columns: Width of the board, at least 1.
        seed: Seed for the columns that balls fall in.
    """

    def __init__(self, rows: int = 5, columns: int = 3, seed: int = 0) -> None:
        self._shape = (rows, columns)
        self._random = np.random.default_rng(seed)
        self._ball = self._paddle = (0, 0)
        self._over = True
        self.closed = False

    def reset(self) -> dm_env.TimeStep:
        """See `dm_env.Environment.reset`."""
        rows, columns = self._shape
        self._ball = (0, int(self._random.integers(columns)))
        self._paddle = (rows - 1, columns // 2)
        self._over = False
        self.closed = False
        return dm_env.restart(self._board())

    def step(self, action: Any) -> dm_env.TimeStep:
        """See `dm_env.Environment.step`; 0, 1 and 2 move the paddle left, not at all and right.

        Raises:
            ValueError: The action is none of these.
        """
        if self._over:
            return self.reset()
        direction = int(self.action_spec().validate(action)) - 1
        row, column = self._paddle
        self._paddle = (row, int(np.clip(column + direction, 0, self._shape[1] - 1)))
        self._ball = (self._ball[0] + 1, self._ball[1])
        if self._ball[0] < row:
            return dm_env.transition(reward=0.0, observation=self._board())
        self._over = True
        caught = self._ball == self._paddle
        return dm_env.termination(reward=1.0 if caught else -1.0, observation=self._board())

    def observation_spec(self) -> specs.BoundedArray:
        """See `dm_env.Environment.observation_spec`."""
        return specs.BoundedArray(self._shape, float, minimum=0.0, maximum=1.0, name="board")

    def action_spec(self) -> specs.DiscreteArray:
        """See `dm_env.Environment.action_spec`."""
        return specs.DiscreteArray(3, dtype=int, name="direction")

    def close(self) -> None:
        """Set `closed`."""
        self._over = True
        self.closed = True

    def _board(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        board = np.zeros(self._shape)
        board[self._ball] = board[self._paddle] = 1.0
        return board


class CatchEnvironment(Environment):
    """`Catch` as an asynchronous environment, which yields to other tasks at every call.

    >>> import asyncio
    >>> async def play() -> float:
    ...     async with CatchEnvironment() as env:
    ...         timestep = await env.reset()
    ...         while not timestep.last():
    ...             timestep = await env.step(1)
    ...         return timestep.reward
    >>> asyncio.run(play()) in (-1.0, 1.0)
    True

    Args:
        rows: Height of the board, at least 2.
        columns: Width of the board, at least 1.
        seed: Seed for the columns that balls fall in.
    """

    def __init__(self, rows: int = 5, columns: int = 3, seed: int = 0) -> None:
        self._game = Catch(rows, columns, seed)
        self.closed = False

    async def reset(self) -> dm_env.TimeStep:
        """See `webtraj.Environment.reset`."""
        await asyncio.sleep(0)
        self.closed = False
        return self._game.reset()

    async def step(self, action: Any) -> dm_env.TimeStep:
        """See `Catch.step`."""
        await asyncio.sleep(0)
        return self._game.step(action)

    async def close(self) -> None:
        """Set `closed`."""
        await asyncio.sleep(0)
        self._game.close()
        self.closed = True

    def observation_spec(self) -> specs.BoundedArray:
        """See `Catch.observation_spec`."""
        return self._game.observation_spec()

    def action_spec(self) -> specs.DiscreteArray:
        """See `Catch.action_spec`."""
        return self._game.action_spec()

    def reward_spec(self) -> specs.Array:
        """See `Catch.reward_spec`."""
        return self._game.reward_spec()

    def discount_spec(self) -> specs.BoundedArray:
        """See `Catch.discount_spec`."""
        return self._game.discount_spec()


# An environment that follows a script, faults included.


@dataclasses.dataclass(frozen=True, slots=True)
class Hang:
    """A script entry that makes a call hang until it is cancelled."""


HANG = Hang()
"""A shared `Hang`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call that a `ScriptedEnvironment` received."""

    method: Literal["reset", "step", "close"]
    action: Any = None
    """The action given to `step`."""


_SCRIPT_AT_END = (
    "{method} was called after the script's {count} entries were used up; expected an entry for "
    "each call of reset or step. Add an entry, or pass cycle=True."
)


class ScriptedEnvironment(Environment):
    """An environment that plays a script: each call of `reset` or `step` plays the next entry.

    It does not enforce the contract, so tests can break it.

    Args:
        script: The entries, in order: a timestep is returned, an exception is raised, and `HANG`
            waits until the call is cancelled.
        cycle: Whether the script restarts at `reset`, and at `step` after its end.
        close_error: The exception that every `close` raises; None lets it succeed.
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
        """Play the next entry, or the first one with `cycle`."""
        self.calls.append(Call("reset"))
        if self._cycle:
            self._entries = self._begin()
        return await self._play("reset")

    async def step(self, action: Any) -> Any:
        """Play the next entry."""
        self.calls.append(Call("step", action))
        return await self._play("step")

    async def close(self) -> None:
        """Raise the `close_error`, if there is one."""
        self.calls.append(Call("close"))
        if self._close_error is not None:
            raise self._close_error

    def observation_spec(self) -> Any:
        """Return the given spec."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Return the given spec."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Return dm_env's default."""
        return specs.Array((), float, name="reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Return dm_env's default."""
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


# An environment that breaks the contract the way ARES's environments do.


class AresTimeStep(NamedTuple):
    """ARES's own timestep: the same fields as dm_env's, with the step type as a string."""

    step_type: Literal["FIRST", "MID", "LAST"]
    reward: float | None
    discount: float | None
    observation: Any

    def first(self) -> bool:
        """Whether the step begins its episode."""
        return self.step_type == "FIRST"

    def mid(self) -> bool:
        """Whether the step is neither the first nor the last."""
        return self.step_type == "MID"

    def last(self) -> bool:
        """Whether the step ends its episode."""
        return self.step_type == "LAST"


class AresEnvironment(Environment):
    """An environment in the style of ARES, which breaks dm_env's rules in four ways.

    Step types are strings; FIRST has reward 0.0 and discount 1.0; LAST has no observation; `step`
    on a fresh or finished environment raises. It has no specs.

    Args:
        length: Number of steps to LAST, at least 1.
        truncate: Whether LAST is a truncation, with discount 1.0, rather than a termination.
    """

    def __init__(self, length: int = 3, *, truncate: bool = False) -> None:
        self._length = length
        self._truncate = truncate
        self._taken: int | None = None

    async def reset(self) -> AresTimeStep:
        """Begin an episode."""
        await asyncio.sleep(0)
        self._taken = 0
        return AresTimeStep("FIRST", 0.0, 1.0, "question 0")

    async def step(self, action: Any) -> AresTimeStep:
        """Take any action.

        Raises:
            RuntimeError: No episode is open.
        """
        del action  # Unused.
        await asyncio.sleep(0)
        if self._taken is None:
            raise RuntimeError("reset() must be called before step().")
        self._taken += 1
        if self._taken < self._length:
            return AresTimeStep("MID", 0.0, 1.0, f"question {self._taken}")
        self._taken = None
        return AresTimeStep("LAST", 1.0, 1.0 if self._truncate else 0.0, None)
