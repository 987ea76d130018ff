"""Anthropic's computer use, in all versions of the tool.

`{"action": "left_click", "coordinate": [640, 360]}` is the input of the tools `computer_...`. A
toolset has a tool for each action: its `tool_use` blocks have the action as their name.

Coordinates are pixels of the screenshot that the model sees; keys have xdotool's names. The tool
allows a click without a coordinate, at the mouse's position; here that is an `InvalidAction`,
because a model that forgot where to click must not click.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj import errors
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
    show_value,
    value,
)
from webtraj.environments.actions.dialects.replies import Frame

__all__ = ["AnthropicDialect", "TOOLS"]

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "computer_20251124": {"name": "computer", "enable_zoom": True},
    "computer_20250124": {"name": "computer"},
    "computer_20241022": {"name": "computer"},
    "computer_toolset_20260801": {},
}
"""The versions of the tool by type, with their fixed options; the first is the default. Those with
a name get the screen's size."""
TOOL = "computer"
_STRING = {"type": "string"}
_DIRECTIONS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def read_keys(text: Any) -> str:
    """Convert xdotool keys to Playwright's names: `ctrl+s`, or several chords."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"text must name keys, such as 'ctrl+s'; got {str(text)[:60]!r}")
    chords = [keys_lib.split_chord(chord) for chord in text.split()]
    return " ".join("+".join(_key(name) for name in chord) for chord in chords)


def write_keys(keys: str) -> str:
    """Convert keys to xdotool's names: the inverse of `read_keys`."""
    chords = [keys_lib.split_chord(chord) for chord in keys.split(" ")]
    return " ".join(
        "+".join(keys_lib.spell_key(key, keys_lib.XDOTOOL_NAMES) for key in chord)
        for chord in chords
    )


def _key(name: str) -> str:
    if (key := keys_lib.canonical_key(name)) is None:
        raise ValueError(f"{name[:40]!r} is not the name of a key")
    return key


def _repeat_keys(text: Any, repeat: Any) -> Mapping[str, Any]:
    if type(repeat) is not int or not 1 <= repeat <= 100:
        raise ValueError(f"repeat must be a whole number from 1 to 100; got {str(repeat)[:40]!r}")
    return {"keys": " ".join([read_keys(text)] * repeat)}


