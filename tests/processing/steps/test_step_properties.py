"""What holds of every step, whatever the episode."""

import copy
import itertools
import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_episodes import LIST, SHOP, done, episode, only, page, step

from webtraj.environments import actions as a
from webtraj.processing.base import Drop
from webtraj.processing.steps import observations
from webtraj.processing.steps.clean import Clean, Dedupe
from webtraj.processing.steps.filters import Filter, FilterOutcome, FilterSite, FilterTask
from webtraj.processing.steps.prune import DropNoEffect, PruneLoops
from webtraj.processing.steps.redact import Redact
from webtraj.testing import strategies
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.trajectory import reward_value

STEPS = {
    "clean": Clean(),
    "drop-no-effect": DropNoEffect(),
    "drop-no-effect harsh": DropNoEffect(channels="screenshot", keep_interactive=False),
    "prune-loops": PruneLoops(),
    "prune-loops all": PruneLoops(cut_side_effects=True, compare_screenshots=False),
    "filter": Filter(where="num_steps > 2"),
    "filter-outcome": FilterOutcome(),
    "filter-site": FilterSite(exclude="a*"),
    "filter-task": FilterTask(tasks="shop/*"),
    "redact": Redact(patterns=("email",), secrets={"tea": "Welcome"}),
}
CUTTING = [name for name in STEPS if name.startswith(("drop", "prune"))]

ACTIONS = st.sampled_from(
    [
        a.Wait(), a.Click("1"), a.Click("3"), a.Click("5"), a.GoBack(), a.Goto("https://shop.test/"),
        a.Fill("2", "tea"), a.Scroll(0, 50), a.PressKey("Enter"), a.ClickAt(3, 4), a.Answer("done"),
        a.InvalidAction("?", "", "empty"), "noop()", "click('1')", {"key": "wait"}, 7,
    ]
)  # fmt: skip
PAGES = st.builds(
    lambda tree, url, channels: page(tree, url=url, **channels),
    st.sampled_from([SHOP, LIST, SHOP.replace('"Go"', '"Go" focused'), ""]),
    st.sampled_from(["https://shop.test/", "https://shop.test/list"]),
    st.fixed_dictionaries(
        {},
        optional={
            "screenshot": st.sampled_from([b"", b"\x89PNG one", b"\x89PNG two"]),
            "scroll": st.sampled_from([{"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 50.0}]),
            "dialogs": st.sampled_from([np.array([], dtype=np.str_), np.array(["alert: no"])]),
            "last_action": st.sampled_from([done()["last_action"], done("link")["last_action"]]),
        },
    ),
)
EPISODES = st.builds(
    lambda first, steps, truncated: episode(*steps, first=first, truncated=truncated),
    PAGES,
    st.lists(
        st.builds(step, ACTIONS, PAGES, reward=st.sampled_from([0.0, 0.0, 0.0, 0.5, -1.0])),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)


# One episode goes through all steps, since drawing one costs more than that.


@settings(deadline=None, max_examples=60)
@given(trajectory=EPISODES)
def test_sound_in_sound_out_and_twice_is_once(trajectory):
    for process in STEPS.values():
        result = process(trajectory)
        if isinstance(result, Drop):
            assert process(trajectory) == result
            continue
        made = only(result)
        assert_valid_trajectory(made)
        assert made.episode_id == trajectory.episode_id
        assert process(made) is made


@settings(deadline=None, max_examples=60)
@given(trajectory=EPISODES)
def test_what_is_cut_changes_neither_reward_nor_what_is_left(trajectory):
    for name in CUTTING:
        result = STEPS[name](trajectory)
        made = only(result)
        assert made.total_reward == trajectory.total_reward
        assert (made.info, made.end) == (trajectory.info, trajectory.end)
        gone = set() if result is trajectory else _gone(result.changes)
        kept = [one for one in trajectory.steps if one.index not in gone]
        assert [one.action for one in made.steps] == [one.action for one in kept]
        assert [one.start_time for one in made.steps] == [one.start_time for one in kept]
        assert all(reward_value(trajectory.steps[index].reward) == 0 for index in gone)
        assert gone.isdisjoint({0, len(trajectory.steps) - 1})


def _gone(changes):
    ranges = (range(cut["first"], cut["last"] + 1) for cut in changes.get("cut", ()))
    return {*changes.get("dropped", ()), *itertools.chain(*ranges)}


@settings(deadline=None, max_examples=25)
@given(trajectory=strategies.trajectories())
def test_whatever_was_recorded_is_no_error_and_its_signature_is_data(trajectory):
    for process in STEPS.values():
        result = process(trajectory)
        assert isinstance(result, Drop) or only(result) is not None
    signature = Dedupe().signature(trajectory)
    data = json.loads(json.dumps(signature, allow_nan=False))
    assert data == signature == Dedupe().signature(trajectory)
    dedupe = Dedupe()
    assert dedupe.admit(data) is None
    assert dedupe.admit(data).reason == "the same as another"


@settings(deadline=None, max_examples=25)
@given(episodes=st.lists(EPISODES, max_size=6))
def test_admission_is_the_same_each_time(episodes):
    def kept():
        dedupe = Dedupe(threshold=0.8)
        return [dedupe.admit(dedupe.signature(one)) for one in episodes]

    assert kept() == kept()


def test_the_key_of_a_content_is_small_and_differs_with_it():
    screen = np.arange(720 * 1280 * 3, dtype=np.uint32).astype(np.uint8).reshape(720, 1280, 3)
    other = screen.copy()
    other[-1, -1, -1] ^= 1
    made = [
        screen, other, screen.transpose(1, 0, 2), screen[::2], screen.astype(np.int16),
        np.array(["a", "b"]), np.array(["a", "c"]), np.array([{"a": 1}]), np.array([{"a": 2}]),
        np.array(1.5), np.array([]), [1, 2], [2, 1], "a", b"b", None,
    ]  # fmt: skip
    keys = [observations.content_of(value) for value in made]
    assert len(set(keys)) == len(keys)
    assert max(len(repr(key)) for key in keys) < 200
    assert keys == [observations.content_of(copy.deepcopy(value)) for value in made]
