"""What an agent answered, in whichever form its actions were recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import Decision, EpisodeTrajectory

__all__ = ["ANSWERING", "answer_of", "final_answer"]

ANSWERING: Mapping[str, str] = {
    "answer": "text",
    "send_message": "text",
    "report_infeasible": "reason",
}
"""The verbs that tell the user something, and the field that holds what."""

_RECORDED = "action/"
_WEBGYM_TEXTS = ("content", "text", "answer")


def final_answer(trajectory: EpisodeTrajectory) -> str | None:
    """Returns what the agent last told the user; None if it never told anything.

    That is the text of its last answer, message, or report that the task cannot be done.

    >>> from webtraj.environments import actions
    >>> from webtraj.trajectory import EpisodeInfo, StepRecord, StepType
    >>> steps = (
    ...     StepRecord(0, StepType.FIRST, {}),
    ...     StepRecord(1, StepType.LAST, {}, actions.Answer("12 dollars"), 0.0, 0.0),
    ... )
    >>> final_answer(EpisodeTrajectory(EpisodeInfo(), steps))
    '12 dollars'
    """
    answers = (answer_of(step.action) for step in reversed(trajectory.steps) if not step.first)
    return next((answer for answer in answers if answer is not None), None)


def answer_of(action: Any) -> str | None:
    """Returns what an action tells the user; None if it tells nothing.

    Actions, strings of BrowserGym's dialect, and what WebGym stores (`{"key": "answer", ...}`) are
    understood.

    >>> answer_of("send_msg_to_user('It is red.')"), answer_of("click('12')")
    ('It is red.', None)
    """
    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, str):
        from webtraj.environments.actions import parse_action

        action = parse_action(action)
    if isinstance(action, Mapping):
        return _told_in_webgym(action)
    if isinstance(action, OpaqueRecord):
        if not action.type_name.startswith(_RECORDED):
            return None
        field = ANSWERING.get(action.type_name.removeprefix(_RECORDED), "")
        told = action.fields.get(field)
    else:
        verb = getattr(type(action), "verb", None)
        field = ANSWERING.get(verb, "") if isinstance(verb, str) else ""
        told = getattr(action, field, None) if field else None
    return told if isinstance(told, str) else None


def _told_in_webgym(action: Mapping[Any, Any]) -> str | None:
    arguments = action.get("arguments")
    if action.get("key") != "answer" or not isinstance(arguments, Mapping):
        return None
    texts = (arguments.get(name) for name in _WEBGYM_TEXTS)
    return next((text for text in texts if isinstance(text, str)), None)
