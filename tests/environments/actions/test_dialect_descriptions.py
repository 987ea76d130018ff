"""What a dialect tells a model is what it accepts: schemas, tools, prompts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from action_strategies import VIEWPORT, actions_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.environments.actions import Answer, Click, Fill, InvalidAction
from webtraj.environments.actions.dialects import (
    DIALECTS,
    BrowserGymDialect,
    make_dialect,
)

ALL = sorted(DIALECTS)
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def follows(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value follows a JSON Schema, of the few keywords that ours use."""
    known = {
        "type", "const", "enum", "oneOf", "properties", "required", "additionalProperties",
        "items", "minItems", "maxItems", "minimum", "maximum", "minLength", "pattern", "format",
        "description",
    }  # fmt: skip
    assert schema.keys() <= known
    if "oneOf" in schema and not any(follows(value, option) for option in schema["oneOf"]):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema:
        if not isinstance(value, _TYPES[schema["type"]]):
            return False
        if isinstance(value, bool) and schema["type"] != "boolean":
            return False
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        if not set(schema.get("required", ())) <= value.keys():
            return False
        if schema.get("additionalProperties") is False and not value.keys() <= properties.keys():
            return False
        return all(follows(value[name], properties[name]) for name in value.keys() & properties)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        return all(follows(item, schema.get("items", {})) for item in value)
    if isinstance(value, str) and "pattern" in schema:
        return re.search(schema["pattern"], value) is not None
    if isinstance(value, int | float) and "minimum" in schema:
        return schema["minimum"] <= value <= schema.get("maximum", value)
    return True


STRUCTURED = ["webgym", "webgym_marks", "anthropic", "openai"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURED)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_is_said_follows_the_schema(name, data):
    dialect = make_dialect(name, VIEWPORT)
    verb = data.draw(st.sampled_from(dialect.verbs))
    try:
        said = dialect.format(data.draw(actions_of(verb)))
    except errors.UnsupportedActionError:
        return
    if isinstance(said, str):
        said = json.loads(said.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert follows(said, dialect.schema())
    for tool in dialect.tools():
        if "parameters" in tool:
            assert follows(said["arguments"], tool["parameters"])


@each("name", ALL)
def test_schemas_and_tools_are_plain_json(name):
    dialect = make_dialect(name)
    assert json.loads(json.dumps(dialect.schema())) == dialect.schema()
    assert json.loads(json.dumps(dialect.tools())) == dialect.tools()


@each("name", ALL)
def test_the_prompt_names_every_word_that_a_model_may_say(name):
    dialect = make_dialect(name)
    prompt = dialect.prompt()
    words = re.findall(r'"const": "(\w+)"', json.dumps(dialect.schema()))
    assert len(words) > 5
    for word in words:
        assert word in prompt
    assert len(prompt) < 20_000


@pytest.mark.parametrize("name", ["webtraj", "browsergym"])
def test_every_example_in_the_prompt_is_read_by_the_dialect(name):
    dialect = make_dialect(name)
    examples = re.findall(r"Example: (.*)", dialect.prompt())
    assert len(examples) > 30
    for example in examples:
        assert dialect.parse(example).verb != "invalid", example


def test_computer_use_tools_carry_the_size_of_the_screen():
    size = {"display_width_px": 400, "display_height_px": 300}
    assert make_dialect("anthropic", (800, 600), shown=(400, 300)).tools() == [
        {"type": "computer_20251124", "name": "computer", "enable_zoom": True, **size}
    ]
    assert make_dialect("anthropic:computer_20250124", (400, 300)).tools() == [
        {"type": "computer_20250124", "name": "computer", **size}
    ]
    toolset = "anthropic:computer_toolset_20260801"
    assert make_dialect(toolset).tools() == [{"type": "computer_toolset_20260801"}]
    assert make_dialect("openai").tools() == [{"type": "computer"}]
    preview = make_dialect("openai:computer_use_preview", (800, 600)).tools()[0]
    assert (preview["display_width"], preview["environment"]) == (800, "browser")


@each("viewport", [(0, 5), (5, -1), (1.5, 2), ("5", 5)])
@each("name", ["webgym", "anthropic", "openai"])
def test_a_viewport_that_is_no_size_is_refused(name, viewport):
    with pytest.raises(errors.InvalidInputError, match="Frame"):
        make_dialect(name, viewport)


def test_an_action_set_may_be_smaller():
    dialect = BrowserGymDialect(extended=True, verbs=[Click, Answer])
    assert dialect.verbs == (Click, Answer)
    assert [tool["name"] for tool in dialect.tools()] == ["click", "dblclick", "answer"]
    assert "fill" not in dialect.prompt()
    assert dialect.parse("click('1')") == Click("1")
    refused = dialect.parse("fill('1', 'x')")
    assert isinstance(refused, InvalidAction)
    assert refused.kind == "unknown_action"
    with pytest.raises(errors.UnsupportedActionError):
        dialect.format(Fill("1", "x"))
