"""A judge that repeats the environment's own verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from webtraj.judging.base import make_judgement
from webtraj.trajectory import EpisodeTrajectory, Judgement, Outcome, sum_of_rewards

__all__ = ["EnvironmentJudge"]

_VERSION = "2"
_SAID = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentJudge:
    """Judges by the episode's recorded outcome and by `success` in its last observation.

    If the two contradict each other, the verdict is JUDGE_ERROR. If the environment gave no
    verdict, it is UNKNOWN: a false `success` alone means nothing, since tasks without an evaluator
    show it too. Later judgements by other judges are ignored.
    """

    success_reward: float | None = None
    """The total reward from which an episode is a success, for environments that only give rewards;
    less is a failure. None leaves such episodes UNKNOWN. Episodes without any reward are always
    UNKNOWN."""
    name: str = "environment"

    @property
    def version(self) -> str:
        """See `NamedJudge.version`."""
        if self.success_reward is None:
            return _VERSION
        return f"{_VERSION}/success_reward={self.success_reward:g}"

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        """See `Judge.judge`."""
        recorded, shown = self._read_outcome(trajectory), _read_success(trajectory)
        outcome, reason = _compare(recorded, shown)
        if outcome is Outcome.UNKNOWN and self.success_reward is not None:
            outcome, reason = _by_reward(trajectory, self.success_reward)
        findings = {
            "recorded_outcome": recorded.name.lower(),
            "shown_success": shown,
            "total_reward": _total(trajectory),
        }
        return make_judgement(self, outcome, reason, findings)

    def _read_outcome(self, trajectory: EpisodeTrajectory) -> Outcome:
        """Return the environment's verdict, if the record still has it."""
        end = trajectory.end
        if end is None:
            return Outcome.UNKNOWN
        own = [judgement for judgement in end.judgements if judgement.judge == self.name]
        if own:
            return own[-1].outcome
        overruled = any(judgement.outcome for judgement in end.judgements)
        return Outcome.UNKNOWN if overruled else end.outcome


def _compare(recorded: Outcome, shown: bool | None) -> tuple[Outcome, str]:
    if recorded in (Outcome.SUCCESS, Outcome.FAILURE) and shown is not None:
        if shown is not (recorded is Outcome.SUCCESS):
            said = f"The recorded outcome is {recorded.name.lower()}"
            return Outcome.JUDGE_ERROR, f"{said}, but the last observation shows success={shown}."
        return recorded, "The environment recorded it, and its last observation agrees."
    if recorded in _SAID:
        return recorded, "The environment recorded it."
    if shown:
        return Outcome.SUCCESS, "The last observation shows it."
    return Outcome.UNKNOWN, "The environment says nothing of what the episode was worth."


def _by_reward(trajectory: EpisodeTrajectory, wanted: float) -> tuple[Outcome, str]:
    total = _total(trajectory)
    if total is None:
        return Outcome.UNKNOWN, "The environment gave no reward at all."
    if math.isnan(total):
        return Outcome.JUDGE_ERROR, "The total reward is not a number."
    outcome = Outcome.SUCCESS if total >= wanted else Outcome.FAILURE
    return outcome, f"The total reward is {total:g}; {wanted:g} is wanted for a success."


def _total(trajectory: EpisodeTrajectory) -> float | None:
    return sum_of_rewards(step.reward for step in trajectory.steps if not step.first)


def _read_success(trajectory: EpisodeTrajectory) -> bool | None:
    observation: Any = trajectory.steps[-1].observation if trajectory.steps else None
    info = observation.get("info") if isinstance(observation, Mapping) else None
    success = info.get("success") if isinstance(info, Mapping) else None
    return bool(success) if isinstance(success, (bool, np.bool_)) else None
