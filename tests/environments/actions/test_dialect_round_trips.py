"""What a dialect says, it reads back; what it cannot say, it refuses by name."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from action_strategies import VIEWPORT, actions_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.environments.actions import (
    VERBS,
    Answer,
    Check,
    Click,
    ClickAt,
    CursorPosition,
    DragAt,
    DragTo,
    Fill,
    FocusTab,
    GoBack,
    GoForward,
    Goto,
    HoldKey,
    Hover,
    MouseDown,
    MoveMouse,
    NewTab,
    Press,
    PressKey,
    Screenshot,
    Scroll,
    ScrollAt,
    SelectOption,
    SendMessage,
    TypeAt,
    TypeInto,
    TypeText,
    UploadFile,
    Wait,
)
from webtraj.environments.actions.dialects import DIALECTS, make_dialect

ALL = sorted(DIALECTS)
EXACT = {"webtraj", "browsergym"}

SAID: list[tuple[str, Any, Any]] = [
    ("browsergym", Click("12"), "click('12')"),
    (
        "browsergym",
        Click("12", "right", ("Shift",)),
        "click('12', button='right', modifiers=['Shift'])",
    ),
    ("browsergym", Click("12", count=2), "dblclick('12')"),
    ("browsergym", Fill("a3", "it's"), "fill('a3', \"it's\")"),
    ("browsergym", TypeInto("3", "x", clear=True), "fill('3', 'x', enable_autocomplete_menu=True)"),
    ("browsergym", SelectOption("3", ("one",)), "select_option('3', 'one')"),
    ("browsergym", SelectOption("3", ("one", "two")), "select_option('3', ['one', 'two'])"),
    ("browsergym", Check("3"), "check('3')"),
    ("browsergym", Press("3", "Control+a"), "press('3', 'Control+a')"),
    ("browsergym", DragTo("3", "4"), "drag_and_drop('3', '4')"),
    ("browsergym", UploadFile("3", ("a.pdf",)), "upload_file('3', 'a.pdf')"),
    ("browsergym", Scroll(0, -200.5), "scroll(0, -200.5)"),
    ("browsergym", ClickAt(1, 2.5), "mouse_click(1, 2.5)"),
    ("browsergym", DragAt(((1, 2), (3, 4))), "mouse_drag_and_drop(1, 2, 3, 4)"),
    ("browsergym", TypeText("a\nb"), "keyboard_type('a\\nb')"),
    ("browsergym", FocusTab(1), "tab_focus(1)"),
    ("browsergym", Wait(1.0), "noop()"),
    ("browsergym", Wait(0.25), "noop(wait_ms=250)"),
    ("browsergym", SendMessage("hi"), "send_msg_to_user('hi')"),
    ("webtraj", Answer("42"), "answer('42')"),
    ("webtraj", PressKey("Tab Enter"), "keyboard_press('Tab Enter')"),
    ("webtraj", Click("1", count=3), "click('1', count=3)"),
    ("webtraj", NewTab("https://a.b/"), "new_tab(url='https://a.b/')"),
    ("webtraj", MouseDown(button="right"), "mouse_down(button='right')"),
    ("webtraj", Scroll(0, 9, "4"), "scroll(0, 9, bid='4')"),
    (
        "webgym",
        ClickAt(640, 180),
        {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}},
    ),
    (
        "webgym",
        TypeAt(640, 180, "x", clear=True, submit=True),
        {
            "name": "computer_use",
            "arguments": {"action": "type", "coordinate": [500, 250], "text": "x"},
        },
    ),
    (
        "webgym",
        Scroll(0, -720),
        {"name": "computer_use", "arguments": {"action": "scroll", "direction": "up"}},
    ),
    (
        "webgym_marks",
        Hover("7"),
        {"name": "web_interaction", "arguments": {"action": "hover", "element_id": "7"}},
    ),
    (
        "anthropic",
        ClickAt(5, 6, modifiers=("Control", "Shift")),
        {"action": "left_click", "coordinate": [5, 6], "text": "ctrl+shift"},
    ),
    ("anthropic", ClickAt(5, 6, count=3), {"action": "triple_click", "coordinate": [5, 6]}),
    ("anthropic", PressKey("Control+Enter"), {"action": "key", "text": "ctrl+Return"}),
    (
        "anthropic",
        HoldKey("Meta++", 2),
        {"action": "hold_key", "text": "super+plus", "duration": 2},
    ),
    ("anthropic", MouseDown(), {"action": "left_mouse_down"}),
    ("anthropic", MoveMouse(1, 2), {"action": "mouse_move", "coordinate": [1, 2]}),
    (
        "anthropic",
        ScrollAt(5, 6, -300, 0),
        {
            "action": "scroll",
            "coordinate": [5, 6],
            "scroll_direction": "left",
            "scroll_amount": 3,
        },
    ),
    (
        "anthropic",
        DragAt(((1, 2), (3, 4))),
        {"action": "left_click_drag", "start_coordinate": [1, 2], "coordinate": [3, 4]},
    ),
    ("anthropic", CursorPosition(), {"action": "cursor_position"}),
    ("openai", ClickAt(5, 6, "middle"), {"type": "click", "x": 5, "y": 6, "button": "wheel"}),
    ("openai", GoBack(), {"type": "click", "x": 0, "y": 0, "button": "back"}),
    ("openai", GoForward(), {"type": "click", "x": 0, "y": 0, "button": "forward"}),
    ("openai", PressKey("Control+a"), {"type": "keypress", "keys": ["CTRL", "a"]}),
    (
        "openai",
        DragAt(((1, 2), (3, 4), (5, 6))),
        {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}, {"x": 5, "y": 6}]},
    ),
    (
        "openai",
        ScrollAt(5, 6, 0, 42),
        {"type": "scroll", "x": 5, "y": 6, "scroll_x": 0, "scroll_y": 42},
    ),
    ("openai", Wait(1), {"type": "wait"}),
    ("openai", Screenshot(), {"type": "screenshot"}),
]

UNSAYABLE = [
    ("browsergym", Answer("x"), "Answer"),
    ("browsergym", Click("1", count=3), "count=3"),
    ("browsergym", ClickAt(1, 2, modifiers=("Shift",)), "modifiers"),
    ("browsergym", TypeInto("1", "x", submit=True), "clear=False"),
    ("browsergym", DragAt(((1, 2), (3, 4), (5, 6))), "3 points"),
    ("browsergym", MouseDown(), "x=None"),
    ("browsergym", PressKey("Tab Enter"), "held together"),
    ("browsergym", Press("1", "Tab Enter"), "held together"),
    ("webgym", Click("1"), "no word"),
    ("webgym", ClickAt(1, 2, button="right"), "button='right'"),
    ("webgym", ClickAt(1281, 2), "outside the viewport"),
    ("webgym", Scroll(0, 100), "100"),
    ("webgym_marks", MoveMouse(1, 2), "MoveMouse"),
    ("anthropic", Goto("https://a.b/"), "Goto"),
    ("anthropic", ScrollAt(1, 2, 50, 0), "whole clicks of 100"),
    ("anthropic", ScrollAt(1, 2, 100, 100), "one way"),
    ("anthropic", MouseDown(1, 2), "x=1"),
    ("openai", PressKey("Tab Enter"), "held together"),
    ("openai", Wait(2), "seconds=2"),
    ("openai", ClickAt(1, 2, "right", count=2), "button='right'"),
]


def as_wire(name: str, said: Any) -> Any:
    """Takes WebGym's JSON out of its tags, for comparing."""
    return json.loads(said.split("\n")[1]) if name in ("webgym", "webgym_marks") else said


