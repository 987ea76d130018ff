"""Turn what was heard in a browser into actions: the verbs that an agent would have used.

Pure functions: `read_deed` reads one message of `browser.listener`. `join_deeds` joins two gestures
into one action, such as the two clicks of a double click or the letters of a text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib

__all__ = ["Deed", "read_deed", "join_deeds", "only_focuses", "refs_of"]

_BUTTONS: Final = {0: "left", 1: "middle", 2: "right"}
_SCROLLS_TOGETHER: Final = 1.0
"""Seconds between two scrolls of one element that count as one."""
_MAX_REPEATS: Final = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What somebody did, as an action."""

    action: a.Action
    touched: Mapping[str, Any] | None = None
    """The page script's description of its element."""
    point: tuple[float, float] | None = None
    """Where it was clicked, in CSS pixels."""
    document: int = 0
    """The number of the document that it was done in."""
    gesture: int = 0
    """The number of the gesture that it came from."""
    time: float = 0.0
    """When it was done, by the clock of `time.monotonic`."""
    repeat: bool = False
    """Whether a key was held down."""
    typed: a.TypeInto | None = None
    """The same text as keys, if the keys alone produced it: a page may listen to nothing else."""

    @property
    def is_text(self) -> bool:
        """Whether it enters text."""
        return isinstance(self.action, a.Fill | a.TypeInto)

    @property
    def is_in_password_field(self) -> bool:
        """Whether its element is a password field."""
        return bool((self.touched or {}).get("secret"))


def read_deed(
    kind: str, message: Mapping[str, Any], *, press: Mapping[str, Any] | None = None
) -> Deed | None:
    """Return the gesture that a message reports; None if it is not an action.

    Args:
        kind: The message's kind, such as `up` or `text`.
        message: The message.
        press: For `up`, the `begin` message of the same press.
    """
    try:
        action = _action_of(kind, message, press)
    except (errors.InvalidInputError, LookupError, TypeError, ValueError):
        return None  # Beyond what an action can say, such as a key of an unknown keyboard.
    if action is None:
        return None
    typed = None
    if message.get("typed") and isinstance(action, a.Fill):
        typed = a.TypeInto(action.ref, action.value, clear=bool(message["replaces"]))
    source = press if kind == "up" and press else message
    x, y = source.get("point") or (None, None)
    return Deed(
        action=action,
        touched=source.get("element"),
        point=None if x is None or y is None else (float(x), float(y)),
        repeat=bool(message.get("repeat", False)),
        typed=typed,
    )


def _action_of(
    kind: str, message: Mapping[str, Any], press: Mapping[str, Any] | None
) -> a.Action | None:
    element = message.get("element")
    match kind:
        case "up" if press is not None:
            return _read_click(press, message)
        case "drop":
            return a.DragTo(element["ref"], message["target"]["ref"])  # type: ignore[index]
        case "key":
            return _read_press(message)
        case "text" if message["keys"]:
            return a.TypeInto(element["ref"], message["keys"])  # type: ignore[index]
        case "text":
            return a.Fill(element["ref"], message["value"])  # type: ignore[index]
        case "toggle":
            return (a.Check if message["on"] else a.Uncheck)(element["ref"])  # type: ignore[index]
        case "choose":
            return a.SelectOption(element["ref"], tuple(message["options"]))  # type: ignore[index]
        case "files" if message["names"]:
            return a.UploadFile(element["ref"], tuple(message["names"]))  # type: ignore[index]
        case "scroll":
            return _read_scroll(message)
    return None


def _read_click(press: Mapping[str, Any], up: Mapping[str, Any]) -> a.Action:
    button: Any = _BUTTONS[press["button"]]
    modifiers = tuple(press["modifiers"])
    if up["path"]:
        if button != "left":
            raise ValueError("Only the left button drags.")
        path = tuple((round(x, 1), round(y, 1)) for x, y in up["path"])
        return a.DragAt(path, modifiers)
    count = int(up["count"])
    element = press["element"]
    if element["place"]:
        x, y = press["point"]
        return a.ClickAt(round(x, 1), round(y, 1), button, modifiers, count)
    return a.Click(element["ref"], button, modifiers, count)


def _read_press(message: Mapping[str, Any]) -> a.Action | None:
    chords = []
    for chord in message["keys"].split(" "):
        keys = [keys_lib.canonical_key(key) for key in keys_lib.split_chord(chord)]
        if None in keys:
            return None
        chords.append(keys_lib.join_chord(tuple(key for key in keys if key)))
    chord = " ".join(chords)
    element = message["element"]
    return (
        a.PressKey(chord) if element is None or element["root"] else a.Press(element["ref"], chord)
    )


def _read_scroll(message: Mapping[str, Any]) -> a.Action | None:
    element = message["element"]
    dx, dy = (round(float(message[name]), 1) for name in ("dx", "dy"))
    if dx or dy:
        return a.Scroll(dx, dy, None if element is None else element["ref"])
    x, y = message["point"]
    turned_x, turned_y = message["turned"]
    if not (turned_x or turned_y):
        return None
    # Nothing scrolled, but a map may have zoomed.
    return a.ScrollAt(x, y, turned_x, turned_y)


def join_deeds(last: Deed, new: Deed) -> Deed | None:
    """Return one deed for two in a row; None if they are two."""
    action: a.Action | None = None
    before, after = last.action, new.action
    same_element = last.document == new.document and (
        getattr(before, "ref", "") == getattr(after, "ref", None)
    )
    if new.repeat:
        action = _repeat_press(before, after)
    elif last.gesture == new.gesture:
        # What a click or key led to says more than the click: it ticked a box, it typed a letter.
        action = after
    elif isinstance(before, a.Fill) and isinstance(after, a.Fill) and same_element:
        action = after
    elif isinstance(before, a.Click | a.ClickAt) and isinstance(after, a.Click | a.ClickAt):
        same_place = same_element if isinstance(after, a.Click) else isinstance(before, a.ClickAt)
        if same_place and before.button == after.button and after.count == before.count + 1:
            action = after
    elif isinstance(before, a.Scroll) and isinstance(after, a.Scroll):
        together = same_element and new.time - last.time <= _SCROLLS_TOGETHER
        action = (
            a.Scroll(before.dx + after.dx, before.dy + after.dy, before.ref) if together else None
        )
    return None if action is None else dataclasses.replace(new, action=action)


def _repeat_press(before: a.Action, after: a.Action) -> a.Action | None:
    if not isinstance(before, a.Press | a.PressKey) or not isinstance(after, type(before)):
        return None
    chords = before.keys.split(" ")
    if dataclasses.replace(before, keys=chords[-1]) != after or len(chords) >= _MAX_REPEATS:
        return None
    return dataclasses.replace(before, keys=" ".join([*chords, chords[-1]]))


def only_focuses(last: Deed, new: Deed) -> bool:
    """Return whether a click only gave the focus to the field that was then filled."""
    return (
        last.document == new.document
        and isinstance(last.action, a.Click)
        and isinstance(new.action, a.Fill)
        and last.action.ref == new.action.ref
        and last.action == a.Click(last.action.ref, count=last.action.count)
    )


def refs_of(action: a.Action) -> list[str]:
    """Return the refs of an action's elements."""
    found = (getattr(action, field, None) for field in ("ref", "target_ref"))
    return [ref for ref in found if isinstance(ref, str)]
