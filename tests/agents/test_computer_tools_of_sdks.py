"""The computer tools as the vendors' SDKs declare them: the dialects know all their actions."""

import typing

import pydantic
import pytest

from webtraj.environments import actions as a
from webtraj.environments.actions.dialects import make_dialect

pytestmark = pytest.mark.slow  # Importing the SDKs takes seconds.

GIVEN = {
    "text": "a",
    "duration": 1,
    "coordinate": [10, 20],
    "start_coordinate": [1, 2],
    "scroll_direction": "down",
    "scroll_amount": 3,
    "region": [0, 0, 10, 10],
    "repeat": 2,
}
"""A value for each argument of Anthropic's tool."""


def anthropic_members():
    """Returns the SDK's model of the input of each member of the toolset."""
    from anthropic.types import beta

    models = typing.get_args(beta.BetaComputerMemberInput)
    named = {name: f"BetaComputer{name.title().replace('_', '')}Input" for name in member_names()}
    found = {model.__name__: model for model in models}
    bare = {name: getattr(beta, of, None) for name, of in named.items()}
    return {name: found.get(named[name]) or bare[name] for name in named}


def member_names():
    from anthropic.types.beta import beta_computer_member_name as names

    return names.BETA_COMPUTER_MEMBER_NAME_VALUES


def test_every_member_of_anthropics_toolset_is_an_action():
    dialect = make_dialect("anthropic:computer_toolset_20260801")
    assert len(member_names()) == 17
    for name, model in anthropic_members().items():
        fields = [] if model is None else [*model.model_fields]
        for arguments in (fields, [field for field in fields if field != "text" or name == "type"]):
            given = {field: GIVEN[field] for field in arguments}
            if "text" in given and name != "type":
                given["text"] = "shift"
            if {"key", "hold_key"} & {name} and "text" not in given:
                continue
            call = {"type": "tool_use", "id": "t", "toolset_name": "computer", "name": name}
            action = dialect.parse({**call, "input": given})
            assert not isinstance(action, a.InvalidAction), (name, given, action)
            same = make_dialect("anthropic").parse({"action": name, **given})
            assert same == action
            if model is not None and "repeat" not in given:
                written = {k: v for k, v in dialect.format(action).items() if k != "action"}
                assert model.model_validate(written, strict=True)


def test_every_action_of_openais_tool_is_an_action():
    from openai.types.responses.computer_action import ComputerAction

    dialect = make_dialect("openai")
    union = typing.get_args(ComputerAction)[0]
    adapter = pydantic.TypeAdapter(ComputerAction)
    values = {"x": 1, "y": 2, "scroll_x": 0, "scroll_y": 100, "text": "a", "button": "left"}
    values |= {"path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "keys": ["SHIFT"]}
    assert len(typing.get_args(union)) == 9
    for model in typing.get_args(union):
        (kind,) = typing.get_args(model.model_fields["type"].annotation)
        given = {"type": kind} | {
            name: values[name] for name in model.model_fields if name != "type"
        }
        if kind == "move":
            assert dialect.parse(given).kind == "bad_arguments"  # No verb moves with keys held.
            given["keys"] = []
        action = dialect.parse(given)
        assert not isinstance(action, a.InvalidAction), (given, action)
        assert adapter.validate_python(dialect.format(action), strict=True)
    for button in ("left", "right", "wheel", "back", "forward"):
        click = {"type": "click", "button": button, "x": 1, "y": 2}
        assert not isinstance(dialect.parse(click), a.InvalidAction)
