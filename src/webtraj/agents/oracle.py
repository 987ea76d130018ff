"""The oracle agent: it takes the actions of the environment's own solution.

Its episodes serve as demonstrations, and as regression tests of a task and its reward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import base as environment_lib

__all__ = ["OracleAgent"]


@dataclasses.dataclass(frozen=True, slots=True)
class OracleAgent:
    """Takes the actions of the environment's own solution.

    The environment offers `async cheat() -> action or None`, where None means that the solution is
    stuck. If only some of its tasks have a solution, it also offers the bool `has_oracle`.
    """

    name: str = "oracle"

    def begin_episode(self, environment: environment_lib.Environment) -> _OracleActor:
        """Return an actor that asks `environment`.

        Raises:
            InvalidInputError: The environment has no solution.
        """
        cheat = getattr(environment, "cheat", None)
        if not self.can_play(environment):
            raise errors.InvalidInputError(
                f"The oracle agent has no solution for {_task_of(environment)}. Use another agent "
                "or another task."
            )
        assert callable(cheat)
        return _OracleActor(cheat, _task_of(environment))

    def can_play(self, environment: environment_lib.Environment) -> bool:
        """Return whether the environment has a solution."""
        has_oracle = bool(getattr(environment, "has_oracle", True))
        return has_oracle and callable(getattr(environment, "cheat", None))


@dataclasses.dataclass(frozen=True, slots=True)
class _OracleActor:
    cheat: Callable[[], Awaitable[Any]]
    task: str

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        del observation  # The environment knows better.
        action = await self.cheat()
        if action is None:
            raise errors.AgentError(
                f"The solution of {self.task} has no next action, but the episode has not ended."
            )
        return trajectory_lib.Decision(action=action)


def _task_of(environment: environment_lib.Environment) -> str:
    task = environment_lib.description_of(environment).get("task")
    return f"the task {task!r}" if task else f"the environment {type(environment).__name__}"
