"""Minari: a dataset that Minari itself loads, whose values its spaces contain."""

import base64
import dataclasses
import io
import json

import numpy as np
import pytest

from export_episodes import picture
from webtraj.datasets.exporters.plain import action_text, to_json
from webtraj.trajectory import StepRecord, StepType
from webtraj_formats.exporters import minari as minari_exporter

minari = pytest.importorskip("minari")
spaces = pytest.importorskip("gymnasium.spaces")
NAME = "shop-v0"


@pytest.fixture
def load(export, tmp_path, monkeypatch):
    """Exports a dataset, and loads it by its id."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def run(dataset, **more):
        name = more.pop("name", NAME)
        _out, report = export(dataset, "minari", name=name, **more)
        loaded = minari.load_dataset(name)
        for episode in loaded:
            check_members(loaded, episode)
        return loaded, report

    return run


def row(values, i):
    if isinstance(values, dict):
        return {key: row(value, i) for key, value in values.items()}
    return values[i] if isinstance(values, list) else np.asarray(values[i])


def check_members(loaded, episode):
    n = len(episode.rewards)
    for i in range(n + 1):
        assert loaded.observation_space.contains(row(episode.observations, i))
    for i in range(n):
        assert loaded.action_space.contains(row(episode.actions, i))


def test_arrays_and_numbers(catch, load):
    loaded, report = load(catch)
    assert report.notes == ()
    assert (loaded.total_episodes, loaded.total_steps, loaded.id) == (3, 12, NAME)
    assert loaded.observation_space == spaces.Box(
        -np.inf, np.inf, (5, 3), catch[0].steps[0].observation.dtype
    )
    assert loaded.action_space == spaces.Discrete(3)
    for old, new in zip(catch, loaded, strict=True):
        assert np.array_equal(new.observations, [step.observation for step in old.steps])
        assert new.actions.tolist() == [step.action for step in old.steps[1:]]
        assert new.rewards.tolist() == [step.reward for step in old.steps[1:]]
        assert new.terminations.tolist() == [False, False, False, True]
        assert new.truncations.tolist() == [False] * 4
        assert new.infos["discount"].tolist()[1:] == [1.0, 1.0, 1.0, 0.0]
        assert new.infos["end_time"].tolist() == [step.end_time for step in old.steps]


def test_a_page(shop, load):
    loaded, _ = load(shop)
    assert isinstance(loaded.observation_space["axtree"], spaces.Text)
    assert loaded.observation_space["screenshot"] == spaces.Box(0, 255, (48, 64, 3), np.uint8)
    assert loaded.observation_space["last_action"]["box"].shape == (4,)
    assert isinstance(loaded.action_space, spaces.Text)
    for old, new in zip(shop, loaded, strict=True):
        seen = [step.observation for step in old.steps]
        assert new.observations["url"] == [o["url"] for o in seen]
        assert new.observations["axtree"] == [o["axtree"] for o in seen]
        assert new.observations["tabs"] == [to_json(o["tabs"]) for o in seen]
        assert new.observations["boxes"] == [to_json(o["boxes"]) for o in seen]
        assert new.observations["active_tab"].tolist() == [0] * len(seen)
        assert new.actions == [action_text(step.action) for step in old.steps[1:]]
        image = pytest.importorskip("PIL.Image")
        for i in range(len(seen)):
            pixels = np.asarray(image.open(io.BytesIO(picture(i))))
            assert np.array_equal(new.observations["screenshot"][i], pixels)
        thoughts = [step.decision.thought if step.decision else "" for step in old.steps]
        assert [t.decode() for t in new.infos["agent"]["thought"]] == thoughts
        tokens = new.infos["agent"]["completion_token_ids"][2]
        assert tokens.tolist() == [7, 10]
    (whole, early) = loaded
    assert whole.terminations.tolist() == [False, False, False, True]
    assert early.terminations.tolist() == [False, False]
    assert early.truncations.tolist() == [False, True]
    (about, _) = loaded.storage.get_episode_metadata([0, 1])
    assert about["episode_id"] == shop.episode_ids[0]
    assert (about["end_reason"], about["outcome"]) == ("terminated", "success")
    assert about["seed"] == shop[0].info.seed
    assert json.loads(about["metadata"])["split"] == "train"


def test_what_stopped_in_the_middle_is_a_truncation_and_told(wrecks, load):
    loaded, report = load(wrecks)
    assert [left.why for left in report.left_out] == [minari_exporter._NO_ACTIONS]
    assert not report.left_out[0].failed
    assert len(loaded) == 2
    for new, about in zip(loaded, loaded.storage.get_episode_metadata([0, 1]), strict=True):
        assert not new.terminations.any()
        assert new.truncations.tolist()[-1]
        assert about["end_reason"] in ("errored", "crashed")
    told = [note for note in report.notes if note.field == "end"]
    assert len(told) == 2
    assert all("stopped in the middle" in note.why for note in told)


def test_an_episode_that_lost_a_step_is_left_out(shop, load):
    def lose(episode):
        steps = tuple(step for step in episode.steps if step.index != 2)
        return dataclasses.replace(episode, steps=steps) if len(steps) > 3 else episode

    loaded, report = load(shop, transform=lose)
    (left,) = report.left_out
    assert (left.episode_id, left.failed) == (shop[0].episode_id, False)
    assert left.why == "Minari keeps whole episodes, and its step 2 could not be recorded"
    assert loaded.total_episodes == 1


def with_values(episode, *observations, actions=None):
    steps = [
        StepRecord(
            i,
            StepType.MID if i else StepType.FIRST,
            observation,
            (actions[i - 1] if actions else i) if i else None,
            0.0 if i else None,
            1.0 if i else None,
        )
        for i, observation in enumerate(observations)
    ]
    return dataclasses.replace(episode, steps=tuple(steps))


def values_of(load, shop, *values, name="x", **more):
    observations = [{name: value} for value in values]
    loaded, report = load(shop[:1], transform=lambda e: with_values(e, *observations), **more)
    (episode,) = loaded
    return episode.observations, report, loaded.observation_space


SMALL, LARGE = picture(1, (40, 30)), picture(2)
CASES = {
    "pictures of several sizes": (
        [SMALL, LARGE], {"x": [base64.b64encode(SMALL).decode(), base64.b64encode(LARGE).decode()]}
    ),
    "bytes that are no picture": ([b"\0a", b""], {"x": ["AGE=", ""]}),
    "text and numbers": (["a", 1], {"x": ['"a"', "1"]}),
    "nothing": ([{}, {}], {}),
    "truth": ([True, False], {"x": [True, False]}),
    "an empty array": ([np.zeros(0), np.zeros(0)], {"x": ["[]", "[]"]}),
    "lists that floats would round": (
        [[2**60 + 1, 0.5], [2**63, -1]],
        {"x": ["[1152921504606846977,0.5]", "[9223372036854775808,-1]"]},
    ),
    "no text": (["", ""], {"x": ["", ""]}),
    "a value some steps lack": ([2, None], {"x": [2, 0], "x:present": [True, False]}),
    "a mapping that was a value": (
        [1, {"y": 2}],
        {"x": {
            "%value": [1, 0], "%value:present": [True, False],
            "y": [0, 2], "y:present": [False, True],
        }},
    ),
}  # fmt: skip


def listed(values):
    if isinstance(values, dict):
        return {key: listed(value) for key, value in values.items()}
    return values if isinstance(values, list) else values.tolist()


@pytest.mark.parametrize("case", CASES)
def test_values_of_any_kind_have_a_space(case, shop, load):
    values, expected = CASES[case]
    found, _, _ = values_of(load, shop, *values)
    assert listed(found) == expected


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "a:b", "%", "ü"])
def test_names_of_any_kind_are_kept_apart(name, shop, load):
    found, _, _ = values_of(load, shop, 1, 2, name=name)
    (values,) = found.values()
    assert values.tolist() == [1, 2]


@pytest.mark.slow
def test_it_says_what_was_written_and_what_is_not_as_it_was(shop, wrecks, run_export):
    out, said = run_export(shop, "--format", "minari", out="shop-v0")
    assert f"{out}: 2 episodes of 6 steps written as minari\n" in said
    lines = [line for line in said.splitlines() if "model_calls.messages" in line]
    (line,) = lines
    assert line.split()[-2:] == ["2", "4"]  # Of two episodes, four values.
    out, said = run_export(wrecks, "--format", "minari", out="wrecks-v0")
    assert "2 episodes" in said
    assert "1 left out" in said
    assert "Minari keeps transitions" in said
    assert wrecks.episode_ids[0] in said
