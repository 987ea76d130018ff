"""Which episodes a rollout plays."""

import collections

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webtraj import errors, registry
from webtraj.rollouts.plan import episode_seed, plan_episodes


def counts(plan):
    return dict(collections.Counter(planned.task for planned in plan))


def test_default_is_one_episode_of_each_task():
    assert counts(plan_episodes("ladder/all:0:3")) == {"climb": 1, "slip": 1, "tire": 1}


@pytest.mark.parametrize(
    ("presets", "episodes", "expected"),
    [
        ("ladder/climb", 5, {"climb": 5}),
        ("ladder/all:0:3", 7, {"climb": 3, "slip": 2, "tire": 2}),
        ("ladder/all:0:3", 2, {"climb": 1, "slip": 1}),
        (["ladder/climb", "ladder/slip"], 4, {"climb": 2, "slip": 2}),
        (("ladder/climb", "ladder/all:1:3"), None, {"climb": 1, "slip": 1, "tire": 1}),
    ],
)
def test_episodes_are_dealt_out_evenly(presets, episodes, expected):
    assert counts(plan_episodes(presets, episodes=episodes)) == expected


def test_attempts_at_a_task_are_numbered_and_stay_together():
    plan = plan_episodes("ladder/all:0:2", episodes=5)
    assert [(planned.task, planned.attempt) for planned in plan] == [
        ("climb", 0),
        ("climb", 1),
        ("climb", 2),
        ("slip", 0),
        ("slip", 1),
    ]


def test_seeds_follow_from_run_task_and_attempt_alone():
    alone = {p.attempt: p.seed for p in plan_episodes("ladder/slip", episodes=3, seed=5)}
    among = [p for p in plan_episodes("ladder/all", episodes=24, seed=5) if p.task == "slip"]
    assert {p.attempt: p.seed for p in among} == alone
    other = {p.attempt: p.seed for p in plan_episodes("ladder/slip", episodes=3, seed=6)}
    assert not set(alone.values()) & set(other.values())


@given(st.integers(), st.text(), st.integers(0, 10**6))
def test_every_seed_fits_31_bits(run_seed, task, attempt):
    assert 0 <= episode_seed(run_seed, task, attempt) < 2**31


def test_seeds_of_a_long_run_hardly_ever_meet():
    seeds = {episode_seed(0, "click-test", attempt) for attempt in range(10_000)}
    assert len(seeds) >= 9_999


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 60))
def test_numbers_of_episodes_add_up_and_differ_by_at_most_one(episodes):
    plan = plan_episodes("ladder/all:0:7", episodes=episodes)
    assert len(plan) == episodes
    numbers = [counts(plan).get(task, 0) for task in registry.select("ladder/all:0:7").tasks]
    assert max(numbers) - min(numbers) <= 1


def test_preset_without_tasks_is_one_task_by_its_own_name():
    registry.register("plain", lambda: None)
    assert counts(plan_episodes("plain", episodes=2)) == {"plain": 2}


@pytest.mark.parametrize(
    ("presets", "arguments", "error", "words"),
    [
        ([], {}, errors.InvalidInputError, "at least one preset"),
        ("ladder/climb", {"episodes": 0}, errors.InvalidInputError, "1 episode or more; got 0"),
        ("ladder/none", {}, errors.UnknownPresetError, "'ladder/none'"),
        ("ladder/climb:1", {}, errors.InvalidSelectorError, "'ladder/climb:1'"),
    ],
)
def test_wrong_input_is_a_clear_error(presets, arguments, error, words):
    with pytest.raises(error, match=words):
        plan_episodes(presets, **arguments)
