"""Episode classes: whether an episode counts for the policy, and if not, why.

There are two rules. Each puts every episode into exactly one class:

`typed`: by the outcome.

    valid       success, failure, agent_error or judge_error; unknown, if the episode finished
    blocked     the site refused the agent
    crashed     env_error, model_error or timeout; unknown, if an error or a crash ended it
    unfinished  cancelled; unknown, if it was cut short otherwise

`webgym`: WebGym's `is_crashed` (scripts/rollout.py), quoting its documentation in brackets.

    crashed     no steps ("it's empty or has no steps");
                the first action is `invalid_url` ("first action is invalid_url");
                a dummy in place of an action ("contains dummy actions (None values)");
                or fewer than 10 steps, no answer at the end, and not blocked
    blocked     of the rest, those that the site refused
    valid       everything else

If an error, a time limit or a cancellation ends an episode, WebGym discards its steps and stores a
dummy, so those ends count as dummies here. The rule calls every short episode without an answer
crashed, even a success, so it suits only tasks that ask for an answer.
"""

from __future__ import annotations

import enum
from typing import Literal, get_args

from webtraj import errors
from webtraj.environments.actions.recorded import ANSWER, INVALID_URL
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.trajectory import EndReason, Outcome

__all__ = ["CRASH_RULES", "CrashRule", "EpisodeClass", "check_rule", "classify"]

CrashRule = Literal["typed", "webgym"]
CRASH_RULES: tuple[CrashRule, ...] = get_args(CrashRule)

_MIN_STEPS = 10
"""WebGym's threshold: a shorter episode must have an answer."""

_CRASHES = (Outcome.ENV_ERROR, Outcome.MODEL_ERROR, Outcome.TIMEOUT)
_ENDED = (EndReason.TERMINATED, EndReason.TRUNCATED)
_DUMMY_ENDS = (EndReason.ERRORED, EndReason.CANCELLED, EndReason.CRASHED)


class EpisodeClass(enum.StrEnum):
    """Whether an episode counts for the policy, and if not, why."""

    VALID = "valid"
    """Played; counts for the policy."""
    BLOCKED = "blocked"
    """Refused by the site."""
    CRASHED = "crashed"
    """Broken by an error."""
    UNFINISHED = "unfinished"
    """Cut short, by a person or by the end of the rollout."""


def check_rule(rule: str) -> CrashRule:
    """Return a rule's name after checking it.

    Raises:
        InvalidInputError: There is no such rule.
    """
    for known in CRASH_RULES:
        if rule == known:
            return known
    raise errors.InvalidInputError(
        f"Unknown crash_rule={rule!r:.60}; expected {' or '.join(map(repr, CRASH_RULES))}."
    )


def classify(facts: EpisodeFacts, rule: CrashRule = "typed") -> EpisodeClass:
    """Return the class of an episode.

    Raises:
        InvalidInputError: WebGym's rule needs the episode's steps, which were not read.
    """
    return _typed(facts) if rule == "typed" else _webgym(facts)


def _typed(facts: EpisodeFacts) -> EpisodeClass:
    outcome, reason = facts.outcome, facts.end_reason
    if outcome is Outcome.BLOCKED:
        return EpisodeClass.BLOCKED
    if outcome in _CRASHES:
        return EpisodeClass.CRASHED
    if outcome is Outcome.CANCELLED:
        return EpisodeClass.UNFINISHED
    if outcome is not Outcome.UNKNOWN or reason in _ENDED:
        return EpisodeClass.VALID
    if reason in (EndReason.ERRORED, EndReason.CRASHED):
        return EpisodeClass.CRASHED
    return EpisodeClass.UNFINISHED


def _webgym(facts: EpisodeFacts) -> EpisodeClass:
    steps = facts.steps
    if facts.num_steps and steps is None:
        raise errors.InvalidInputError(
            f"WebGym's crash rule needs the actions of {facts.episode_id or facts.task!r}, which a "
            "summary does not contain. Measure a recorded dataset, with its steps."
        )
    blocked = facts.outcome is Outcome.BLOCKED
    if steps is None or not facts.num_steps or facts.end_reason in _DUMMY_ENDS:
        return EpisodeClass.CRASHED
    if steps.first_verb == INVALID_URL or steps.dummies:
        return EpisodeClass.CRASHED
    if facts.num_steps < _MIN_STEPS and steps.last_verb != ANSWER and not blocked:
        return EpisodeClass.CRASHED
    return EpisodeClass.BLOCKED if blocked else EpisodeClass.VALID
