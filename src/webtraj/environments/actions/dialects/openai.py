"""OpenAI's computer use: the actions of `computer_call` items.

`{"type": "click", "button": "left", "x": 640, "y": 360}`

A call of the tool `computer` may hold several actions; a call of `computer_use_preview` holds one.

Coordinates are pixels of the screenshot that the model sees. A click with the mouse's back or
forward button is `GoBack` or `GoForward`. `wait` has no duration; it is `wait_seconds` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.actions import verbs
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import replies
from webtraj.environments.actions.dialects.phrases import (
    Argument,
    FormatError,
    ObjectDialect,
    ParseError,
    Phrase,
    group,
    invalid,
    one_tool,
    value,
)
from webtraj.environments.actions.dialects.replies import Frame

__all__ = ["OpenAIDialect", "TOOLS"]

TOOLS = {"computer": False, "computer_use_preview": True}
"""The tools by type, and whether they take the screen's size; the first is the default."""

_BUTTONS = {"left": "left", "right": "right", "wheel": "middle"}
_KEY_LIST = {"type": "array", "items": {"type": "string"}}


def _read_button(button: Any) -> str:
    if not isinstance(button, str) or button not in _BUTTONS:
        raise ValueError(f"button must be one of {', '.join(_BUTTONS)}; got {str(button)[:40]!r}")
    return _BUTTONS[button]


def _read_keys(names: Any) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"keys must be a list of key names; got {str(names)[:60]!r}")
    keys: list[str] = []
    is_split = False
    for name in names:
        whole = keys_lib.canonical_key(name)
        # Models also write a whole chord as one name: "CTRL+A".
        parts = [name] if whole else [part.strip() or part for part in keys_lib.split_chord(name)]
        is_split |= len(parts) > 1
        for part in parts:
            if (key := keys_lib.canonical_key(part)) is None:
                raise ValueError(f"{name[:40]!r} is not the name of a key")
            keys.append(key)
    if is_split and "Shift" in keys:
        # "ctrl+shift+t" is what the tool's own names say as ["CTRL", "SHIFT", "T"].
        keys = [key.upper() if len(key) == 1 else key for key in keys]
    return tuple(keys)


def _write_keys(keys: tuple[str, ...]) -> list[str]:
    return [keys_lib.spell_key(key, keys_lib.OPENAI_NAMES, upper=True) for key in keys]


def _read_chord(names: Any) -> str:
    if not (keys := _read_keys(names)):
        raise ValueError("keys must name at least one key; got []")
    return keys_lib.join_chord(keys)


def _write_chord(keys: str) -> list[str]:
    if " " in keys:
        raise FormatError(f"{keys!r}, only keys held together")
    return _write_keys(keys_lib.split_chord(keys))


def _path(frame: Frame) -> Argument:
    def read(path: Any) -> tuple[tuple[float, float], ...]:
        if not isinstance(path, (list, tuple)):
            raise ValueError(f"path must be a list of points; got {str(path)[:60]!r}")
        return tuple(point(wire) for wire in path)

    def point(wire: Any) -> tuple[float, float]:
        if not isinstance(wire, Mapping) or set(wire) != {"x", "y"}:
            raise ValueError(f"a point must be an object with x and y; got {str(wire)[:60]!r}")
        return frame.from_shown(wire["x"], wire["y"])

    def write(path: tuple[tuple[float, float], ...]) -> list[dict[str, int]]:
        return [dict(zip(("x", "y"), frame.to_shown(*point), strict=True)) for point in path]

    schema = {"type": "array", "items": frame.point_schema(), "minItems": 2}
    return value("path", read=read, write=write, schema=schema)


def _anywhere(frame: Frame) -> Argument:
    """The ignored point of a click that goes back or forward."""

    def read(x: Any, y: Any) -> Mapping[str, Any]:
        frame.from_shown(x, y)
        return {}

    schemas = frame.point_schema()["properties"]
    return group(schemas, (), read=read, write=lambda: {"x": 0, "y": 0})


def _no_keys() -> Argument:
    """The argument for keys held during a move. It must be empty."""

    def read(args: Mapping[str, Any]) -> Mapping[str, Any]:
        if args.get("keys", []) != []:
            raise ValueError("a move holds no keys; click, drag or scroll with them")
        return {}

    return Argument(
        names=("keys",),
        fields=(),
        read=read,
        write=lambda action: {},
        schemas=lambda cls: {"keys": {**_KEY_LIST, "maxItems": 0}},
        optional=frozenset(("keys",)),
    )


