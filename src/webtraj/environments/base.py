"""The environment contract: dm_env's, made async.

dm_env's rules hold to the letter (dm_env/_environment.py and docs/index.md):

* `reset` returns FIRST, which has neither reward nor discount; every other step has both.
* LAST ends the episode: a termination with discount 0, a truncation with a discount above 0.
* `step` on a fresh environment, or after LAST, resets and ignores its action.

`webtraj.testing.EnvironmentContract` checks an environment against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import dm_env

from webtraj import trajectory as trajectory_lib

__all__ = ["DescribesEpisode", "Environment", "JudgesEpisode", "Redacts", "Seeded"]


@runtime_checkable
class Environment(Protocol):
    """A dm_env environment whose `reset`, `step` and `close` are coroutines."""

    async def reset(self) -> dm_env.TimeStep:
        """Begins an episode, ending any that is open, and returns its FIRST timestep."""

    async def step(self, action: Any) -> dm_env.TimeStep:
        """Acts and returns the next timestep."""

    async def close(self) -> None:
        """Frees all resources. Idempotent."""

    def observation_spec(self) -> Any:
        """Returns the nest of `dm_env.specs` that observations follow."""

    def action_spec(self) -> Any:
        """Returns the nest of `dm_env.specs` that actions follow."""

    def reward_spec(self) -> Any:
        """Returns the nest of `dm_env.specs` that rewards follow."""

    def discount_spec(self) -> Any:
        """Returns the nest of `dm_env.specs` that discounts follow."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Seeded(Protocol):
    """An environment whose next episode can be given a seed. Optional.

    A rollout gives each episode of its plan a seed, and plays it again by that. An environment
    without this method is played as often as planned, and its episodes have no seed on record.
    """

    def set_seed(self, seed: int) -> None:
        """Sets the seed of the episode that the next `reset` begins, and of no other."""


@runtime_checkable
class DescribesEpisode(Protocol):
    """An environment that can say what its episodes are about. Optional."""

    def describe_episode(self) -> Mapping[str, Any]:
        """Returns what is known now of the current or coming episode.

        Keys are field names of `webtraj.EpisodeInfo` (task, goal, seed, ...). Called before `reset`
        and again after FIRST, since some things, such as a goal, are known only then.
        """


@runtime_checkable
class JudgesEpisode(Protocol):
    """An environment that knows what its last episode was worth. Optional."""

    def episode_outcome(self) -> trajectory_lib.Outcome:
        """Returns the outcome of the episode that just returned LAST; if it is open, so far."""


@runtime_checkable
class Redacts(Protocol):
    """An environment that knows what must not be recorded. Optional.

    `webtraj.environments.redaction` has what such an environment needs.
    """

    def redact_action(self, action: Any) -> Any:
        """Returns what may be recorded of an action that is about to be taken.

        Called once for each action, before `step`. What it makes known as secret, such as a text
        that goes into a password field, `redact` then finds elsewhere.
        """

    def redact(self, value: Any) -> Any:
        """Returns what may be recorded of a value; the value itself if all of it.

        Whatever is recorded passes here: observations, decisions with their model calls, actions
        that `redact_action` returned, episode descriptions, errors. The value is not changed.
        """

    def take_redactions(self) -> Mapping[str, int]:
        """Returns how often what was redacted since the last call."""
