"""The content of masked fields, where the recorded actions show it.

A password shows as bullets. If the agent typed it, its value is the text typed last, provided that
the field shows as many bullets and no later action could have changed it. Otherwise it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from webtraj.environments import actions as a
from webtraj.environments.browser.recorded_channels import channel_of, last_action_of, read_string
from webtraj.trajectory import Decision, StepRecord

__all__ = ["is_masked", "is_redacted", "find_typed_texts"]

_MASKS: Final = frozenset("*\u2022\u25cf")
_REDACTED = re.compile(r"<secret:[A-Za-z0-9][A-Za-z0-9_.-]*>|<not recorded: ")
_VALUE = re.compile(
    r'^ *\[(?P<ref>[^\]]+)\].* value=(?P<value>"(?:[*\u2022\u25cf]|\\u2022|\\u25cf)+")',
    re.MULTILINE,
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_LEAVES_ALONE = (
    a.Click, a.ClickAt, a.Hover, a.MoveMouse, a.Scroll, a.ScrollAt, a.Focus, a.Wait, a.Screenshot,
    a.CursorPosition, a.Check, a.Uncheck, a.SelectOption, a.SendMessage, a.Answer,
    a.ReportInfeasible, a.InvalidAction, a.NewTab, a.FocusTab, a.Goto, a.GoBack, a.GoForward,
    a.Reload,
)  # fmt: skip
"""Actions that type nothing. If one opens another page, the fields there have other refs."""


def is_masked(value: str) -> bool:
    """Return whether a field's value, as the page shows it, is masked.

    >>> is_masked("\u2022\u2022\u2022"), is_masked("a**"), is_masked("")
    (True, False, False)
    """
    return bool(value) and set(value) <= _MASKS


def is_redacted(text: str) -> bool:
    """Return whether part of a recorded text was redacted (`webtraj.redaction`).

    >>> is_redacted("<secret:password>"), is_redacted("secret")
    (True, False)
    """
    return bool(_REDACTED.search(text))


def find_typed_texts(steps: Sequence[StepRecord]) -> list[Mapping[str, str]]:
    """Return the known content of masked fields after each step, by ref.

    The content is known after a successful `fill`, or after successful typing into an empty field,
    if the field shows as many characters. It stays known until the field shows a different number
    of characters, other typing changes it, or an action may have typed into the focused element.
    """
    after: list[Mapping[str, str]] = []
    known: dict[str, str] = {}
    masked: Mapping[str, int] | None = None
    for step in steps:
        before, masked = masked, _count_masked(step)
        if step.first or before is None or masked is None:
            known = {}
        else:
            held = _after(step, known, before) if masked else {}
            known = {ref: text for ref, text in held.items() if masked.get(ref) == _length(text)}
        after.append(known)
    return after


def _after(step: StepRecord, known: Mapping[str, str], before: Mapping[str, int]) -> dict[str, str]:
    """Return the content that may be known after a step, before comparing it with the page."""
    observation: Any = step.observation
    last = last_action_of(observation)
    action = _action_of(step.action)
    if action is None or not last:
        return {}
    if isinstance(action, _LEAVES_ALONE) or (
        isinstance(action, a.Press) and action.keys == "Enter"
    ):
        return dict(known)
    if not isinstance(action, (a.Fill, a.TypeInto, a.TypeAt)):
        return {}
    ref = last.get("ref") or str(getattr(action, "ref", ""))
    text = action.value if isinstance(action, a.Fill) else action.text
    if not ref or _CONTROLS.search(text):
        return {}  # A tab moves to the next field.
    rest = {other: held for other, held in known.items() if other != ref}
    replaces = isinstance(action, a.Fill) or action.clear or not before.get(ref)
    if last.get("error") or is_redacted(text) or not replaces:
        return rest
    return {**rest, ref: text}


def _count_masked(step: StepRecord) -> Mapping[str, int] | None:
    """Return the masked fields of a step's page, with the number of characters each shows.

    None if the page was not observed.
    """
    tree = channel_of(step.observation, "axtree")
    if not isinstance(tree, str):
        return None
    return {found["ref"]: len(read_string(found["value"])) for found in _VALUE.finditer(tree)}


def _length(text: str) -> int:
    """Return a text's length in UTF-16 code units, as pages count it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _action_of(action: Any) -> a.Action | None:
    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, str):
        action = a.parse_action(action)
    return action if isinstance(action, a.Action) else None
