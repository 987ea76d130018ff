"""The environment contract: dm_env's contract made async, and its rules by name.

dm_env's rules apply exactly (dm_env/_environment.py and docs/index.md):

* `reset` returns FIRST, which has no reward and no discount; every other step has both.
* LAST ends the episode: a termination with discount 0, a truncation with a discount above 0.
* `step` on a fresh environment, or after LAST, resets and ignores its action.

`webtraj.testing.EnvironmentContract` checks an environment against them. A recorder notes the rules
that a timestep breaks; it never repairs the timestep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import dm_env
import numpy as np
from dm_env import StepType

from webtraj import trajectory as trajectory_lib

__all__ = [
    "ALREADY_LAST_RAISED",
    "CopiesWorld",
    "DESCRIBE_RAISED",
    "DESCRIBE_TYPES",
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
    "description_of",
    "is_termination",
    "outcome_of",
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

    A rollout plans a seed for each episode and sets it before `reset`. Without this method,
    episodes still run, but no seed is recorded.
    """

    def set_seed(self, seed: int) -> None:
        """Set the seed for the next episode only."""


@runtime_checkable
class DescribesEpisode(Protocol):
    """An environment that describes its episodes. Optional."""

    def describe_episode(self) -> Mapping[str, Any]:
        """Return what is known so far about the current or next episode.

        Keys are field names of `webtraj.EpisodeInfo` (task, goal, seed, ...). Called before `reset`
        and again after FIRST, because some fields, such as the goal, are known only then.
        """


def description_of(environment: Any) -> Mapping[str, Any]:
    """Return an environment's description of its current or next episode; empty if it has none."""
    describe = getattr(environment, "describe_episode", None)
    return describe() if callable(describe) else {}


@runtime_checkable
class JudgesEpisode(Protocol):
    """An environment that judges its last episode. Optional."""

    def episode_outcome(self) -> trajectory_lib.Outcome:
        """Return the outcome of the last episode, or the outcome so far if it is still open.

        True means SUCCESS, and False FAILURE.
        """


def outcome_of(environment: Any) -> trajectory_lib.Outcome:
    """Return the outcome that an environment gives its last episode; UNKNOWN if it does not judge.

    Raises:
        TypeError: It says something else than an outcome.
    """
    judge = getattr(environment, "episode_outcome", None)
    found = judge() if callable(judge) else trajectory_lib.Outcome.UNKNOWN
    if isinstance(found, bool | np.bool_):
        return trajectory_lib.Outcome.SUCCESS if found else trajectory_lib.Outcome.FAILURE
    if not isinstance(found, trajectory_lib.Outcome):
        raise TypeError(f"episode_outcome returned {found!r:.100}; expected an Outcome or a bool")
    return found


@runtime_checkable
class Redacts(Protocol):
    """An environment that removes secrets from what is recorded. Optional.

    `webtraj.redaction` helps to implement it.
    """

    def redact_action(self, action: Any) -> Any:
        """Return the recordable form of an action that is about to be taken.

        Called once for each action, before `step`. Secrets learned here, such as text typed into a
        password field, are then redacted everywhere by `redact`.
        """

    def redact(self, value: Any) -> Any:
        """Return the recordable form of a value: the value itself if it holds no secret.

        Everything that is recorded goes through this method: observations, decisions with their
        model calls, actions that `redact_action` returned, episode descriptions, errors. It must
        not modify the value.
        """

    def take_redactions(self) -> Mapping[str, int]:
        """Return the number of redactions since the last call, by name."""


@runtime_checkable
class CopiesWorld(Protocol):
    """An environment whose world can be copied during an episode. Optional.

    With such an environment, only the first of several forks at a step replays the record; the
    others start from a copy. Both methods may be plain or `async`.
    """

    async def snapshot(self) -> Any:
        """Return a copy of the running episode's world. Later steps do not change the copy.

        Any environment of the same task in this process can restore it, any number of times. Its
        resources are freed when nothing refers to it.

        Returns:
            None if the world cannot be copied now.
        """

    async def restore(self, snapshot: Any) -> dm_env.TimeStep | None:
        """Begin an episode in a copy of the world, instead of `reset`.

        Returns:
            The last timestep before the world was copied; None if the world cannot be restored.
            After None, the next call is `reset`.
        """


# dm_env's rules by name, and the check of a timestep against them.
#
# Sources: dm_env/_environment.py (docstrings of `TimeStep`, `Environment`) and
# dm_env/docs/index.md.

FIRST_HAS_REWARD = "FIRST must have reward None"
FIRST_HAS_DISCOUNT = "FIRST must have discount None"
MISSING_REWARD = "MID and LAST must have a reward"
MISSING_DISCOUNT = "MID and LAST must have a discount"
DISCOUNT_OUT_OF_RANGE = "a discount must be between 0 and 1"
MISSING_OBSERVATION = "every timestep must have an observation"
NOT_FIRST_AFTER_RESET = "reset must return FIRST"
STEP_WITHOUT_RESET = "step on a fresh or finished environment must return FIRST"
FRESH_STEP_RAISED = "step on a fresh environment must reset it, not raise"
ALREADY_LAST_RAISED = "step after LAST must reset, not raise"
RESET_BY_ITSELF = "FIRST must come only from reset, or from a step that resets"
UNKNOWN_STEP_TYPE = "the step type must be FIRST, MID or LAST"
DESCRIBE_RAISED = "describe_episode and episode_outcome must not raise"
DESCRIBE_TYPES = "describe_episode must return values that EpisodeInfo can hold"

_NO_RULES: tuple[str, ...] = ()
_BY_NAME = {step_type.name: step_type for step_type in StepType}


def step_type_of(timestep: Any) -> StepType | None:
    """Return a timestep's type; strings, numbers and other enums (as in ARES) are accepted.

    Returns:
        None if it is neither FIRST, MID nor LAST.
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
    """Return whether a LAST timestep's discount means termination: every value in it is 0.

    A missing discount counts as truncation, so that a learner does not take the state as terminal.
    """
    return _holds(discount, lambda value: value == 0, least=1)


def broken_rules(timestep: Any, step_type: StepType) -> Sequence[str]:
    """Return the rules that a timestep breaks by itself."""
    discount = timestep.discount
    if (  # The fast path: nearly every step.
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
    return _holds(discount, lambda value: (value >= 0) & (value <= 1))


def _holds(nest: Any, condition: Any, *, least: int = 0) -> bool:
    """Return whether a nest has enough leaves, and a condition holds for all of them."""
    try:
        leaves = list(_leaves(nest))
    except RecursionError:  # It contains itself.
        return False
    return len(leaves) >= least and all(_all(leaf, condition) for leaf in leaves)


def _all(leaf: Any, condition: Any) -> bool:
    try:
        result = condition(leaf)
        return bool(result.all()) if hasattr(result, "all") else bool(result)
    except Exception:  # An arbitrary object; its comparison may raise anything.
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
