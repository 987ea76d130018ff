"""Text around exactly one action is let pass, where it leaves no doubt what the action is."""

from __future__ import annotations

import json

import pytest

from rows import each
from webtraj.environments.actions import (
    Click,
    ClickAt,
    Fill,
    Goto,
    PressKey,
    Screenshot,
    Scroll,
    TypeInto,
    Wait,
    parse_action,
)
from webtraj.environments.actions.dialects import (
    AnthropicDialect,
    BrowserGymDialect,
    OpenAIDialect,
    make_dialect,
)

CALLS = [
    ("click('12')", Click("12")),
    ("  click('12')\n", Click("12")),
    ('click("12")', Click("12")),
    ("click(bid='12')", Click("12")),
    ("click('12',)", Click("12")),
    ("click ( '12' )", Click("12")),
    ("click('12');", Click("12")),
    ("click(\n    '12',\n    button='left',\n)", Click("12")),
    ("```\nclick('12')\n```", Click("12")),
    ("```python\nclick('12')\n```", Click("12")),
    ("```click('12')```", Click("12")),
    ("`click('12')`", Click("12")),
    ("Action: click('12')", Click("12")),
    ("**Action:** click('12')", Click("12")),
    ("- Action: `click('12')`", Click("12")),
    ("My action: click('12')", Click("12")),
    ("I'll press the button.\n\nclick('12')", Click("12")),
    (
        "The form isn't filled yet, so:\n```\nfill('3', 'it\\'s')\n```\nThen submit.",
        Fill("3", "it's"),
    ),
    ("<think>click('1') or click('2')? It's 2.</think>\n\nclick('2')", Click("2")),
    ("click('1')?</think>click('2')", Click("2")),
    ("<action>\nclick('12')\n</action>", Click("12")),
    ("<think>...</think>\n<action>click('12')</action>", Click("12")),
    ("<action>click('12')", Click("12")),
    ("I considered click('3'), but no.\nclick('12')", Click("12")),
    ("click('12')<|im_end|>", Click("12")),
    ("click('12')  # the submit button, isn't it", Click("12")),
    ("# don't wait\nclick('12')", Click("12")),
    ("fill('3', '</think>')", Fill("3", "</think>")),
    ("fill('3', 'click(\\'9\\')')", Fill("3", "click('9')")),
    ('fill(\'3\', """two\nlines""")', Fill("3", "two\nlines")),
    ("fill('3', 'C:\\dir')", Fill("3", "C:\\dir")),
    ("fill('3', r'C:\\new')", Fill("3", "C:\\new")),
    ("fill('3', 'a' 'b')", Fill("3", "ab")),
    ("fill('3', 'x', True)", TypeInto("3", "x", clear=True)),
    ("scroll(0, -200)", Scroll(0, -200)),
    ("scroll(delta_x=0, delta_y=+200)", Scroll(0, 200)),
    ("noop()", Wait(1.0)),
    ({"name": "click", "arguments": {"bid": "12"}}, Click("12")),
    ({"name": "click", "arguments": '{"bid": "12", "button": null}'}, Click("12")),
    ({"type": "tool_use", "name": "click", "input": {"bid": "12"}}, Click("12")),
]


@each(("reply", "action"), CALLS)
@each("name", ["webtraj", "browsergym"])
def test_calls(name, reply, action):
    assert make_dialect(name).parse(reply) == action


CALL = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}}

TEXT = json.dumps(CALL)

WEBGYM = [
    f"<tool_call>{TEXT}</tool_call>",
    f"Action: click it.\n<tool_call>\n{TEXT}\n</tool_call>",
    f"<tool_call>\n{TEXT}\n",
    f"<tool_call>\n{TEXT}\n</tool_call><|im_end|>",
    f"<think>not <tool_call>{{}}</tool_call></think><tool_call>{TEXT}</tool_call>",
    f"```json\n{TEXT}\n```",
    TEXT,
    json.dumps(CALL, indent=2),
    CALL,
    {"name": "computer_use", "arguments": json.dumps(CALL["arguments"])},
    {
        "name": "computer_use",
        "arguments": {"action": "left_click", "coordinate": [400, 200, 600, 300], "text": None},
    },
]


@each("reply", WEBGYM)
def test_webgym(reply):
    assert make_dialect("webgym", (1000, 1000)).parse(reply) == ClickAt(500, 250)