@each(("name", "action", "wire"), SAID)
def test_a_dialect_says_an_action_in_its_own_words_and_reads_it_back(name, action, wire):
    dialect = make_dialect(name, VIEWPORT)
    said = dialect.format(action)
    assert as_wire(name, said) == wire
    assert dialect.parse(said) == action
    assert type(action) in dialect.verbs


@each(("name", "action", "obstacle"), UNSAYABLE)
def test_what_a_dialect_cannot_say_is_an_error_that_names_both(name, action, obstacle):
    with pytest.raises(errors.UnsupportedActionError) as caught:
        make_dialect(name, VIEWPORT).format(action)
    assert name in str(caught.value)
    assert type(action).__name__ in str(caught.value)
    assert obstacle in str(caught.value)
    assert isinstance(caught.value, ValueError)


def close(one: Any, other: Any) -> bool:
    """Whether two field values are the same up to one cell of the coarsest grid."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other) <= 1280 / 1000
    return one == other


@pytest.mark.parametrize("name", ALL)
@each("verb", sorted(VERBS))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_verb_in_every_dialect_round_trips_or_is_refused(verb, name, data):
    dialect = make_dialect(name, VIEWPORT)
    action = data.draw(actions_of(VERBS[verb]))
    try:
        said = dialect.format(action)
    except errors.UnsupportedActionError:
        assert name != "webtraj" or verb == "invalid"
        return
    assert type(action) in dialect.verbs
    read = dialect.parse(said)
    assert dialect.format(read) == said
    if name in EXACT:
        assert read == action
    else:
        assert type(read) is type(action)
        for field in dataclasses.fields(action):
            assert close(getattr(read, field.name), getattr(action, field.name))


@pytest.mark.parametrize("name", ["webgym", "anthropic", "openai"])
@given(
    x=st.integers(0, 999),
    y=st.integers(0, 599),
    viewport=st.tuples(st.integers(1000, 4000), st.integers(600, 4000)),
)
def test_coordinates_that_a_model_wrote_are_said_again_unchanged(name, x, y, viewport):
    dialect = make_dialect(name, viewport)
    wire = {
        "webgym": f'{{"name": "computer_use", "arguments": '
        f'{{"action": "left_click", "coordinate": [{x}, {y}]}}}}',
        "anthropic": {"action": "left_click", "coordinate": [x, y]},
        "openai": {"type": "click", "button": "left", "x": x, "y": y},
    }[name]
    action = dialect.parse(wire)
    assert isinstance(action, ClickAt)
    assert 0 <= action.x < viewport[0]
    assert 0 <= action.y < viewport[1]
    said = dialect.format(action)
    assert dialect.parse(said) == action
    if name != "webgym":
        assert said == wire


def test_a_model_that_sees_a_smaller_screenshot_points_at_the_same_place():
    from webtraj.environments.actions.dialects import AnthropicDialect, OpenAIDialect

    for make, wire in [
        (AnthropicDialect, {"action": "left_click", "coordinate": [512, 384]}),
        (OpenAIDialect, {"type": "click", "button": "left", "x": 512, "y": 384}),
    ]:
        dialect = make((2048, 1536), shown=(1024, 768))
        assert dialect.parse(wire) == ClickAt(1024, 768)
        assert dialect.format(ClickAt(1024, 768)) == dialect.format(dialect.parse(wire))
