"""Which episodes a rollout plays."""

import collections

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors, registry
from webtraj.runs.plan import episode_seed, plan_episodes, plan_from_bytes, plan_to_bytes


def counts(plan):
    return dict(collections.Counter(planned.task for planned in plan))


@each(
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(1, 60))
def test_numbers_of_episodes_add_up_and_differ_by_at_most_one(episodes):
    plan = plan_episodes("ladder/all:0:7", episodes=episodes)
    assert len(plan) == episodes
    numbers = [counts(plan).get(task, 0) for task in registry.select("ladder/all:0:7").tasks]
    assert max(numbers) - min(numbers) <= 1


@each(
    ("presets", "arguments", "error", "words"),
    [
        ([], {}, errors.InvalidInputError, "at least one preset"),
        ("ladder/climb", {"episodes": 0}, errors.InvalidInputError, "must be 1 or more; got 0"),
        ("ladder/none", {}, errors.UnknownPresetError, "'ladder/none'"),
        ("ladder/climb:1", {}, errors.InvalidSelectorError, "'ladder/climb:1'"),
    ],
)
def test_wrong_input_is_a_clear_error(presets, arguments, error, words):
    with pytest.raises(error, match=words):
        plan_episodes(presets, **arguments)


def test_a_task_of_two_presets_is_never_played_twice_with_one_seed():
    plan = plan_episodes(["ladder/climb", "ladder/all"], seed=3)
    assert [planned.attempt for planned in plan if planned.task == "climb"] == [0, 1]
    assert [planned.row for planned in plan] == list(range(len(plan)))


def test_one_seed_one_plan_to_the_byte():
    contents = {
        plan_to_bytes(plan_episodes("ladder/all", episodes=11, seed=3), seed=3) for _ in range(2)
    }
    assert len(contents) == 1


def test_a_group_shares_task_and_seed_and_numbers_its_attempts():
    plan = plan_episodes("ladder/all:0:2", episodes=9, seed=3, group_size=3)
    told = [(planned.task, planned.group, planned.attempt) for planned in plan]
    assert told == [
        *[("climb", 0, n) for n in range(3)],
        *[("climb", 1, n) for n in range(3)],
        *[("slip", 0, n) for n in range(3)],
    ]
    seeds = {(planned.task, planned.group): planned.seed for planned in plan}
    assert len(set(seeds.values())) == 3
    assert all(planned.seed == seeds[planned.task, planned.group] for planned in plan)
    alone = plan_episodes("ladder/climb", episodes=2, seed=3)
    assert [planned.seed for planned in alone] == [seeds["climb", 0], seeds["climb", 1]]
    assert plan_from_bytes(plan_to_bytes(plan, seed=3), "plan.jsonl") == plan


@pytest.mark.parametrize(
    ("episodes", "group_size", "words"),
    [(8, 3, "multiple of 3, such as 9"), (None, 0, "must be 1 or more; got 0")],
)
def test_groups_that_cannot_be_are_refused(episodes, group_size, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        plan_episodes("ladder/climb", episodes=episodes, group_size=group_size)


@each(
    ("damage", "words"),
    [
        (lambda content: b"", "cannot be read"),
        (lambda content: content[:-30], "cannot be read"),
        (lambda content: b"".join(content.splitlines(keepends=True)[:-1]), "rows"),
        (lambda content: content.replace(b'"plan"', b'"plane"'), "plane"),
        (lambda content: content.replace(b'"version":1', b'"version":2'), "newer"),
        (lambda content: content.replace(b'"row":0', b'"row":1'), "rows"),
    ],
)
def test_a_damaged_plan_is_refused(damage, words):
    content = plan_to_bytes(plan_episodes("ladder/all"), seed=0)
    with pytest.raises(errors.InvalidInputError, match=words):
        plan_from_bytes(damage(content), "plan.jsonl")


def test_a_preset_that_changed_since_is_refused():
    tasks = ["first", "second"]
    registry.register("changing", lambda tasks: None, tasks=lambda: tuple(tasks))
    planned = plan_episodes("changing:1")[0]
    assert planned.selection.tasks == ("second",)
    tasks.insert(0, "new")
    with pytest.raises(errors.InvalidInputError, match="first"):
        _ = planned.selection
