"""The axtree's grammar as a codec, and the specs of observations."""

import json
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj import errors
from webtraj.environments.browser.observation import (
    CHANNELS,
    DEFAULT_CHANNELS,
    BrowserObservation,
    Column,
    Observe,
    Ref,
    Rows,
    Strings,
    changes_between,
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


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_has_a_spec(channel):
    assert channel in observation_spec(Observe((channel,)))


def test_the_empty_last_action_follows_its_spec():
    spec = observation_spec(Observe(("last_action",)))["last_action"]
    for key, value in describe_action().items():
        spec[key].validate(value)


@pytest.mark.parametrize(
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


def test_settings_come_by_name_too():
    given = {"channels": ["screenshot"], "screenshot_format": "webp"}
    assert Observe.of(given) == Observe(("screenshot",), screenshot_format="webp")
    with pytest.raises(errors.InvalidInputError, match=r"\['format'\] of observe; expected chan"):
        Observe.of({"format": "webp"})


@pytest.mark.parametrize(
    "given_value", ["axtree", ["axtree"], {"axtree"}, Observe(("axtree",)), iter(["axtree"])]
)
def test_channels_are_given_in_any_form(given_value):
    assert Observe.of(given_value) == Observe(("axtree",))


def test_channels_come_in_one_order():
    assert Observe(("info", "axtree", "goal")).channels == ("goal", "axtree", "info")


_TREES = st.lists(st.sampled_from(["[1] a", "[2] b", "  [3] c", 'text "x"']))


@given(_TREES, _TREES)
def test_changes_turn_one_tree_s_lines_into_the_other_s(before, after):
    lines = Counter(line.strip() for line in before)
    for change in changes_between("\n".join(before), "\n".join(after)):
        lines[change[2:]] += {"+": 1, "-": -1}[change[0]]
    assert +lines == Counter(line.strip() for line in after)
    assert not -lines


class TestStrings:
    def test_takes_any_number_of_strings(self):
        for values in ([], ["a"], ["a", "bc"]):
            Strings("s").validate(np.array(values, dtype=np.str_))

    @pytest.mark.parametrize("wrong", ["a", [1, 2], [["a"]]])
    def test_refuses_all_else(self, wrong):
        with pytest.raises(ValueError, match="one-dimensional"):
            Strings("s").validate(wrong)

    def test_generates_what_it_takes_and_survives_pickling(self):
        spec = pickle.loads(pickle.dumps(Strings("s")))
        assert spec.validate(spec.generate_value()).shape == (0,)


class TestRows:
    def test_takes_any_number_of_rows(self):
        for rows in (0, 1, 5):
            Rows("r", 4).validate(np.zeros((rows, 4)))

    @pytest.mark.parametrize("wrong", [np.zeros(4), np.zeros((2, 3)), np.zeros((2, 4), int)])
    def test_refuses_all_else(self, wrong):
        with pytest.raises(ValueError, match=r"\(n, 4\)"):
            Rows("r", 4).validate(wrong)

    def test_generates_what_it_takes_and_survives_pickling(self):
        spec = pickle.loads(pickle.dumps(Rows("r", 4)))
        assert spec.validate(spec.generate_value()).shape == (0, 4)


class TestColumn:
    def test_takes_any_number_of_values_of_its_type(self):
        for rows in (0, 1, 5):
            Column("c", np.int64).validate(np.zeros(rows, np.int64))
        Column("c", object).validate(np.array([b"\x00", b""], dtype=object))

    @pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((2, 1), np.int64), np.int64(3)])
    def test_refuses_all_else(self, wrong):
        with pytest.raises(ValueError, match=r"\(n,\)"):
            Column("c", np.int64).validate(wrong)

    def test_generates_what_it_takes_and_survives_pickling(self):
        for dtype in (np.int64, object):
            spec = pickle.loads(pickle.dumps(Column("c", dtype)))
            assert spec.validate(spec.generate_value()).shape == (0,)


@pytest.mark.browser
def test_importing_the_environment_loads_no_browser_library():
    script = (
        "import sys, webtraj.environments.miniwob.environment as e; e.MiniwobEnvironment\n"
        "heavy = {'playwright', 'miniwob', 'gymnasium', 'selenium', 'PIL'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
