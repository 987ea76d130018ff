"""An action that exists follows its rules; what breaks one is refused with a helpful message."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from rows import each
from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.actions import (
    VERBS,
    Click,
    ClickAt,
    DragAt,
    Fill,
    FocusTab,
    Goto,
    HoldKey,
    InvalidAction,
    KeyDown,
    MouseDown,
    NewTab,
    PressKey,
    Scroll,
    SelectOption,
    UploadFile,
    Wait,
    format_action,
    parse_action,
)
from webtraj.environments.actions.base import example_of, summary_of

REFUSED = [
    (lambda: Click(12), "Click.ref", "such as '12'"),
    (lambda: Click(""), "Click.ref", "not empty"),
    (lambda: Click("a b"), "Click.ref", "ref"),
    (lambda: Click("1", button="wheel"), "Click.button", "left, middle, right"),
    (lambda: Click("1", modifiers=("Ctrl",)), "Click.modifiers", "Alt, Control"),
    (lambda: Click("1", count=0), "Click.count", "from 1 to 3"),
    (lambda: Click("1", count=True), "Click.count", "whole number"),
    (lambda: Fill("1", None), "Fill.value", "a string"),
    (lambda: Fill("1", "x" * 100_001), "Fill.value", "100000"),
    (lambda: SelectOption("1", "blue"), "SelectOption.options", "a list of options"),
    (lambda: UploadFile("1", ()), "UploadFile.paths", "1 to 256"),
    (lambda: ClickAt(float("nan"), 1), "ClickAt.x", "from 0 to 100000"),
    (lambda: ClickAt(1, -1), "ClickAt.y", "from 0 to 100000"),
    (lambda: ClickAt("1", 1), "ClickAt.x", "a number"),
    (lambda: MouseDown(1), "MouseDown", "both x and y"),
    (lambda: DragAt(((1, 2),)), "DragAt.path", "2 to 1024"),
    (lambda: DragAt(((1, 2), (3,))), "DragAt.path", "a point [x, y]"),
    (lambda: Scroll(0, float("inf")), "Scroll.dy", "a number"),
    (lambda: PressKey("Ctrl+a"), "PressKey.keys", "'Ctrl' is none"),
    (lambda: PressKey("a  b"), "PressKey.keys", "'' is none"),
    (lambda: KeyDown("Shift+a"), "KeyDown.key", "one Playwright key name"),
    (lambda: HoldKey("a b", 1), "HoldKey.keys", "at most 1"),
    (lambda: Wait(101), "Wait.seconds", "from 0 to 100"),
    (lambda: Goto("file:///etc/passwd"), "Goto.url", "http"),
    (lambda: Goto(""), "Goto.url", "http"),
    (lambda: NewTab("javascript:1"), "NewTab.url", "http"),
    (lambda: FocusTab(-1), "FocusTab.index", "from 0 to 1000"),
    (lambda: InvalidAction("x", "y", "bad luck"), "InvalidAction.kind", "empty, too_long"),
]


@each(("make", "where", "expected"), REFUSED)
def test_a_value_that_breaks_its_rule_is_refused(make, where, expected):
    with pytest.raises(errors.InvalidInputError) as caught:
        make()
    assert where in str(caught.value)
    assert expected in str(caught.value)
    assert "got" in str(caught.value)


def test_a_message_does_not_repeat_a_megabyte():
    with pytest.raises(errors.InvalidInputError) as caught:
        Click("x" * 1_000_000)
    assert len(str(caught.value)) < 400


def test_lists_become_tuples_so_that_actions_hash_and_compare():
    action = Click("1", modifiers=["Shift"])
    assert action == Click("1", modifiers=("Shift",))
    assert hash(action) == hash(Click("1", modifiers=("Shift",)))
    assert DragAt([[1, 2], [3, 4]]).path == ((1, 2), (3, 4))


def test_durations_are_kept_to_the_millisecond():
    assert Wait(0.12345).seconds == 0.123


@each("name", sorted(VERBS))
def test_every_verb_is_a_frozen_slotted_dataclass_with_a_prompt_line(name):
    verb = VERBS[name]
    assert verb.verb == name
    assert dataclasses.is_dataclass(verb)
    assert not hasattr(verb, "__dict__") or "__dict__" not in dir(verb.__new__(verb))
    assert set(verb.rules) == {field.name for field in dataclasses.fields(verb)}
    assert summary_of(verb).endswith(".")
    assert getattr(actions_lib, verb.__name__) is verb
    assert verb.__name__ in actions_lib.__all__


@each("name", sorted(set(VERBS) - {"invalid"}))
def test_every_verb_has_an_example_that_reads_as_that_verb(name):
    action = parse_action(example_of(VERBS[name]))
    assert type(action) is VERBS[name]
    assert parse_action(format_action(action)) == action


def test_actions_are_immutable_and_travel_between_processes():
    action = Click("1", count=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        action.ref = "2"
    assert pickle.loads(pickle.dumps(action)) == action
    assert copy.deepcopy(action) == action
    assert dataclasses.replace(action, count=1) == Click("1")
    with pytest.raises(errors.InvalidInputError):
        dataclasses.replace(action, count=9)
