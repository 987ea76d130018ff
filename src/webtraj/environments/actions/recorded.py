"""The verbs and answers of recorded actions, in any recorded form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import Decision, EpisodeTrajectory, StepRecord

__all__ = [
    "ANSWER",
    "ANSWERING",
    "DUMMY",
    "GO_BACK",
    "INVALID",
    "INVALID_URL",
    "answer_of",
    "describe",
    "final_answer",
    "is_invalid",
    "same_action",
    "verb_of",
]

ANSWER = "answer"
GO_BACK = "go_back"
INVALID = "invalid"

DUMMY = "none"
"""WebGym's placeholder for an action that is None."""
INVALID_URL = "invalid_url"
"""WebGym's placeholder for a task whose page could not be opened."""

_KEYS = {"goback": GO_BACK}
"""WebGym's words that differ from ours."""


def verb_of(action: Any) -> str:
    """Return an action's verb; empty if it is unknown.

    Supports actions, strings in BrowserGym's dialect, and what WebGym stores (`{"key": "goback"}`).
    A string that cannot be parsed has no verb: it belongs to another environment and is not
    invalid.

    >>> verb_of("go_back()"), verb_of({"key": "goback"}), verb_of("up"), verb_of(3)
    ('go_back', 'go_back', '', '')
    """
    if isinstance(action, str):
        from webtraj.environments.actions import parse_action

        verb = parse_action(action).verb
        return "" if verb == INVALID else verb
    if isinstance(action, Mapping):
        key = action.get("key")
        return _KEYS.get(key, key) if isinstance(key, str) else ""
    if isinstance(action, OpaqueRecord):
        name = action.type_name
        return name.removeprefix(_RECORDED) if name.startswith(_RECORDED) else ""
    verb = getattr(type(action), "verb", "")
    return verb if isinstance(verb, str) else ""


def is_invalid(step: StepRecord) -> bool:
    """Return whether a step's action is a reply that could not be parsed."""
    if step.decision is not None and step.decision.parse_error:
        return True
    if not isinstance(step.action, str):
        return verb_of(step.action) == INVALID
    # Only its environment knows what a text was to be.
    last = step.observation.get("last_action") if isinstance(step.observation, Mapping) else None
    kind = last.get("error_kind") if isinstance(last, Mapping) else None
    return isinstance(kind, str) and kind.startswith(f"{INVALID}_")


def same_action(action: Any, other: Any) -> bool:
    """Return whether two actions are the same."""
    try:
        return bool(action == other)
    except (ValueError, TypeError):  # Arrays have no truth value, or cannot be compared.
        return repr(action) == repr(other)


ANSWERING: Mapping[str, str] = {
    "answer": "text",
    "send_message": "text",
    "report_infeasible": "reason",
}
"""The verbs that tell the user something, with the field that holds the text."""

_RECORDED = "action/"
_WEBGYM_TEXTS = ("content", "text", "answer")


def final_answer(trajectory: EpisodeTrajectory) -> str | None:
    """Return the agent's last text to the user; None if there is none.

    This is the text of its last answer, message, or report that the task cannot be done.

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
    """Return an action's text to the user; None if it has none.

    Supports actions, strings in BrowserGym's dialect, and what WebGym stores (`{"key": "answer",
    ...}`).

    >>> answer_of("send_msg_to_user('It is red.')"), answer_of("click('12')")
    ('It is red.', None)
    """
    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, str):
        from webtraj.environments.actions import parse_action

        action = parse_action(action)
    if isinstance(action, Mapping):
        return _find_webgym_answer(action)
    field = ANSWERING.get(verb_of(action), "")
    if isinstance(action, OpaqueRecord):
        told = action.fields.get(field) if field else None
    else:
        told = getattr(action, field, None) if field else None
    return told if isinstance(told, str) else None


def _find_webgym_answer(action: Mapping[Any, Any]) -> str | None:
    arguments = action.get("arguments")
    if action.get("key") != "answer" or not isinstance(arguments, Mapping):
        return None
    texts = (arguments.get(name) for name in _WEBGYM_TEXTS)
    return next((text for text in texts if isinstance(text, str)), None)


def describe(action: Any) -> str:
    """Return an action as text, from any recorded form.

    >>> from webtraj.environments import actions
    >>> describe(actions.Click("12")), describe("scroll(0, 100)"), describe(None)
    ("click('12')", 'scroll(0, 100)', 'nothing')
    """
    from webtraj.environments import actions

    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, actions.InvalidAction):
        return f"a reply that was not an action: {action.reason}"
    if isinstance(action, actions.Action):
        try:
            return actions.format_action(action)
        except errors.UnsupportedActionError:
            return repr(action)
    if action is None:
        return "nothing"
    return action if isinstance(action, str) else repr(action)
