"""How a trajectory of WebGym's ended, as far as its own words tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import base
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EndReason, Outcome

__all__ = ["End", "end_of", "fields_of"]

# What WebGym writes where no judge has spoken.
_IN_PROGRESS = "Task in progress"
_PENDING = -1
_JUDGE_FAILED = ("Async evaluation failed:", "Reward calculation failed:")
_FAILED = "Task failed:"
_ERROR_KEYS = ("invalid_step", "invalid_url", "error")
_OUT_OF_TIME = ("TIMEOUT", "GRACE_PERIOD_INCOMPLETE", "INCOMPLETE")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a trajectory ended, and what it was worth."""

    reason: EndReason
    outcome: Outcome = Outcome.UNKNOWN
    reward: float | None = None
    """What it was graded; None if it was not, or if the grade is no judgement of the agent."""
    detail: str = ""
    error: trajectory_lib.ErrorInfo | None = None
    dummies: int = 0
    """How many of the last steps only say that something failed."""

    @property
    def terminated(self) -> bool:
        """Whether the agent ended the episode by its answer."""
        return self.reason is EndReason.TERMINATED

    @property
    def ended(self) -> bool:
        """Whether the episode came to its end, and not to an error."""
        return self.reason in (EndReason.TERMINATED, EndReason.TRUNCATED)

    @property
    def in_flight(self) -> bool:
        """Whether the last action's result was never seen because something failed."""
        return not self.ended

    def to_record(
        self, action: Any, decision: trajectory_lib.Decision | None
    ) -> trajectory_lib.EpisodeEnd:
        """Returns the end for an episode, given the last action."""
        flight: dict[str, Any] = {}
        if self.in_flight and decision is not None:
            flight = {
                "action_in_flight": True,
                "in_flight_action": action,
                "in_flight_decision": decision,
            }
        return trajectory_lib.EpisodeEnd(
            reason=self.reason,
            outcome=self.outcome,
            detail=self.detail,
            error=self.error,
            **flight,
        )


def end_of(steps: list[Mapping[str, Any]]) -> End:
    """Returns how a trajectory, at least one step long, ended."""
    dummies = _dummies(steps)
    if dummies:
        return _failed(steps[-1], dummies)
    last = steps[-1]
    graded = fields_of(last.get("reward"))
    said = base.text_of(graded.get("evaluation"))
    answered = _key_of(last) == "answer"
    reason = EndReason.TERMINATED if answered else EndReason.TRUNCATED
    if graded.get("is_blocked") is True:
        return End(reason=reason, outcome=Outcome.BLOCKED, detail=said)
    if said.startswith(_JUDGE_FAILED):
        return End(reason=reason, outcome=Outcome.JUDGE_ERROR, detail=said)
    value = base.number(graded.get("reward"))
    if value == _PENDING:
        return End(reason=reason, detail="it had not been graded yet")
    if said == _IN_PROGRESS or value is None:
        return End(reason=reason, detail=_ungraded(last, len(steps)))
    outcome = Outcome.SUCCESS if value >= 1 else Outcome.FAILURE
    return End(reason=reason, outcome=outcome, reward=value, detail=said)


def fields_of(value: Any) -> Mapping[str, Any]:
    """Returns an object's fields; none if it is no object."""
    return value.fields if isinstance(value, OpaqueRecord) else {}


def _dummies(steps: list[Mapping[str, Any]]) -> int:
    count = 0
    for step in reversed(steps):
        said = base.text_of(fields_of(step.get("reward")).get("evaluation"))
        failed = "error_type" in step or said.startswith(_FAILED)
        if not failed and _key_of(step) not in _ERROR_KEYS:
            break
        count += 1
    return count


def _failed(step: Mapping[str, Any], dummies: int) -> End:
    kind = base.text_of(step.get("error_type"))
    said = base.text_of(fields_of(step.get("reward")).get("evaluation"))
    arguments = fields_of(step.get("action")).get("action")
    told = arguments.get("arguments", {}) if isinstance(arguments, Mapping) else {}
    more = base.text_of(told.get("error")) if isinstance(told, Mapping) else ""
    message = base.text_of(step.get("error_message")) or more or said
    return End(
        reason=EndReason.ERRORED,
        outcome=Outcome.TIMEOUT if kind in _OUT_OF_TIME else Outcome.ENV_ERROR,
        detail=said,
        error=trajectory_lib.ErrorInfo(type=kind or "ERROR", message=message),
        dummies=dummies,
    )


def _key_of(step: Mapping[str, Any]) -> str:
    action = fields_of(step.get("action")).get("action")
    return base.text_of(action.get("key")) if isinstance(action, Mapping) else ""


def _ungraded(last: Mapping[str, Any], count: int) -> str:
    task = fields_of(fields_of(last.get("observation")).get("task"))
    limit = task.get("max_steps")
    if isinstance(limit, int) and count >= limit:
        return f"it took all of its {limit} steps without an answer, and was not graded"
    return "it ended without an answer, and was not graded"
