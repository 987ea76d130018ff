"""The environment contract: dm_env's, made async, and its rules by name.

dm_env's rules hold to the letter (dm_env/_environment.py and docs/index.md):

* `reset` returns FIRST, which has neither reward nor discount; every other step has both.
* LAST ends the episode: a termination with discount 0, a truncation with a discount above 0.
* `step` on a fresh environment, or after LAST, resets and ignores its action.

`webtraj.testing.EnvironmentContract` checks an environment against them. A recorder notes which of
them a timestep breaks; it never repairs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import dm_env
from dm_env import StepType

from webtraj import trajectory as trajectory_lib

__all__ = [
    "ALREADY_LAST_RAISED",
    "DESCRIBE_RAISED",
    "DISCOUNT_OUT_OF_RANGE",
    "DescribesEpisode",
    "Environment",
    "FIRST_HAS_DISCOUNT",
    "FIRST_HAS_REWARD",
    "FRESH_STEP_RAISED",
    "JudgesEpisode",
    "MISSING_DISCOUNT",
    "MISSING_OBSERVATION",
    "MISSING_REWARD",
    "NOT_FIRST_AFTER_RESET",
    "RESET_BY_ITSELF",
    "Redacts",
    "STEP_WITHOUT_RESET",
    "Seeded",
    "UNKNOWN_STEP_TYPE",
    "broken_rules",
    "is_termination",
    "step_type_of",
]


@runtime_checkable
class Environment(Protocol):
    """A dm_env environment whose `reset`, `step` and `close` are coroutines.

    A class that inherits from this one gets `close` and `async with`.
    """

    async def reset(self) -> dm_env.TimeStep:
        """Begin an episode, ending any that is open, and return its FIRST timestep."""

    async def step(self, action: Any) -> dm_env.TimeStep:
        """Act and return the next timestep."""

    async def close(self) -> None:
        """Free all resources. Idempotent. By default, does nothing."""
        return

    def observation_spec(self) -> Any:
        """Return the nest of `dm_env.specs` that observations follow."""

    def action_spec(self) -> Any:
        """Return the nest of `dm_env.specs` that actions follow."""

    def reward_spec(self) -> Any:
        """Return the nest of `dm_env.specs` that rewards follow."""

    def discount_spec(self) -> Any:
        """Return the nest of `dm_env.specs` that discounts follow."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


@runtime_checkable
class Seeded(Protocol):
    """An environment whose next episode can be given a seed. Optional.

    A rollout plans a seed for each episode, and sets it before `reset`. Without this method, the
    episodes are played all the same, and have no seed on record.
    """

    def set_seed(self, seed: int) -> None:
        """Set the seed of the episode that the next `reset` begins, and of no other."""


@runtime_checkable
class DescribesEpisode(Protocol):
    """An environment that can say what its episodes are about. Optional."""

    def describe_episode(self) -> Mapping[str, Any]:
        """Return what is known now of the current or coming episode.

        Keys are field names of `webtraj.EpisodeInfo` (task, goal, seed, ...). Called before `reset`
        and again after FIRST, since some things, such as a goal, are known only then.
        """


@runtime_checkable
class JudgesEpisode(Protocol):
    """An environment that knows what its last episode was worth. Optional."""

    def episode_outcome(self) -> trajectory_lib.Outcome:
        """Return the outcome of the episode that just returned LAST; if it is open, so far."""


@runtime_checkable
class Redacts(Protocol):
    """An environment that knows what must not be recorded. Optional.

    `webtraj.environments.redaction` has what such an environment needs.
    """

    def redact_action(self, action: Any) -> Any:
        """Return what may be recorded of an action that is about to be taken.

        Called once for each action, before `step`. What it makes known as secret, such as a text
        that goes into a password field, `redact` then finds elsewhere.
        """

    def redact(self, value: Any) -> Any:
        """Return what may be recorded of a value; the value itself if all of it.

        Whatever is recorded passes here: observations, decisions with their model calls, actions
        that `redact_action` returned, episode descriptions, errors. The value is not changed.
        """

    def take_redactions(self) -> Mapping[str, int]:
        """Return how often what was redacted since the last call."""