@pytest.mark.parametrize(
    ("url", "opened"),
    [
        ("https://a.example/x", "https://a.example/x"),
        ("http://a.example/x", "http://a.example/x"),
        ("a.example", "https://a.example"),
        ("a.example:8080/x?y", "https://a.example:8080/x?y"),
        ("localhost:8000", "https://localhost:8000"),
    ],
)
def test_webgym_puts_https_only_before_a_bare_host(url, opened):
    call = {"name": "computer_use", "arguments": {"action": "navigate", "url": url}}
    assert make_dialect("webgym").parse(call) == Goto(opened)


def test_a_label_may_come_as_a_json_number():
    call = {"name": "web_interaction", "arguments": {"action": "click", "element_id": 7}}
    assert make_dialect("webgym_marks").parse(call) == Click("7")


@each(
    ("reply", "action"),
    [
        ({"action": "screenshot"}, Screenshot()),
        ('{"action": "screenshot"}', Screenshot()),
        (
            {"type": "tool_use", "id": "t", "name": "computer", "input": {"action": "screenshot"}},
            Screenshot(),
        ),
        (
            [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "name": "computer", "input": {"action": "screenshot"}},
            ],
            Screenshot(),
        ),
        (
            {"action": "key", "text": "Page_Down", "repeat": 3},
            PressKey("PageDown PageDown PageDown"),
        ),
        ({"action": "key", "text": "cmd+shift+T"}, PressKey("Meta+Shift+T")),
        ({"action": "left_click", "coordinate": [1280, 720]}, ClickAt(1279, 719)),
    ],
)
def test_anthropic(reply, action):
    assert AnthropicDialect().parse(reply) == action


OPENAI_CLICK = {"type": "click", "button": "left", "x": 5, "y": 6}


@pytest.mark.parametrize(
    "reply",
    [
        {"type": "click", "button": "left", "x": 5, "y": 6, "keys": None},
        {
            "type": "computer_call",
            "call_id": "c",
            "action": OPENAI_CLICK,
        },
        {"type": "computer_call", "actions": [OPENAI_CLICK]},
        [
            {"type": "reasoning", "summary": []},
            {
                "type": "computer_call",
                "action": OPENAI_CLICK,
            },
        ],
    ],
    ids=str,
)
def test_openai(reply):
    assert OpenAIDialect().parse(reply) == ClickAt(5, 6)


def test_several_actions_are_read_where_they_are_asked_for():
    assert BrowserGymDialect().parse_all("fill('1', 'x')\nclick('2')") == (
        Fill("1", "x"),
        Click("2"),
    )
    call = {"type": "computer_call", "actions": [{"type": "wait"}, {"type": "screenshot"}]}
    assert OpenAIDialect().parse_all(call) == (Wait(1.0), Screenshot())


def test_one_unreadable_action_among_several_stops_them_all():
    (action,) = BrowserGymDialect().parse_all("fill('1', 'x')\nclick(2)")
    assert action.kind == "bad_arguments"


def test_keys_may_come_in_other_spellings():
    for written, keys in (
        ("'CTRL+A'", "Control+A"),
        ("'ctrl+shift+End Return'", "Control+Shift+End Enter"),
        ("['cmd', 'c']", "Meta+c"),
        ("'Escape'", "Escape"),
    ):
        assert parse_action(f"keyboard_press({written})") == PressKey(keys)
    for unclear in ("'warp'", "['a', 'b']", "'Ctrl + A'", "''"):
        assert parse_action(f"keyboard_press({unclear})").kind == "bad_arguments"


@pytest.mark.parametrize(
    ("keys", "chord"),
    [
        (["CTRL+C"], "Control+C"),
        (["ctrl + c"], "Control+c"),
        (["ctrl+shift+t"], "Control+Shift+T"),
        (["CTRL+SHIFT", "END"], "Control+Shift+End"),
        (["CTRL++"], "Control++"),
        (["CTRL", "+"], "Control++"),
        (["+"], "+"),
        (["SHIFT", "a"], "Shift+a"),
    ],
)
def test_openai_keys_may_come_as_one_chord(keys, chord):
    assert OpenAIDialect().parse({"type": "keypress", "keys": keys}) == PressKey(chord)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"'\ud83d\ude00'", "\U0001f600"),
        (r"'caf\u00e9 \uD83C\uDF0D!'", "café \U0001f30d!"),
        (r"['\ud83d\udc4d']", None),
        (r"'a\ud83d'", None),
        (r"'\ude00\ud83d'", None),
    ],
)
def test_an_escaped_pair_is_one_character(written, text):
    action = parse_action(f"fill('12', {written})")
    assert action == Fill("12", text) if text else action.kind == "bad_arguments"