def _phrases(frame: Frame, wait_seconds: float) -> tuple[Phrase, ...]:
    point, anywhere = frame.columns(), _anywhere(frame)
    button = value(
        "button",
        read=_read_button,
        write=lambda held: {mine: theirs for theirs, mine in _BUTTONS.items()}[held],
        schema={"type": "string", "enum": list(_BUTTONS)},
    )
    held = value(
        "keys", "modifiers", read=_read_keys, write=_write_keys, schema=_KEY_LIST, optional=True
    )
    chord = value("keys", read=_read_chord, write=_write_chord, schema=_KEY_LIST)
    double = {"button": "left", "count": 2}
    return (
        Phrase("click", verbs.GoBack, (anywhere,), wire={"button": "back"}),
        Phrase("click", verbs.GoForward, (anywhere,), wire={"button": "forward"}),
        Phrase("click", verbs.ClickAt, (point, button, held), fields={"count": 1}),
        Phrase("double_click", verbs.ClickAt, (point, held), fields=double),
        Phrase("drag", verbs.DragAt, (_path(frame), held)),
        Phrase("keypress", verbs.PressKey, (chord,)),
        Phrase("move", verbs.MoveMouse, (point, _no_keys())),
        Phrase("screenshot", verbs.Screenshot),
        Phrase(
            "scroll",
            verbs.ScrollAt,
            (point, value("scroll_x", "dx"), value("scroll_y", "dy"), held),
        ),
        Phrase("type", verbs.TypeText, (value("text"),)),
        Phrase("wait", verbs.Wait, fields={"seconds": wait_seconds}),
    )


class OpenAIDialect(ObjectDialect):
    """The dialect of OpenAI's computer tool. See the module."""

    def __init__(
        self,
        viewport: tuple[int, int] = (1280, 720),
        *,
        tool: str = "",
        shown: tuple[int, int] | None = None,
        wait_seconds: float = 1.0,
    ) -> None:
        """Make the dialect.

        Args:
          viewport: Width and height of the page in CSS pixels.
          tool: The type of the tool to offer, a key of `TOOLS`. This does not change how replies
              are read.
          shown: Width and height of the screenshots that the model sees; None means the viewport's.
          wait_seconds: The duration of a `wait`.
        """
        self._tool = one_tool("openai", tool, TOOLS)
        self._frame = Frame(*viewport, *(shown or viewport))
        wait = verbs.Wait(wait_seconds)
        phrases = _phrases(self._frame, wait.seconds)
        super().__init__("openai", phrases, word_key="type", call="computer_call")

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes an action, a `computer_call` item, output, or their JSON."""
        actions = self.parse_all(reply)
        if len(actions) == 1:
            return actions[0]
        reason = f"The reply holds {len(actions)} actions; exactly one was expected."
        return invalid("several_actions", reason, reply)

    def parse_all(self, reply: Any) -> tuple[Action, ...]:
        """Parse all actions of a reply, at least one; a call item may hold several.

        One unreadable action makes the whole reply one `InvalidAction`.
        """
        try:
            return tuple(self._read(item) for item in self._items_in(replies.read_object(reply)))
        except ParseError as problem:
            return (invalid(problem.kind, problem.reason, reply),)

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`. The tool is built into the model, so its name is enough."""
        size = {
            "display_width": self._frame.shown_width,
            "display_height": self._frame.shown_height,
            "environment": "browser",
        }
        return [{"type": self._tool, **(size if TOOLS[self._tool] else {})}]

    def _read(self, item: Any) -> Action:
        if not isinstance(item, Mapping):
            raise ParseError("malformed", f"An object was expected; got a {type(item).__name__}.")
        args = replies.without_nulls(item)
        return self._book.read(args.pop("type", None), args)

    def _items_in(self, reply: Any) -> list[Any]:
        reply = self._object_in(reply)
        if reply.get("type") != "computer_call":
            return [reply]
        items = reply.get("actions") or [reply.get("action")]
        if not isinstance(items, (list, tuple)):
            raise ParseError("malformed", "The call's actions are not a list.")
        return list(items)
