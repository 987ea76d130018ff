"""The table of an MCP server's tools: what each takes, and the action that it makes."""

import pytest

from rows import each
from webtraj import errors
from webtraj.environments import actions as a
from webtraj_integrations.mcp_tools import ACTING, MANAGING

MADE = {
    "navigate": ({"url": "https://example.com/"}, a.Goto("https://example.com/")),
    "back": ({}, a.GoBack()),
    "click": ({"ref": "12", "count": 2}, a.Click("12", count=2)),
    "type": ({"ref": "3", "text": "Tea", "submit": True}, a.TypeInto("3", "Tea", submit=True)),
    "select": ({"ref": "3", "options": ["Red"]}, a.SelectOption("3", ("Red",))),
    "press": ({"keys": "Control+a"}, a.PressKey("Control+a")),
    "hover": ({"ref": "4"}, a.Hover("4")),
    "drag": ({"ref": "4", "target_ref": "5"}, a.DragTo("4", "5")),
    "scroll": ({"dy": 300}, a.Scroll(0, 300)),
    "tabs": ({"action": "select", "index": 1}, a.FocusTab(1)),
    "upload": ({"ref": "4", "paths": ["a.txt"]}, a.UploadFile("4", ("a.txt",))),
    "wait": ({}, a.Wait(1.0)),
    "screenshot": ({}, a.Screenshot()),
    "answer": ({"text": "12 dollars"}, a.Answer("12 dollars")),
}


def made(name, given):
    return ACTING[name].function(**ACTING[name].read(given))


@each("name", ACTING)
def test_every_tool_makes_its_action(name):
    given, action = MADE[name]
    assert made(name, given) == action


@each(
    ("name", "given", "words"),
    [
        ("click", {}, "ref, or both x and y"),
        ("click", {"x": 3}, "ref, or both x and y"),
        ("click", {"reff": "3"}, r"Unknown argument 'reff': click takes \(ref, x, y,"),
        ("click", {"ref": "[12]"}, "ref must be an element's ref as the observation shows it"),
        ("type", {"ref": "3"}, r"'text' is missing: type takes \(ref, text, clear, submit\)"),
        ("type", {"ref": "3", "text": 5}, r"text must be text \(a string\)"),
        ("back", {"steps": 2}, r"back takes \(no arguments\)"),
        ("navigate", {"url": "file:///etc/passwd"}, "an absolute URL with http"),
        ("press", {"keys": "Returnn"}, "keys must be"),
        ("tabs", {"action": "select"}, "an index with the action 'select'"),
        ("tabs", {"action": "list"}, "one of new, select, close"),
        ("wait", {"seconds": 1e9}, "from 0 to 100"),
    ],
)
def test_wrong_arguments_are_named(name, given, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        made(name, given)


@each("tool", [*MANAGING.values(), *ACTING.values()])
def test_a_schema_describes_what_is_accepted(tool):
    properties = tool.schema["properties"]
    assert set(properties) == set(tool.rules)
    assert set(tool.schema["required"]) <= set(properties)
    assert tool.description.endswith(".")
    defaults = {name: one["default"] for name, one in properties.items() if "default" in one}
    for name, value in defaults.items():
        assert tool.rules[name].check(value) == value


def test_only_tools_that_leave_the_page_alone_say_so():
    tools = [*MANAGING.values(), *ACTING.values()]
    assert {tool.name for tool in tools if tool.read_only} == {"snapshot", "screenshot", "wait"}
