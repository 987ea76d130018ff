"""The data model: what is derived, and what cannot be changed."""

import dataclasses
import itertools
import math
import pickle
import re

import numpy as np
import pytest

import webtraj
from rows import each
from webtraj import trajectory as trajectory_lib
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepType,
)


def step(index, step_type=StepType.MID, reward=None, **kwargs):
    return trajectory_lib.StepRecord(index, step_type, f"o{index}", reward=reward, **kwargs)


def episode(*steps, reason=EndReason.TERMINATED):
    return EpisodeTrajectory(EpisodeInfo(), steps, EpisodeEnd(reason=reason))


PLAYED = episode(
    step(0, StepType.FIRST),
    step(1, reward=0.5, action="a1", discount=1.0),
    step(2, StepType.LAST, reward=1.0, action="a2", discount=0.0),
)


@each(
    "record",
    [EpisodeInfo(), PLAYED, PLAYED.steps[0], PLAYED.end, webtraj.Decision(), webtraj.ModelCall()],
)
def test_records_are_frozen_and_slotted(record):
    name = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, name, None)
    assert not hasattr(record, "__dict__")


def test_transitions_shift_to_observation_action_reward_next_observation():
    assert [
        (t.observation, t.action, t.reward, t.discount, t.next_observation)
        for t in PLAYED.transitions()
    ] == [("o0", "a1", 0.5, 1.0, "o1"), ("o1", "a2", 1.0, 0.0, "o2")]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [((), 0), (PLAYED.steps[:1], 0), (PLAYED.steps[:2], 1), (PLAYED.steps, 2)],
)
def test_num_steps_counts_transitions(steps, expected):
    found = episode(*steps)
    assert found.num_steps == len(list(found.transitions())) == expected


@each(
    ("rewards", "total"),
    [
        ([], None),
        ([None, None], None),
        ([0.5, 1, None], 1.5),
        ([np.float32(0.5), np.array([1.0, 2.0])], 3.5),
        ([{"a": 1.0, "b": [2.0, (np.ones(2),)]}], 5.0),
        ([True, np.int64(2)], 3.0),
        ([1.0, float("nan")], math.nan),
        ([np.array([np.inf, -np.inf])], math.nan),
        ([1.0, "good"], math.nan),
        ([1j], math.nan),
        ([print], math.nan),
        ([10**400], math.nan),
        ([np.array([3e38, 3e38], np.float32)], math.inf),
    ],
)
def test_total_reward(rewards, total):
    steps = [step(0, StepType.FIRST), *(step(i + 1, reward=r) for i, r in enumerate(rewards))]
    found = episode(*steps).total_reward
    assert found == (None if total is None else pytest.approx(total, nan_ok=True))


def test_the_reward_of_first_is_no_reward_and_that_of_a_headless_start_is():
    assert episode(step(0, StepType.FIRST, reward=5.0)).total_reward is None
    assert episode(step(0, StepType.MID, reward=5.0)).total_reward == 5.0


@each("reason", EndReason)
def test_terminated_and_truncated_follow_the_end_s_reason(reason):
    found = episode(reason=reason)
    assert found.terminated is (reason is EndReason.TERMINATED)
    assert found.truncated is (reason is EndReason.TRUNCATED)


def test_an_open_episode_has_no_reason_nor_outcome():
    found = EpisodeTrajectory(EpisodeInfo())
    assert found.end_reason is EndReason.UNKNOWN
    assert found.outcome is trajectory_lib.Outcome.UNKNOWN
    assert not found.terminated


def test_an_episode_prints_as_one_line():
    info = EpisodeInfo(episode_id="e1", task="click")
    played = dataclasses.replace(PLAYED, info=info)
    line = "<EpisodeTrajectory 'e1' of 'click': 2 steps, "
    assert str(played) == line + "reward 1.5, TERMINATED, UNKNOWN>"
    assert str(dataclasses.replace(played, end=None)) == line + "no reward, open>"


def test_only_an_episode_that_ended_by_itself_with_a_verdict_or_none_has_a_reward():
    scored = {trajectory_lib.Outcome.SUCCESS, trajectory_lib.Outcome.FAILURE,
              trajectory_lib.Outcome.UNKNOWN}  # fmt: skip
    for outcome, reason in itertools.product(trajectory_lib.Outcome, EndReason):
        end = trajectory_lib.EpisodeEnd(reason=reason, outcome=outcome)
        total = dataclasses.replace(PLAYED, end=end).total_reward
        by_itself = reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
        assert total == (1.5 if by_itself and outcome in scored else None), (outcome, reason)


def test_new_ids_are_unique_and_name_files():
    ids = {trajectory_lib.new_episode_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"\d{8}T\d{6}-[0-9a-f]{16}", episode_id) for episode_id in ids)


def test_an_episode_tells_where_a_part_of_it_is():
    episode = EpisodeTrajectory(EpisodeInfo(episode_id="e1", task="t"))
    for name, hint in {"task": "info.task", "seed": "info.seed", "reason": "end.reason"}.items():
        with pytest.raises(AttributeError, match=f"no '{name}': it is `{hint}`"):
            getattr(episode, name)
    with pytest.raises(AttributeError, match=r"no 'colour'\.$"):
        _ = episode.colour
    assert pickle.loads(pickle.dumps(episode)) == episode
