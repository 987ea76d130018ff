"""BrowserGym's words, and webtraj's for what BrowserGym has no words for.

`BROWSERGYM` has the names, argument names, order and units of BrowserGym's high-level action set
(`browsergym/core/action/functions.py`). `EXTENSIONS` makes every verb sayable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.environments.actions import verbs
from webtraj.environments.actions.dialects.arguments import Argument, group, value
from webtraj.environments.actions.dialects.base import FormatError
from webtraj.environments.actions.dialects.phrases import Phrase

__all__ = ["BROWSERGYM", "EXTENSIONS"]


def _one_or_many(name: str, field: str) -> Argument:
    """A string for one, a list for several."""
    return value(
        name,
        field,
        read=lambda wire: (wire,) if isinstance(wire, str) else wire,
        write=lambda held: held[0] if len(held) == 1 else held,
    )


def _ends() -> Argument:
    def write(path: tuple[tuple[float, float], ...]) -> Mapping[str, Any]:
        if len(path) != 2:
            raise FormatError(f"a path of {len(path)} points")
        return dict(zip(names, (*path[0], *path[1]), strict=True))

    names = ("from_x", "from_y", "to_x", "to_y")
    return group(
        {name: {"type": "number"} for name in names},
        ["path"],
        read=lambda from_x, from_y, to_x, to_y: {"path": ((from_x, from_y), (to_x, to_y))},
        write=write,
    )


def _milliseconds() -> Argument:
    def read(wait_ms: Any) -> float:
        if isinstance(wait_ms, bool) or not isinstance(wait_ms, (int, float)):
            raise ValueError(f"wait_ms must be a number of milliseconds; got {wait_ms!r}")
        return wait_ms / 1000

    return value(
        "wait_ms",
        "seconds",
        read=read,
        write=lambda seconds: round(seconds * 1000),
        schema={"type": "number", "minimum": 0},
        optional=True,
    )


def _one_chord(keys: str) -> str:
    # BrowserGym hands the text to Playwright, which presses one chord.
    if " " in keys:
        raise FormatError(f"{keys!r}, only keys held together")
    return keys


_BID = value("bid", "ref")
_X, _Y = value("x"), value("y")
_BUTTON = value("button", optional=True)
_MODIFIERS = value("modifiers", optional=True)
_COUNT = value("count", optional=True)
_ONE, _TWO = {"count": 1}, {"count": 2}

BROWSERGYM = (
    Phrase("click", verbs.Click, (_BID, _BUTTON, _MODIFIERS), fields=_ONE),
    Phrase("dblclick", verbs.Click, (_BID, _BUTTON, _MODIFIERS), fields=_TWO),
    Phrase("hover", verbs.Hover, (_BID,)),
    Phrase("fill", verbs.Fill, (_BID, value("value")), wire={"enable_autocomplete_menu": False}),
    # With the menu enabled, BrowserGym empties the field and types key by key.
    Phrase(
        "fill",
        verbs.TypeInto,
        (_BID, value("value", "text")),
        fields={"clear": True, "submit": False},
        wire={"enable_autocomplete_menu": True},
    ),
    Phrase("select_option", verbs.SelectOption, (_BID, _one_or_many("options", "options"))),
    Phrase("check", verbs.Check, (_BID,)),
    Phrase("uncheck", verbs.Uncheck, (_BID,)),
    Phrase("press", verbs.Press, (_BID, value("key_comb", "keys", write=_one_chord))),
    Phrase("focus", verbs.Focus, (_BID,)),
    Phrase("clear", verbs.Clear, (_BID,)),
    Phrase(
        "drag_and_drop",
        verbs.DragTo,
        (value("from_bid", "ref"), value("to_bid", "target_ref")),
    ),
    Phrase("upload_file", verbs.UploadFile, (_BID, _one_or_many("file", "paths"))),
    Phrase("scroll", verbs.Scroll, (value("delta_x", "dx"), value("delta_y", "dy"))),
    Phrase("scroll_at", verbs.ScrollAt, (_X, _Y, value("dx"), value("dy"))),
    Phrase("mouse_move", verbs.MoveMouse, (_X, _Y)),
    Phrase("mouse_down", verbs.MouseDown, (_X, _Y, _BUTTON)),
    Phrase("mouse_up", verbs.MouseUp, (_X, _Y, _BUTTON)),
    Phrase("mouse_click", verbs.ClickAt, (_X, _Y, _BUTTON), fields=_ONE),
    Phrase("mouse_dblclick", verbs.ClickAt, (_X, _Y, _BUTTON), fields=_TWO),
    Phrase("mouse_drag_and_drop", verbs.DragAt, (_ends(),)),
    Phrase("mouse_upload_file", verbs.UploadFileAt, (_X, _Y, _one_or_many("file", "paths"))),
    Phrase("keyboard_type", verbs.TypeText, (value("text"),)),
    Phrase("keyboard_insert_text", verbs.InsertText, (value("text"),)),
    Phrase("keyboard_press", verbs.PressKey, (value("key", "keys", write=_one_chord),)),
    Phrase("keyboard_down", verbs.KeyDown, (value("key"),)),
    Phrase("keyboard_up", verbs.KeyUp, (value("key"),)),
    Phrase("goto", verbs.Goto, (value("url"),)),
    Phrase("go_back", verbs.GoBack),
    Phrase("go_forward", verbs.GoForward),
    Phrase("new_tab", verbs.NewTab),
    Phrase("tab_close", verbs.CloseTab),
    Phrase("tab_focus", verbs.FocusTab, (value("index"),)),
    Phrase("noop", verbs.Wait, (_milliseconds(),)),
    Phrase("send_msg_to_user", verbs.SendMessage, (value("text"),)),
    Phrase("report_infeasible", verbs.ReportInfeasible, (value("reason"),)),
)

_TYPE_FLAGS = (value("clear", optional=True), value("submit", optional=True))

EXTENSIONS = (
    Phrase("click", verbs.Click, (_BID, _BUTTON, _MODIFIERS, _COUNT)),
    Phrase("type_into", verbs.TypeInto, (_BID, value("text"), *_TYPE_FLAGS)),
    Phrase("mouse_click", verbs.ClickAt, (_X, _Y, _BUTTON, _MODIFIERS, _COUNT)),
    Phrase("type_at", verbs.TypeAt, (_X, _Y, value("text"), *_TYPE_FLAGS)),
    Phrase(
        "mouse_down",
        verbs.MouseDown,
        (value("x", optional=True), value("y", optional=True), _BUTTON),
    ),
    Phrase(
        "mouse_up",
        verbs.MouseUp,
        (value("x", optional=True), value("y", optional=True), _BUTTON),
    ),
    Phrase("mouse_drag", verbs.DragAt, (value("path"), _MODIFIERS)),
    Phrase(
        "scroll",
        verbs.Scroll,
        (value("delta_x", "dx"), value("delta_y", "dy"), value("bid", "ref", optional=True)),
    ),
    Phrase("scroll_at", verbs.ScrollAt, (_X, _Y, value("dx"), value("dy"), _MODIFIERS)),
    Phrase("press", verbs.Press, (_BID, value("key_comb", "keys"))),
    Phrase("keyboard_press", verbs.PressKey, (value("key", "keys"),)),
    Phrase("hold_key", verbs.HoldKey, (value("key", "keys"), value("seconds"))),
    Phrase("reload", verbs.Reload),
    Phrase("new_tab", verbs.NewTab, (value("url", optional=True),)),
    Phrase("screenshot", verbs.Screenshot),
    Phrase("cursor_position", verbs.CursorPosition),
    Phrase("answer", verbs.Answer, (value("text"),)),
)
