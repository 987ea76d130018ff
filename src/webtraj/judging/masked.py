"""What fields hold that do not show it: as far as the recorded actions tell.

A password shows as bullets. What it is can be known all the same if the agent typed it: then it is
what was typed last, as long as the field shows as many bullets and nothing was done since that
could have changed it. What is not sure is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from webtraj.environments import actions as a
from webtraj.store.blobs import LazyBlob
from webtraj.trajectory import Decision, StepRecord

__all__ = ["is_masked", "is_redacted", "typed_texts"]

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
"""What does not type. Where it opens another page, the fields of that have other refs."""


def is_masked(value: str) -> bool:
    """Returns whether a field's value, as the page shows it, is only that it holds something.

    >>> is_masked("\u2022\u2022\u2022"), is_masked("a**"), is_masked("")
    (True, False, False)
    """
    return bool(value) and set(value) <= _MASKS


def is_redacted(text: str) -> bool:
    """Returns whether something was left out of a recorded text (`webtraj.environments.redaction`).

    >>> is_redacted("<secret:password>"), is_redacted("secret")
    (True, False)
    """
    return bool(_REDACTED.search(text))


def typed_texts(steps: Sequence[StepRecord]) -> list[Mapping[str, str]]:
    """Returns for each step what its masked fields hold, by ref, those alone of which it is known.

    It is known after a `fill`, or typing into an empty field, that was done without error and left
    as many characters; until the field shows another number of them, is typed into in another way,
    or any action was taken that may have typed into whatever had the focus.
    """
    return list(_typed_texts(steps))


def _typed_texts(steps: Sequence[StepRecord]) -> Iterator[Mapping[str, str]]:
    known: dict[str, str] = {}
    masked: Mapping[str, int] | None = None
    for step in steps:
        before, masked = masked, _masked_in(step)
        if step.first or before is None or masked is None:
            known = {}
        else:
            held = _after(step, known, before) if masked else {}
            known = {ref: text for ref, text in held.items() if masked.get(ref) == _length(text)}
        yield known


def _after(step: StepRecord, known: Mapping[str, str], before: Mapping[str, int]) -> dict[str, str]:
    """Returns what may be known after a step: what is shown has not been looked at yet."""
    observation: Any = step.observation
    last = observation.get("last_action")
    action = _action_of(step.action)
    if action is None or not isinstance(last, Mapping):
        return {}
    if isinstance(action, _LEAVES_ALONE) or (
        isinstance(action, a.Press) and action.keys == "Enter"
    ):
        return dict(known)
    if not isinstance(action, (a.Fill, a.TypeInto, a.TypeAt)):
        return {}
    ref = str(last.get("ref") or "") or str(getattr(action, "ref", ""))
    text = action.value if isinstance(action, a.Fill) else action.text
    if not ref or _CONTROLS.search(text):
        return {}  # A tab goes on to the next field.
    rest = {other: held for other, held in known.items() if other != ref}
    replaces = isinstance(action, a.Fill) or action.clear or not before.get(ref)
    if last.get("error") or is_redacted(text) or not replaces:
        return rest
    return {**rest, ref: text}


def _masked_in(step: StepRecord) -> Mapping[str, int] | None:
    """Returns the masked fields of a step's page, and how many characters they show.

    None if the page was not observed: then nobody knows what was in them.
    """
    observation = step.observation
    tree = observation.get("axtree") if isinstance(observation, Mapping) else None
    if isinstance(tree, LazyBlob):
        tree = tree.load()
    if not isinstance(tree, str):
        return None
    return {found["ref"]: len(json.loads(found["value"])) for found in _VALUE.finditer(tree)}


def _length(text: str) -> int:
    """Returns a text's length as pages count it: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _action_of(action: Any) -> a.Action | None:
    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, str):
        action = a.parse_action(action)
    return action if isinstance(action, a.Action) else None
