"""The axtree's grammar as a codec, and the specs of observations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.environments.browser.observation import (
    CHANNELS,
    DEFAULT_CHANNELS,
    BrowserObservation,
    Observe,
    Ref,
    observation_spec,
    refs_in,
)
from webtraj.environments.browser.observer import describe_action

_STATES = st.one_of(
    st.sampled_from(["checked", "focused", "expanded=true", "level=2"]),
    st.text().map(lambda value: f"value={json.dumps(value, ensure_ascii=False)}"),
)
_REFS = st.builds(
    Ref,
    ref=st.integers(1, 9999).map(str),
    role=st.sampled_from(["button", "textbox", "generic", "menuitemcheckbox"]),
    name=st.text(),
    states=st.lists(_STATES, max_size=3).map(tuple),
)


def write(ref, depth):
    name = [json.dumps(ref.name, ensure_ascii=False)] if ref.name else []
    return "  " * depth + " ".join([f"[{ref.ref}]", ref.role, *name, *ref.states])


@given(st.lists(st.tuples(_REFS, st.integers(0, 5), st.text())))
def test_refs_read_back_as_written_whatever_text_stands_between(elements):
    lines = []
    for ref, depth, text in elements:
        lines += [write(ref, depth), "  " * depth + f"text {json.dumps(text)}"]
    assert refs_in("\n".join(lines)) == [ref for ref, _, _ in elements]


def test_the_typed_record_has_a_key_for_every_channel():
    assert set(BrowserObservation.__annotations__) == {*CHANNELS, "active_tab"}
    assert set(DEFAULT_CHANNELS) <= set(CHANNELS)


@each("channel", CHANNELS)
def test_every_channel_has_a_spec(channel):
    assert channel in observation_spec(Observe((channel,)))


def test_the_empty_last_action_follows_its_spec():
    spec = observation_spec(Observe(("last_action",)))["last_action"]
    for key, value in describe_action().items():
        spec[key].validate(value)


@each(
    "wrong",
    [
        {"channels": ("axtree", "smell")},
        {"screenshot_format": "gif"},
        {"screenshot_quality": 0},
        {"screenshot_quality": 101},
        {"screenshot_stride": -1},
        {"screenshot_scale": 0.0},
        {"screenshot_scale": 1.5},
        {"axtree_limit": 0},
        {"download_limit": -1},
    ],
)
def test_what_cannot_be_observed_is_told(wrong):
    with pytest.raises(errors.InvalidInputError):
        Observe(**wrong)


@pytest.mark.parametrize(
    "given_value", ["axtree", ["axtree"], {"axtree"}, Observe(("axtree",)), iter(["axtree"])]
)
def test_channels_are_given_in_any_form(given_value):
    assert Observe.of(given_value) == Observe(("axtree",))
