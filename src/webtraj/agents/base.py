"""The agent interface: an observation goes in, a decision comes out.

An `Agent` holds what lasts, such as a model client or a seed, and is shared by all episodes of a
rollout. State of one episode, such as its history, is in the `Actor` that the agent makes for it.
So no agent needs a `reset`, and nothing leaks from one episode to the next.
"""

from __future__ import annotations

import dataclasses
import inspect
import numbers
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import base as environment_lib

__all__ = [
    "Act",
    "Actor",
    "Agent",
    "act_of",
    "as_agent",
    "decision_of",
    "make_given_up_error",
    "is_async",
    "seed_text",
]

_BARE_ACTIONS = (str, numbers.Number, np.generic, np.ndarray)

Act = Callable[[Any], Any]
"""Takes an observation and returns a decision or an awaitable of it: `Actor.act` or a function."""


class Actor(Protocol):
    """Decides for one episode. Not safe to share between tasks."""

    def act(self, observation: Any) -> Any:
        """Return the next action: a `Decision`, or a bare string, dataclass, number or array.

        Called with each observation of the episode except the last, in order. `async def act` runs
        on the event loop; a plain `def act` runs on its own thread, so it may block.

        Raises:
            EpisodeGivenUpError: Truncate the episode.
            ModelError: The model's server failed. This does not count as the agent's failure.
            Exception: Any other error ends the episode as the agent's failure.
        """


class Agent(Protocol):
    """Makes an actor for each episode. Shared by episodes that run at the same time."""

    @property
    def name(self) -> str:
        """The policy name in episodes: the agent's kind, and its model and weights if any."""

    # An actor may also have `remember(observation, decision)`. Before the first `act`, a fork calls
    # it with each observation and decision that it repeats (`webtraj.rollouts.forks`).

    # An agent that can play only some tasks may also have `can_play(environment) -> bool`. Rollouts
    # check it for each task of their plan before they start.

    def begin_episode(self, environment: environment_lib.Environment) -> Actor:
        """Return the actor for the episode that `environment` is about to start.

        Called before `reset`. An agent may use what the environment offers beyond the contract
        (`describe_episode`, `cheat`), but never resets, steps or closes it.

        Raises:
            InvalidInputError: The agent cannot play in this environment.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class _FunctionAgent:
    """A plain function as a stateless agent."""

    act: Act
    name: str

    def begin_episode(self, environment: environment_lib.Environment) -> Any:
        return self


def as_agent(agent: Any) -> Agent:
    """Return an agent unchanged, or a function wrapped as an agent.

    Raises:
        InvalidInputError: `agent` is neither.
    """
    if not isinstance(agent, type) and callable(getattr(agent, "begin_episode", None)):
        if not isinstance(getattr(agent, "name", None), str):
            raise errors.InvalidInputError(
                f"An agent needs a name, which records use as its policy; {agent!r:.200} has none. "
                'Add name = "my-agent-1" to its class.'
            )
        return agent  # type: ignore[no-any-return]
    if not isinstance(agent, type) and callable(agent):
        return _FunctionAgent(agent, getattr(agent, "__name__", type(agent).__name__))
    add = "Pass an instance, a function of an observation, or an agent's name."
    if not isinstance(agent, type) and callable(getattr(agent, "act", None)):
        add = "It has act: add def begin_episode(self, environment): return self."
    raise errors.InvalidInputError(
        "An agent needs begin_episode(environment), which returns an actor for the episode (see "
        f"webtraj.agents.base.Agent); got {agent!r:.200}. {add}"
    )


def act_of(actor: Any) -> Act:
    """Return the function that decides, given the result of `begin_episode`.

    Raises:
        InvalidInputError: The result cannot act.
    """
    act = getattr(actor, "act", actor)
    if not callable(act):
        raise errors.InvalidInputError(
            "begin_episode must return an object with act(observation), or a function; it "
            f"returned {actor!r:.200}."
        )
    return act  # type: ignore[no-any-return]


def is_async(act: Act) -> bool:
    """Return whether calling `act` gives a coroutine."""
    call: Any = type(act).__call__
    return inspect.iscoroutinefunction(act) or inspect.iscoroutinefunction(call)


def decision_of(returned: Any) -> trajectory_lib.Decision:
    """Return the result of `act` as a decision; a bare action becomes one.

    Mappings, lists and tuples are refused: they are often a reply from which the caller forgot to
        take the action, and the environment would get the blame.

    Raises:
        AgentError: The value is none of these.
    """
    if isinstance(returned, trajectory_lib.Decision):
        return returned
    is_record = dataclasses.is_dataclass(returned) and not isinstance(returned, type)
    if isinstance(returned, _BARE_ACTIONS) or is_record:
        return trajectory_lib.Decision(action=returned)
    raise errors.AgentError(
        f"act returned {returned!r:.200}, of type {type(returned).__name__}; it must return a "
        "webtraj.Decision, an action such as Click('12'), a string such as \"click('12')\", a "
        "number, or an array. Wrap an action of any other type: webtraj.Decision(action=...)."
    )


def make_given_up_error(
    reason: str, decision: trajectory_lib.Decision
) -> errors.EpisodeGivenUpError:
    """Return the error that gives up an episode at a decision."""
    error = errors.EpisodeGivenUpError(reason)
    error.decision = decision
    return error


def seed_text(seed: int, environment: environment_lib.Environment) -> str:
    """Return the random seed of an agent in an episode, from its own seed and the episode.

    Attempts of a group share task and seed but get different texts, and so do forks at different
    steps. The seed is a text, not a number, because `random.Random` hashes it: nearby seeds are
    unrelated.
    """
    episode = environment_lib.description_of(environment)
    parts = [seed, episode.get("task", ""), episode.get("seed", "")]
    if "attempt" in episode:
        parts.append(episode["attempt"])
    if "fork" in episode:
        parts.append(f"fork {episode['fork'].step}")
    return "/".join(map(str, parts))