def _wheel(pixels: int) -> Argument:
    """The argument for scrolling by wheel clicks of `pixels` each."""

    def read(direction: Any, amount: Any) -> Mapping[str, Any]:
        if not isinstance(direction, str) or direction not in _DIRECTIONS:
            raise ValueError(
                f"scroll_direction must be one of {', '.join(_DIRECTIONS)}; "
                f"got {str(direction)[:40]!r}"
            )
        if type(amount) is not int or amount < 0:
            raise ValueError(f"scroll_amount must be a whole number; got {str(amount)[:40]!r}")
        right, down = _DIRECTIONS[direction]
        return {"dx": right * amount * pixels, "dy": down * amount * pixels}

    def write(dx: float, dy: float) -> Mapping[str, Any]:
        distance = dx or dy
        if (dx and dy) or distance % pixels:
            raise FormatError(f"({dx}, {dy}) but only whole clicks of {pixels} pixels, one way")
        sign = 1 if distance >= 0 else -1
        direction = {v: k for k, v in _DIRECTIONS.items()}[(sign, 0) if dx else (0, sign)]
        return {"scroll_direction": direction, "scroll_amount": int(abs(distance) // pixels)}

    schemas: dict[str, dict[str, Any]] = {
        "scroll_direction": {"type": "string", "enum": list(_DIRECTIONS)},
        "scroll_amount": {"type": "integer", "minimum": 0},
    }
    return group(schemas, ("dx", "dy"), read=read, write=write)


def _drag(frame: Frame) -> Argument:
    def write(path: tuple[tuple[float, float], ...]) -> Mapping[str, Any]:
        if len(path) != 2:
            raise FormatError(f"a path of {len(path)} points")
        return {
            "start_coordinate": list(frame.to_shown(*path[0])),
            "coordinate": list(frame.to_shown(*path[1])),
        }

    schema = frame.pair_schema()
    return group(
        {"start_coordinate": schema, "coordinate": schema},
        ["path"],
        read=lambda start, end: {"path": (frame.read_pair(start), frame.read_pair(end))},
        write=write,
    )


def _phrases(frame: Frame, pixels_per_click: int) -> tuple[Phrase, ...]:
    point, wheel = frame.pair("coordinate"), _wheel(pixels_per_click)
    keys = value("text", "keys", read=read_keys, write=write_keys, schema=_STRING)
    held = value(
        "text",
        "modifiers",
        read=lambda text: keys_lib.split_chord(read_keys(text)),
        write=lambda modifiers: write_keys(keys_lib.join_chord(modifiers)),
        schema=_STRING,
        optional=True,
    )
    duration = value("duration", "seconds", write=lambda s: int(s) if s == int(s) else s)
    here = {"x": None, "y": None, "button": "left"}
    return (
        Phrase("key", verbs.PressKey, (keys,)),
        Phrase(
            "key",
            verbs.PressKey,
            (
                group(
                    {"text": _STRING, "repeat": {"type": "integer"}},
                    ["keys"],
                    read=_repeat_keys,
                    write=lambda keys: {},
                ),
            ),
            spoken=False,
        ),
        Phrase("hold_key", verbs.HoldKey, (keys, duration)),
        Phrase("type", verbs.TypeText, (value("text"),)),
        Phrase("cursor_position", verbs.CursorPosition),
        Phrase("mouse_move", verbs.MoveMouse, (point,)),
        Phrase("left_mouse_down", verbs.MouseDown, fields=here),
        Phrase("left_mouse_up", verbs.MouseUp, fields=here),
        Phrase("left_click", verbs.ClickAt, (point, held), fields={"button": "left", "count": 1}),
        Phrase("left_click_drag", verbs.DragAt, (_drag(frame), held)),
        Phrase("right_click", verbs.ClickAt, (point, held), {"button": "right", "count": 1}),
        Phrase("middle_click", verbs.ClickAt, (point, held), {"button": "middle", "count": 1}),
        Phrase("double_click", verbs.ClickAt, (point, held), {"button": "left", "count": 2}),
        Phrase("triple_click", verbs.ClickAt, (point, held), {"button": "left", "count": 3}),
        Phrase("scroll", verbs.ScrollAt, (point, wheel, held)),
        Phrase("scroll", verbs.Scroll, (wheel,)),
        Phrase("wait", verbs.Wait, (duration,)),
        Phrase("screenshot", verbs.Screenshot),
        Phrase("zoom", verbs.Screenshot, (frame.region("region"),)),
    )


class AnthropicDialect(ObjectDialect):
    """The dialect of Anthropic's computer tool. See the module."""

    def __init__(
        self,
        viewport: tuple[int, int] = (1280, 720),
        *,
        tool: str = "",
        shown: tuple[int, int] | None = None,
        pixels_per_click: int = 100,
    ) -> None:
        """Make the dialect.

        Args:
          viewport: Width and height of the page in CSS pixels.
          tool: The type of the tool to offer, a key of `TOOLS`. This does not change how replies
              are read.
          shown: Width and height of the screenshots that the model sees; None means the viewport's.
          pixels_per_click: How far one click of the wheel scrolls, in CSS pixels.
        """
        if type(pixels_per_click) is not int or pixels_per_click < 1:
            raise errors.InvalidInputError(
                f"pixels_per_click must be a whole number above 0; got {pixels_per_click!r}."
            )
        self._tool = one_tool("anthropic", tool, TOOLS)
        self._frame = Frame(*viewport, *(shown or viewport))
        phrases = _phrases(self._frame, pixels_per_click)
        super().__init__("anthropic", phrases, word_key="action", call="tool_use")

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes a tool input, a `tool_use` block, content, or their JSON."""
        try:
            args = replies.without_nulls(self._input_in(replies.read_object(reply)))
            return self._book.read(args.pop("action", None), args)
        except ParseError as problem:
            return invalid(problem.kind, problem.reason, reply)

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`. The tool is built into the model, so its name is enough."""
        tool = {"type": self._tool, **TOOLS[self._tool]}
        if "name" in tool:
            tool["display_width_px"] = self._frame.shown_width
            tool["display_height_px"] = self._frame.shown_height
        return [tool]

    def _input_in(self, reply: Any) -> Mapping[Any, Any]:
        reply = self._object_in(reply)
        if reply.get("toolset_name") == TOOL:
            args = replies.arguments_of(reply.get("input"))
            if not isinstance(args, Mapping):
                raise ParseError("malformed", "The tool's input is not an object.")
            return {**args, "action": reply.get("name")}
        if "input" in reply or reply.get("type") == "tool_use":
            if (name := reply.get("name")) != TOOL:
                raise ParseError(
                    "unknown_action", f"{show_value(name)} is not a tool; the tool is {TOOL!r}."
                )
            reply = replies.arguments_of(reply.get("input"))
        if not isinstance(reply, Mapping):
            raise ParseError("malformed", "The tool's input is not an object.")
        return reply
