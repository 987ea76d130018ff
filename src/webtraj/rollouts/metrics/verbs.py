"""What kind of action a recorded action is, in whichever form it was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.store.values import OpaqueRecord

__all__ = ["ANSWER", "DUMMY", "GO_BACK", "INVALID", "INVALID_URL", "same_action", "verb_of"]

ANSWER = "answer"
GO_BACK = "go_back"
INVALID = "invalid"

DUMMY = "none"
"""What WebGym puts in the place of an action that is None,"""
INVALID_URL = "invalid_url"
"""and where a task's page could not be opened."""

_RECORDED = "action/"
_KEYS = {"goback": GO_BACK}
"""WebGym's words where they differ from ours."""


def verb_of(action: Any) -> str:
    """Returns an action's verb; empty if it is none that is known here.

    Actions, strings of BrowserGym's dialect, and what WebGym stores (`{"key": "goback"}`) have one.
    A string that is not read by that dialect is some other environment's action, and not invalid.

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


def same_action(action: Any, other: Any) -> bool:
    """Returns whether two actions are the same."""
    try:
        return bool(action == other)
    except (ValueError, TypeError):  # Arrays: they have no one truth, or cannot be compared.
        return repr(action) == repr(other)
