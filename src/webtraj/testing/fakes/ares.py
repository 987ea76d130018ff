"""An environment that breaks the contract the way ARES's environments do."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, NamedTuple

from webtraj.testing.fakes import async_base

__all__ = ["AresEnvironment", "AresTimeStep"]


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


class AresEnvironment(async_base.AsyncBase):
    """An environment of ARES's shape, which differs from dm_env's rules in four ways.

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
        """Begins an episode."""
        await asyncio.sleep(0)
        self._taken = 0
        return AresTimeStep("FIRST", 0.0, 1.0, "question 0")

    async def step(self, action: Any) -> AresTimeStep:
        """Takes any action.

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