# dm_env's rules, each with a name, and which of them a timestep breaks.
#
# Sources: dm_env/_environment.py (docstrings of `TimeStep`, `Environment`) and
# dm_env/docs/index.md. A recorder notes what it sees; it never repairs it.

FIRST_HAS_REWARD = "FIRST must have reward None"
FIRST_HAS_DISCOUNT = "FIRST must have discount None"
MISSING_REWARD = "MID and LAST must have a reward"
MISSING_DISCOUNT = "MID and LAST must have a discount"
DISCOUNT_OUT_OF_RANGE = "a discount must lie between 0 and 1"
MISSING_OBSERVATION = "every timestep must have an observation"
NOT_FIRST_AFTER_RESET = "reset must return FIRST"
STEP_WITHOUT_RESET = "step on a fresh or finished environment must return FIRST"
FRESH_STEP_RAISED = "step on a fresh environment must reset it, not raise"
ALREADY_LAST_RAISED = "step after LAST must reset, not raise"
RESET_BY_ITSELF = "FIRST must come only from reset, or from a step that resets"
UNKNOWN_STEP_TYPE = "the step type must be FIRST, MID or LAST"
DESCRIBE_RAISED = "describe_episode and episode_outcome must not raise"

_NO_RULES: tuple[str, ...] = ()
_BY_NAME = {step_type.name: step_type for step_type in StepType}


def step_type_of(timestep: Any) -> StepType | None:
    """Return a timestep's type, also where it is a string, a number or another enum (as in ARES).

    Returns:
        None if it is none of the three.
    """
    raw = timestep.step_type
    if isinstance(raw, StepType):
        return raw
    if isinstance(raw, str):
        return _BY_NAME.get(raw.rpartition(".")[2].upper())
    name = getattr(raw, "name", None)
    if isinstance(name, str) and name.upper() in _BY_NAME:
        return _BY_NAME[name.upper()]
    try:
        return StepType(raw)
    except ValueError:
        return None


def is_termination(discount: Any) -> bool:
    """Return whether a LAST timestep's discount says termination: all of it is 0.

    A missing discount says nothing; it counts as a truncation, so that no one learns from it that
    there was nothing more to gain.
    """
    try:
        leaves = list(_leaves(discount))
    except RecursionError:  # It contains itself.
        return False
    return bool(leaves) and all(_all(leaf, lambda value: value == 0) for leaf in leaves)


def broken_rules(timestep: Any, step_type: StepType) -> Sequence[str]:
    """Return the rules that a timestep breaks by itself."""
    discount = timestep.discount
    if (  # Nearly every step is like this, and looking closer takes long.
        type(discount) is float
        and 0.0 <= discount <= 1.0
        and step_type is not StepType.FIRST
        and timestep.reward is not None
        and timestep.observation is not None
    ):
        return _NO_RULES
    rules = []
    if step_type is StepType.FIRST:
        if timestep.reward is not None:
            rules.append(FIRST_HAS_REWARD)
        if timestep.discount is not None:
            rules.append(FIRST_HAS_DISCOUNT)
    else:
        if timestep.reward is None:
            rules.append(MISSING_REWARD)
        if timestep.discount is None:
            rules.append(MISSING_DISCOUNT)
        elif not _in_range(timestep.discount):
            rules.append(DISCOUNT_OUT_OF_RANGE)
    if timestep.observation is None:
        rules.append(MISSING_OBSERVATION)
    return rules


def _in_range(discount: Any) -> bool:
    try:
        leaves = list(_leaves(discount))
    except RecursionError:  # It contains itself.
        return False
    return all(_all(leaf, lambda value: (value >= 0) & (value <= 1)) for leaf in leaves)


def _all(leaf: Any, condition: Any) -> bool:
    try:
        result = condition(leaf)
        return bool(result.all()) if hasattr(result, "all") else bool(result)
    except Exception:  # Not even a number, but any object, which may do anything.
        return False


def _leaves(value: Any) -> Any:
    if value is None:
        return
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
