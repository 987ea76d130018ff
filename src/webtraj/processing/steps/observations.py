"""Observations and actions, read for steps that compare episodes.

Observations come from any environment, so no channel is required here. Large values that are read
lazily (`LazyBlob`) are compared by content hash.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping, Sized
from typing import Any, Final

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments.actions import verbs as verbs_lib
from webtraj.environments.browser.observation import Ref, refs_in
from webtraj.environments.browser.recorded_channels import (
    channel_of,
    last_action_of,
    number_of,
    text_of,
)
from webtraj.store.blobs import LazyBlob

__all__ = [
    "INTERACTIVE",
    "OF_THE_PAGE",
    "Element",
    "action_of",
    "channel",
    "content_of",
    "element_of",
    "events_in",
    "fingerprint",
    "focus_in",
    "is_empty",
    "is_unobserved",
    "never_observed",
    "format_action_of",
    "tree_without",
    "verb_of",
]

INTERACTIVE: Final = frozenset(
    {
        "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio",
        "switch", "slider", "spinbutton", "tab", "option", "menuitem", "menuitemcheckbox",
        "menuitemradio", "treeitem",
    }
)  # fmt: skip
"""Roles of interactive elements, as set-of-marks pictures mark them."""

OF_THE_PAGE: Final = (
    "url", "title", "axtree", "boxes", "text", "screenshot", "set_of_marks", "focused", "scroll",
    "tabs", "active_tab", "http_status",
)  # fmt: skip
"""The channels that show a page's state, not events."""

_EVENTS = ("dialogs", "blocked", "console")
_INDENT = re.compile(r" *")
_REF = re.compile(r"^( *)\[([^\]]+)\] ", re.MULTILINE)
_FOCUSED = re.compile(r'("(?:[^"\\\n]|\\.)*")| focused(?= |$)', re.MULTILINE)


def channel(observation: Any, name: str) -> Any:
    """Return a channel of an observation, reading it if lazy; None if missing or empty."""
    value = channel_of(observation, name)
    return None if is_empty(value) else value


def is_empty(value: Any) -> bool:
    """Return whether a value is empty. A number never is."""
    if isinstance(value, np.ndarray):
        return value.size == 0
    return value is None or (isinstance(value, Sized) and len(value) == 0)


def never_observed(trajectory: trajectory_lib.EpisodeTrajectory) -> frozenset[str]:
    """Return the channels that are None in all steps, such as an error if none occurred."""
    seen: dict[str, bool] = {}
    for step in trajectory.steps:
        if isinstance(step.observation, Mapping):
            for name, value in step.observation.items():
                seen[name] = seen.get(name, False) or value is not None
    return frozenset(name for name, is_seen in seen.items() if not is_seen)


def is_unobserved(observation: Any, never: frozenset[str] = frozenset()) -> bool:
    """Return whether an observation, or a channel not in `never`, is missing."""
    if not isinstance(observation, Mapping):
        return is_empty(observation)
    values = [value for name, value in observation.items() if name not in never]
    return not values or any(value is None for value in values)


