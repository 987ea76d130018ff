"""What an episode's steps add to its summary: what was done, what was said, what it took."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.models.accounting import Account, Price, account_for
from webtraj.rollouts.metrics.phases import PhaseTimes, phase_times
from webtraj.rollouts.metrics.verbs import (
    DUMMY,
    GO_BACK,
    INVALID,
    INVALID_URL,
    same_action,
    verb_of,
)
from webtraj.store.blobs import LazyBlob
from webtraj.trajectory import Decision, EpisodeTrajectory, ModelCall

__all__ = ["StepFacts", "step_facts"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What was counted in the steps of one episode."""

    first_verb: str = ""
    """The verb of the first action; empty if it has none that is known. WebGym's `invalid_url` if
    the page that the episode was to begin at did not load."""
    last_verb: str = ""
    """The verb of the last one."""
    dummies: int = 0
    """Steps that have no action, or WebGym's stand-in for one."""
    go_backs: int = 0
    """Steps that went back to the page before."""
    choices: int = 0
    """Actions that were chosen: those of steps, and one at which the episode ended."""
    invalid_choices: int = 0
    """Those of them that came of a reply that could not be read."""
    judged_actions: int = 0
    """Steps whose observation says whether the action could be done (`last_action`)."""
    failed_actions: int = 0
    """Those of them that say that it could not."""
    repeated: int = 0
    """Steps with the same action as the step before."""
    longest_repeat: int = 0
    """The most steps in a row with the same action; 1 if none was repeated."""
    replies: int = 0
    """Replies of models,"""
    reply_characters: int = 0
    """and the characters in them."""
    account: Account = dataclasses.field(default_factory=Account)
    """What the model calls took, latencies left out."""
    times: PhaseTimes = dataclasses.field(default_factory=PhaseTimes)
    """Where the time went."""


def step_facts(
    trajectory: EpisodeTrajectory, prices: Mapping[str, Price] | None = None
) -> StepFacts:
    """Returns what is counted in an episode's steps.

    Args:
        trajectory: The episode. Long bytes and text may be `LazyBlob`s; screenshots are not read.
        prices: As `accounting.account_for` takes them.

    Raises:
        CorruptDataError: A long reply cannot be read.
    """
    taken = [step for step in trajectory.steps if not step.first]
    verbs = [verb_of(step.action) for step in taken]
    ends = [step.observation["last_action"] for step in taken if _says_how(step.observation)]
    invalid = sum(_is_invalid(step.decision, verb) for step, verb in zip(taken, verbs, strict=True))
    last = _decision_at_the_end(trajectory)
    calls = list(_calls(trajectory))
    replies = [_characters(call.text) for call in calls if not call.error]
    repeated, longest = _repeats([step.action for step in taken])
    return StepFacts(
        first_verb=verbs[0] if verbs else INVALID_URL if _did_not_load(trajectory) else "",
        last_verb=verbs[-1] if verbs else "",
        dummies=sum(
            step.action is None or verb == DUMMY for step, verb in zip(taken, verbs, strict=True)
        ),
        go_backs=verbs.count(GO_BACK),
        choices=len(taken) + (last is not None),
        invalid_choices=invalid + (last is not None and _is_invalid(last, verb_of(last.action))),
        judged_actions=len(ends),
        failed_actions=sum(bool(end["error"]) for end in ends),
        repeated=repeated,
        longest_repeat=longest,
        replies=len(replies),
        reply_characters=sum(replies),
        account=dataclasses.replace(account_for(calls, prices), latencies=()),
        times=phase_times(trajectory),
    )


def _did_not_load(trajectory: EpisodeTrajectory) -> bool:
    error = None if trajectory.end is None else trajectory.end.error
    return error is not None and error.type.rpartition(".")[2] == errors.PageLoadError.__name__


def _says_how(observation: Any) -> bool:
    """Returns whether an observation has the channel that says how the last action went."""
    last = observation.get("last_action") if isinstance(observation, Mapping) else None
    return isinstance(last, Mapping) and "error" in last


def _is_invalid(decision: Decision | None, verb: str) -> bool:
    return verb == INVALID or (decision is not None and bool(decision.parse_error))


def _decision_at_the_end(trajectory: EpisodeTrajectory) -> Decision | None:
    return None if trajectory.end is None else trajectory.end.in_flight_decision


def _calls(trajectory: EpisodeTrajectory) -> Iterator[ModelCall]:
    for step in trajectory.steps:
        if step.decision is not None:
            yield from step.decision.model_calls
    last = _decision_at_the_end(trajectory)
    if last is not None:
        yield from last.model_calls


def _characters(text: Any) -> int:
    return len(text.load() if isinstance(text, LazyBlob) else text)


def _repeats(actions: list[Any]) -> tuple[int, int]:
    repeated, longest, row = 0, min(len(actions), 1), 1
    for before, action in itertools.pairwise(actions):
        same = same_action(action, before)
        repeated += same
        row = row + 1 if same else 1
        longest = max(longest, row)
    return repeated, longest
