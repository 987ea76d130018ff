"""Whatever matches the structure of a dialect is read by it as an action."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.agents import structures
from webtraj.agents.prompts import load_prompt, prompt_names
from webtraj.agents.reply_parser import parse_reply
from webtraj.environments import actions as a
from webtraj.environments.actions.dialects import make_dialect

REFS = ("1", "12", "f1.3")
LINES = ("webtraj", "browsergym")
TOOLS = ("webgym", "webgym_marks")


def structure(dialect, refs=REFS, sections=()):
    return structures.action_structure(make_dialect(dialect), refs=refs, sections=sections)


@each("sections", [(), ("Thought", "Action"), ("Thought", "Memory", "Action")])
@each("dialect", LINES)
@given(data=st.data())
def test_what_matches_the_expression_is_an_action(dialect, sections, data):
    pattern = structure(dialect, sections=sections).value
    reply = data.draw(st.from_regex(re.compile(pattern), fullmatch=True))
    read = parse_reply(reply, make_dialect(dialect), sections=sections)
    assert not isinstance(read.action, a.InvalidAction), read.action
    for field in ("ref", "target_ref"):
        assert getattr(read.action, field, None) in (None, *REFS)


@pytest.mark.parametrize("dialect", TOOLS)
@given(data=st.data())
def test_what_follows_the_schema_is_an_action(dialect, data):
    schema = structure(dialect).value
    reply = json.dumps(data.draw(instances(schema)))
    read = parse_reply(reply, make_dialect(dialect))
    assert not isinstance(read.action, a.InvalidAction), read.action
    assert getattr(read.action, "ref", None) in (None, *REFS)


@pytest.mark.parametrize("dialect", LINES)
def test_every_word_that_it_has_can_be_said(dialect):
    """A structure that allowed hardly anything would pass the tests above."""
    pattern = re.compile(structure(dialect).value)
    said = {
        "webtraj": [
            "click('12')",
            "fill('1', 'it\\'s')",
            "answer('x')",
            "goto('https://a.test/x')",
        ],
        "browsergym": ["click('12', button='right')", "press('1', 'Control+a')", "noop()"],
    }
    for reply in said[dialect]:
        assert pattern.fullmatch(reply), reply
    for reply in ("click('2')", "click('12') ", "Click [2]", "hello"):
        assert not pattern.fullmatch(reply), reply


@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
def test_dialects_without_one_are_refused(dialect):
    with pytest.raises(errors.InvalidInputError, match="has no structure"):
        structure(dialect)


@each("name", prompt_names())
def test_expression_holds_for_the_sections_of_every_prompt(name):
    sections = load_prompt(name).sections
    before = "".join(f"{label}: So it is.\n" for label in sections if label != "Action")
    label = "Action: " if before else ""
    pattern = re.compile(structure("webtraj", sections=sections).value)
    assert pattern.fullmatch(f"{before}{label}click('12')")


def instances(schema):
    """Returns a strategy for what follows a JSON Schema, as far as the structures use it."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([instances(option) for option in schema["anyOf"]])
    match schema["type"]:
        case "object":
            properties = {
                name: instances(held)
                for name, held in schema["properties"].items()
                if name in schema["required"]
            }
            return st.fixed_dictionaries(properties)
        case "array":
            return st.lists(
                instances(schema["items"]),
                min_size=schema["minItems"],
                max_size=schema["maxItems"],
            )
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "number":
            return st.floats(schema["minimum"], schema["maximum"])
        case "string":
            pattern = schema.get("pattern")
            return st.from_regex(re.compile(pattern), fullmatch=True) if pattern else st.text()
    raise AssertionError(f"the tests do not know {schema}")
