"""What formats of arrays keep of a decision: the thought, the reply, and its tokens."""

from __future__ import annotations

from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters.base import Ledger
from webtraj.datasets.exporters.plain import is_blank
from webtraj.trajectory import reward_value

__all__ = ["agent_values", "note_left_out", "number"]

_CALL_FIELDS = (
    "model", "policy_version", "prompt_token_ids", "completion_token_ids", "logprobs",
)  # fmt: skip
_UNPLACED = (
    "provider", "messages", "sampling", "response", "finish_reason", "usage", "start_time",
    "latency", "error",
)  # fmt: skip


def agent_values(step: trajectory_lib.StepRecord) -> dict[str, Any]:
    """Returns the values of the columns `agent/...` of the action that led to a step."""
    decision = step.decision
    if decision is None:
        return {}
    values: dict[str, Any] = {
        "thought": decision.thought,
        "memory": decision.memory,
        "parse_error": decision.parse_error,
    }
    call = _answer(decision)
    if call is not None:
        values["reply"] = call.text
        values.update({name: getattr(call, name) for name in _CALL_FIELDS})
    return {name: value for name, value in values.items() if not is_blank(value)}


def note_left_out(episode: trajectory_lib.EpisodeTrajectory, ledger: Ledger) -> None:
    """Notes what has no column of an episode's decisions and steps."""
    for step in episode.steps:
        decision = step.decision
        if step.ignored_action is not None:
            ledger.note(episode.episode_id, "steps.ignored_action", "has no column; left out")
        if decision is None:
            continue
        if decision.metadata:
            ledger.note(episode.episode_id, "steps.decision.metadata", "has no column; left out")
        if len(decision.model_calls) > 1:
            why = "only the reply that was acted on has columns; the others are left out"
            count = len(decision.model_calls) - 1
            ledger.note(episode.episode_id, "steps.decision.model_calls", why, count)
        call = _answer(decision)
        for name in _UNPLACED if call is not None else ():
            if not is_blank(getattr(call, name)):
                where = f"steps.decision.model_calls.{name}"
                ledger.note(episode.episode_id, where, "has no column; left out")


def number(
    value: Any, field: str, episode: trajectory_lib.EpisodeTrajectory, ledger: Ledger
) -> float:
    """Returns a reward or a discount as one number; NaN for None."""
    if value is None:
        return float("nan")
    item = value.item() if getattr(value, "shape", None) == () else value
    if type(item) not in (int, float, bool):
        ledger.note(episode.episode_id, field, "is no single number; its sum stands for it")
    return reward_value(value)


def _answer(decision: trajectory_lib.Decision) -> trajectory_lib.ModelCall | None:
    """Returns the model call that was acted on: the last one that gave a reply."""
    return next((call for call in reversed(decision.model_calls) if not call.error), None)
