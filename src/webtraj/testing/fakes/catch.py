"""One small, well-behaved game, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import dm_env
import numpy as np
from dm_env import specs

from webtraj.testing.fakes import async_base

__all__ = ["Catch", "CatchEnvironment"]


class Catch(dm_env.Environment):  # type: ignore[misc]  # dm_env has no types.
    """A ball falls, a paddle moves left, stays or moves right: dm_env's own example of old.

    Observations are float boards of shape (rows, columns), 1 where ball and paddle are. Reward is 1
    for a catch, -1 for a miss, 0 before. An episode takes `rows - 1` steps and terminates.

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
        """Notes in `closed` that it was closed."""
        self._over = True
        self.closed = True

    def _board(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        board = np.zeros(self._shape)
        board[self._ball] = board[self._paddle] = 1.0
        return board


class CatchEnvironment(async_base.AsyncBase):
    """`Catch` as an asynchronous environment, which lets other tasks run at every call.

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
        """Notes in `closed` that it was closed."""
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
