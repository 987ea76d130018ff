"""Actions are stored as themselves and come back equal."""

from __future__ import annotations

import orjson
from action_strategies import actions_of
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj.environments.actions import VERBS, Click
from webtraj.store import values
from webtraj.store.decoding import decode
from webtraj.store.encoding import Encoder


def stored(value):
    """Returns a value after a trip through a file."""
    encoder = Encoder()
    data = orjson.loads(orjson.dumps(encoder.encode(value)))
    assert encoder.repr_only == []
    return decode(data)


@given(action=st.sampled_from(sorted(VERBS)).flatmap(lambda verb: actions_of(VERBS[verb])))
def test_every_action_comes_back_as_itself(action):
    loaded = stored(action)
    assert loaded == action
    assert type(loaded) is type(action)
    assert hash(loaded) == hash(action)


@each("name", sorted(VERBS))
def test_every_verb_is_stored_under_a_name_that_outlives_its_module(name):
    assert values.name_of(VERBS[name]) == f"action/{name}"
    assert values.class_of(f"action/{name}") is VERBS[name]


def test_a_stored_action_that_breaks_its_rules_is_no_action():
    data = Encoder().encode(Click("12"))
    data["fields"]["ref"] = 12
    loaded = decode(data)
    assert isinstance(loaded, values.OpaqueRecord)
    assert loaded.fields["ref"] == 12
