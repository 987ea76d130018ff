"""What an agent is: an observation goes in, a decision comes out.

An `Agent` holds what lasts, such as a model client or a seed, and is shared by all episodes of a
rollout. What belongs to one episode, such as a history, lives in the `Actor` that it makes for
that episode. So no agent needs a `reset`, and none can carry one episode into another.
"""

from __future__ import annotations

from typing import Any, Protocol

from webtraj import trajectory as trajectory_lib
from webtraj.environments import base as environment_lib

__all__ = ["Actor", "Agent"]


class Actor(Protocol):
    """Decides for one episode. Not for use by two tasks at once."""

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Returns what to do next.

        Called with each observation of the episode but the last, in order.

        Raises:
            AgentError: There is nothing to do.
        """


class Agent(Protocol):
    """Makes an actor for each episode. Shared by episodes that run at the same time."""

    @property
    def name(self) -> str:
        """What episodes call their policy: the agent's kind, and model and weights if any."""

    def begin_episode(self, environment: environment_lib.Environment) -> Actor:
        """Returns the actor for the episode that `environment` is about to begin.

        Called before `reset`. An agent may ask the environment what it offers beyond the contract
        (`describe_episode`, `cheat`), but never resets, steps or closes it.

        Raises:
            InvalidInputError: The agent cannot act in this environment at all.
        """