def content_of(value: Any) -> Any:
    """Return a key that differs for different content and is cheap to compare and hash."""
    if isinstance(value, LazyBlob):
        return value.blob.sha256
    if isinstance(value, str):
        return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        content = hashlib.sha256(value.tobytes())
        return value.dtype.str, value.shape, content.hexdigest()
    if isinstance(value, np.ndarray):
        return tuple(content_of(item) for item in value.ravel().tolist())
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), content_of(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(content_of(item) for item in value)
    return repr(value)


def tree_without(axtree: str, *, refs: bool = False, focus: bool = False) -> str:
    r"""Return an axtree without refs or without the focus mark.

    >>> tree_without('[7] textbox "I am focused" focused', refs=True, focus=True)
    'textbox "I am focused"'
    """
    if refs:
        axtree = _REF.sub(r"\1", axtree)
    if focus and " focused" in axtree:  # Searching is fast, replacing is not.
        axtree = _FOCUSED.sub(lambda found: found[1] or "", axtree)
    return axtree


def events_in(observation: Any) -> tuple[str, ...]:
    """Return the channels with events outside the page: a dialog, a download, ..."""
    found = [name for name in _EVENTS if channel(observation, name) is not None]
    downloads = channel(observation, "downloads")
    if isinstance(downloads, Mapping) and channel(downloads, "names") is not None:
        found.append("downloads")
    return tuple(found)


def fingerprint(observation: Any, *, screenshot: bool = True) -> str | None:
    """Return a fingerprint of a page's state: its URL and content.

    Refs and focus are ignored, because a reopened page has other refs.

    Args:
        observation: Any observation.
        screenshot: Whether to include the picture, if there is one.

    Returns:
        The fingerprint; None if the observation shows no page.
    """
    tree = text_of(observation, "axtree")
    shown = tree_without(tree, refs=True, focus=True) or text_of(observation, "text")
    picture = None
    if isinstance(observation, Mapping) and (screenshot or not shown):
        picture = observation.get("screenshot")
        picture = None if is_empty(picture) else picture
    if not shown and picture is None:
        return None
    scroll = channel(observation, "scroll")
    parts = (
        text_of(observation, "url"),
        shown,
        content_of(picture),
        content_of(channel(observation, "tabs")),
        repr(channel(observation, "active_tab")),
        [number_of(scroll, name) for name in ("x", "y")] if isinstance(scroll, Mapping) else [],
    )
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def action_of(action: Any) -> actions_lib.Action | None:
    """Return a recorded action as a webtraj action; None if it is not one.

    Text is parsed in BrowserGym's dialect.
    """
    if isinstance(action, trajectory_lib.Decision):
        action = action.action
    action = actions_lib.read_action(action)
    return action if isinstance(action, actions_lib.Action) else None


def verb_of(action: Any) -> str:
    """Return an action's verb; empty if unknown."""
    found = action_of(action)
    return "" if found is None else found.verb


def format_action_of(action: Any) -> str:
    """Return an action as text, as a call if possible.

    >>> format_action_of(actions_lib.Click("12")), format_action_of({"key": "scroll"})
    ("click('12')", "{'key': 'scroll'}")
    """
    found = action_of(action)
    if found is None or isinstance(found, actions_lib.InvalidAction):
        return action if isinstance(action, str) else repr(action)
    return actions_lib.format_action(found)


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """The target of an action."""

    role: str = ""
    """Empty if unknown."""
    name: str = ""
    around: tuple[str, ...] = ()
    """Roles of the enclosing elements, as far as the axtree has them."""

    @property
    def is_interactive(self) -> bool:
        """Whether it, or an enclosing element, is interactive."""
        return self.role in INTERACTIVE or any(role in INTERACTIVE for role in self.around)

    def __str__(self) -> str:
        return f'{self.role} "{self.name}"' if self.name else self.role


def element_of(before: Any, step: trajectory_lib.StepRecord) -> Element:
    """Return the target of a step's action, from the record and the page before.

    For a keyboard action that names no element, it is the focused element.
    """
    last = last_action_of(step.observation)
    tree = text_of(before, "axtree")
    action = action_of(step.action)
    ref = last.get("ref") or _ref_of(action)
    if not ref and isinstance(action, verbs_lib.KEYBOARD) and (focus := focus_in(before)):
        ref = focus.ref
    found, around = _in_tree(tree, ref)
    return Element(
        role=last.get("role") or found.role,
        name=last.get("name") or found.name,
        around=around,
    )


def focus_in(observation: Any) -> Ref | None:
    """Return the element that has the focus, if the axtree shows it."""
    ref = text_of(observation, "focused")
    for line in text_of(observation, "axtree").splitlines():
        if line.lstrip().startswith(f"[{ref}] ") if ref else _has_focus(line):
            return next(iter(refs_in(line)), None)
    return None


def _has_focus(line: str) -> bool:
    return " focused" in line and tree_without(line, focus=True) != line


def _ref_of(action: actions_lib.Action | None) -> str:
    ref = getattr(action, "ref", None)
    return ref if isinstance(ref, str) else ""


def _in_tree(tree: str, ref: str) -> tuple[Element, tuple[str, ...]]:
    """Return a ref's element and the roles of its enclosing elements, nearest first."""
    if not ref or f"[{ref}] " not in tree:
        return Element(), ()
    path: list[tuple[int, str]] = []
    for line in tree.splitlines():
        depth = _depth(line)
        while path and path[-1][0] >= depth:
            path.pop()
        if line.startswith(f"[{ref}] ", depth):
            around = tuple(role for _, role in reversed(path))
            return next((Element(r.role, r.name) for r in refs_in(line)), Element()), around
        if line.startswith("[", depth):
            path.append((depth, line[depth:].partition("] ")[2].partition(" ")[0]))
    return Element(), ()


def _depth(line: str) -> int:
    found = _INDENT.match(line)
    return found.end() if found else 0
