"""dm_env's rules, each with a name, and which of them a timestep breaks.

Sources: dm_env/_environment.py (docstrings of `TimeStep`, `Environment`) and dm_env/docs/index.md.
A recorder notes what it sees; it never repairs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dm_env import StepType

__all__ = [
    "ALREADY_LAST_RAISED",
    "DESCRIBE_RAISED",
    "DISCOUNT_OUT_OF_RANGE",
    "FIRST_HAS_DISCOUNT",
    "FIRST_HAS_REWARD",
    "FRESH_STEP_RAISED",
    "MISSING_DISCOUNT",
    "MISSING_OBSERVATION",
    "MISSING_REWARD",
    "NOT_FIRST_AFTER_RESET",
    "RESET_BY_ITSELF",
    "STEP_WITHOUT_RESET",
    "UNKNOWN_STEP_TYPE",
    "broken_rules",
    "is_termination",
    "step_type_of",
]

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
    """Returns a timestep's type, also where it is a string, a number or another enum (as in ARES).

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
    """Returns whether a LAST timestep's discount says termination: all of it is 0.

    A missing discount says nothing; it counts as a truncation, so that no one learns from it that
    there was nothing more to gain.
    """
    try:
        leaves = list(_leaves(discount))
    except RecursionError:  # It contains itself.
        return False
    return bool(leaves) and all(_all(leaf, lambda value: value == 0) for leaf in leaves)


def broken_rules(timestep: Any, step_type: StepType) -> Sequence[str]:
    """Returns the rules that a timestep breaks by itself."""
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
