"""What an agent is: an observation goes in, a decision comes out.

An `Agent` holds what lasts, such as a model client or a seed, and is shared by all episodes of a
rollout. What belongs to one episode, such as a history, lives in the `Actor` that it makes for
that episode. So no agent needs a `reset`, and none can carry one episode into another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import base as environment_lib

__all__ = ["Act", "Actor", "Agent", "act_of", "as_agent", "decision_of", "seed_text"]

Act = Callable[[Any], Any]
"""Takes an observation and returns what to do, or an awaitable of it: `Actor.act` or a function."""


class Actor(Protocol):
    """Decides for one episode. Not for use by two tasks at once."""

    def act(self, observation: Any) -> Any:
        """Return what to do next: a `Decision`; or an action, as a dataclass or as a string.

        Called with each observation of the episode but the last, in order. `async def act` runs on
        the event loop. A plain `def act` runs on a thread of its own, so that it may block.

        Raises:
            EpisodeGivenUpError: The episode is to be truncated.
            ModelError: The model's server failed. That is not the agent's failure.
            Exception: Anything else ends the episode as the agent's failure.
        """


class Agent(Protocol):
    """Makes an actor for each episode. Shared by episodes that run at the same time."""

    @property
    def name(self) -> str:
        """What episodes call their policy: the agent's kind, and model and weights if any."""

    # An agent that can play some tasks only may also have `can_play(environment) -> bool`. Rollouts
    # ask it about each task of their plan before they start.

    def begin_episode(self, environment: environment_lib.Environment) -> Actor:
        """Returns the actor for the episode that `environment` is about to begin.

        Called before `reset`. An agent may ask the environment what it offers beyond the contract
        (`describe_episode`, `cheat`), but never resets, steps or closes it.

        Raises:
            InvalidInputError: The agent cannot act in this environment at all.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class _FunctionAgent:
    """A plain function as an agent that remembers nothing."""

    act: Act
    name: str

    def begin_episode(self, environment: environment_lib.Environment) -> Any:
        return self


def as_agent(agent: Any) -> Agent:
    """Return an agent as it is, and a function as an agent.

    Raises:
        InvalidInputError: It is neither.
    """
    if not isinstance(agent, type) and callable(getattr(agent, "begin_episode", None)):
        if not isinstance(getattr(agent, "name", None), str):
            raise errors.InvalidInputError(
                f"An agent has a name, which records call its policy; {agent!r:.200} has none. "
                'Add name = "my-agent-1" to its class.'
            )
        return agent  # type: ignore[no-any-return]
    if not isinstance(agent, type) and callable(agent):
        return _FunctionAgent(agent, getattr(agent, "__name__", type(agent).__name__))
    add = "Pass an instance, a function that takes an observation, or an agent's name."
    if not isinstance(agent, type) and callable(getattr(agent, "act", None)):
        add = "It has act: add def begin_episode(self, environment): return self."
    raise errors.InvalidInputError(
        "An agent has begin_episode(environment), which returns who acts in that episode (see "
        f"webtraj.agents.base.Agent); got {agent!r:.200}. {add}"
    )


def act_of(actor: Any) -> Act:
    """Return the function that decides, given what `begin_episode` returned.

    Raises:
        InvalidInputError: It returned nothing that can act.
    """
    act = getattr(actor, "act", actor)
    if not callable(act):
        raise errors.InvalidInputError(
            "begin_episode must return an object with act(observation), or a function; it "
            f"returned {actor!r:.200}."
        )
    return act  # type: ignore[no-any-return]


def decision_of(returned: Any) -> trajectory_lib.Decision:
    """Return the decision that `act` returned; a bare string or action becomes one.

    Raises:
        AgentError: It is none.
    """
    if isinstance(returned, trajectory_lib.Decision):
        return returned
    is_record = dataclasses.is_dataclass(returned) and not isinstance(returned, type)
    if isinstance(returned, str) or is_record:
        return trajectory_lib.Decision(action=returned)
    raise errors.AgentError(
        f"act returned {returned!r:.200}, of type {type(returned).__name__}; it must return a "
        "webtraj.Decision, an action such as Click('12'), or a string such as \"click('12')\". "
        "Wrap an action of any other type: webtraj.Decision(action=...)."
    )


def seed_text(seed: int, environment: environment_lib.Environment) -> str:
    """Return what an agent's chance in an episode follows from: its own seed and the episode.

    Two attempts of a group share task and seed, and have other texts. A text, rather than a number,
    since `random.Random` and hashes digest it: nearby seeds have nothing in common.
    """
    describe = getattr(environment, "describe_episode", None)
    episode = describe() if callable(describe) else {}
    parts = [seed, episode.get("task", ""), episode.get("seed", "")]
    if "attempt" in episode:
        parts.append(episode["attempt"])
    return "/".join(map(str, parts))
