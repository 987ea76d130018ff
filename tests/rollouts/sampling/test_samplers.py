"""Sampling: seeded, without replacement, in the wanted proportions, in little memory."""

import collections
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.environments.tasks import TaskSpec
from webtraj.rollouts import samplers
from webtraj.rollouts.samplers import Band, CurriculumSampler, RatioSampler, UniformSampler
from webtraj.runs.plan import plan_tasks


def tasks(number, difficulty=lambda index: index % 9 + 1):
    for index in range(number):
        yield TaskSpec(
            name=str(index),
            goal=f"goal {index}",
            start_url=f"https://site{index % 7}.example",
            site=f"site{index % 7}.example",
            difficulty=difficulty(index),
        )


def names(picked):
    return [task.name for task in picked]


BANDS = {"easy": Band(1, 3, 2), "medium": Band(4, 6, 5), "hard": Band(7, 99, 3)}


def test_a_sequence_takes_the_first_as_they_come_and_repeats_the_whole():
    picked = samplers.Sequence(3, repeat=2)(tasks(10), seed=5)
    assert names(picked) == ["0", "1", "2", "0", "1", "2"]
    assert names(samplers.Sequence()(tasks(4), seed=0)) == list("0123")


@pytest.mark.parametrize(
    "sampler", [UniformSampler(20), RatioSampler(20, BANDS)], ids=["uniform", "ratio"]
)
def test_one_seed_one_sample(sampler):
    first = names(sampler(tasks(500), seed=1))
    assert names(sampler(tasks(500), seed=1)) == first
    assert names(sampler(tasks(500), seed=2)) != first
    assert len(set(first)) == 20


def test_uniform_is_uniform():
    counts = collections.Counter()
    for seed in range(2000):
        counts.update(names(UniformSampler(5)(tasks(50), seed=seed)))
    # 200 expected each, standard deviation 13.4.
    assert len(counts) == 50
    assert all(130 < count < 270 for count in counts.values())


def test_too_few_gives_all_and_says_so(caplog):
    assert len(UniformSampler(20)(tasks(4), seed=0)) == 4
    assert "4 of the 20 requested tasks" in caplog.text


def test_ratio_gives_each_band_its_share():
    picked = RatioSampler(20, BANDS)(tasks(900), seed=0)
    assert collections.Counter(task.level for task in picked) == {
        "easy": 4,
        "medium": 10,
        "hard": 6,
    }


def test_what_is_left_goes_to_the_largest_remainder():
    picked = RatioSampler(3, BANDS)(tasks(900), seed=0)  # 0.6, 1.5, 0.9
    assert collections.Counter(task.level for task in picked) == {
        "easy": 1,
        "medium": 1,
        "hard": 1,
    }


def test_a_band_with_too_few_leaves_its_share_to_the_others():
    few_hard = tasks(900, lambda index: 7 if index < 2 else index % 6 + 1)
    picked = RatioSampler(40, BANDS)(few_hard, seed=0)
    counts = collections.Counter(task.level for task in picked)
    assert len(picked) == 40
    assert counts["hard"] == 2
    assert counts["medium"] > 2 * counts["easy"]


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 5))
def test_a_ratio_never_gives_more_than_there_is_nor_less_than_it_can(size, number, seed):
    picked = RatioSampler(size, BANDS)(tasks(number), seed=seed)
    assert len(picked) == min(size, number)
    assert len(set(names(picked))) == len(picked)


def test_a_curriculum_plays_what_succeeds_sometimes_most_and_each_task_once():
    last = {"0": (100, 100), "1": (50, 100), "2": (0, 100), "3": (80, 100)}
    picked = CurriculumSampler(1000, last)(tasks(5), seed=0)
    counts = collections.Counter(names(picked))
    assert sum(counts.values()) == 1000
    assert counts["4"] == pytest.approx(counts["1"], abs=3)  # Never played, or half and half.
    assert counts["1"] / counts["3"] == pytest.approx(0.25 / 0.16, rel=0.03)
    assert 1 < counts["0"] == counts["2"] < 20
    rows = [len(list(row)) for _, row in itertools.groupby(names(picked))]
    assert sum(rows) / len(rows) > 9, "in a row, so that pages stay open"
    played = collections.Counter(names(picked[:900]))
    assert all(played[name] >= counts[name] // 2 for name in counts), "ending early is fair"


def test_a_curriculum_of_two_tasks_with_one_name_is_refused():
    pair = [TaskSpec(name="web", goal=goal, start_url="https://a.test") for goal in ("Buy", "Sell")]
    with pytest.raises(errors.InvalidInputError, match="Two tasks are named 'web': 'Buy'"):
        CurriculumSampler()(pair, seed=0)
    with pytest.raises(errors.InvalidInputError, match="Give each task a name of its own"):
        plan_tasks(pair)
    assert len(plan_tasks([pair[0], pair[0]])) == 2


def test_a_curriculum_too_small_for_its_tasks_is_refused():
    with pytest.raises(errors.InvalidInputError, match="each of the 3 tasks at least once; got"):
        CurriculumSampler(2)(tasks(3), seed=0)


@each(
    "make",
    [
        lambda: UniformSampler(0),
        lambda: CurriculumSampler(0),
        lambda: samplers.Sequence(-1),
        lambda: samplers.Sequence(1, repeat=0),
        lambda: RatioSampler(1, {}),
        lambda: RatioSampler(1, {"a": Band(3, 1, 1)}),
        lambda: RatioSampler(1, {"a": Band(1, 3, 0)}),
    ],
)
def test_what_cannot_be_sampled_is_refused_at_once(make):
    with pytest.raises(errors.InvalidInputError):
        make()


@each(
    "sampler",
    [UniformSampler(3), samplers.Sequence(3), RatioSampler(3, BANDS), CurriculumSampler(3)],
)
def test_no_task_is_an_error(sampler):
    with pytest.raises(errors.InvalidInputError, match="No tasks to play"):
        sampler([], seed=0)


def test_distinct_tells_tasks_by_what_they_say():
    twice = [
        TaskSpec(name="a", goal="g", start_url="u"),
        TaskSpec(name="b", goal="g", start_url="u"),
    ]
    other = TaskSpec(name="c", goal="g", start_url="u", difficulty=2)
    assert names(samplers.distinct([*twice, other])) == ["a", "c"]
    presets = [TaskSpec(name="x", preset="p:0"), TaskSpec(name="y", preset="p:1")]
    assert names(samplers.distinct(presets)) == ["x", "y"]


def test_blocked_sites_come_back_after_a_while(tmp_path):
    now = 1000.0
    blocklist = samplers.Blocklist(tmp_path / "deep" / "blocklist.jsonl", ttl=60, clock=lambda: now)
    assert blocklist.sites() == frozenset()
    blocklist.add("https://www.site1.example/a?b", task="1", episode_id="e")
    assert names(samplers.drop_blocked(tasks(3), blocklist)) == ["0", "2"]
    now = 1061.0
    assert names(samplers.drop_blocked(tasks(3), blocklist)) == ["0", "1", "2"]


def test_a_blocklist_by_hand_and_what_cannot_be_read_in_it(tmp_path, caplog):
    path = tmp_path / "blocklist.jsonl"
    path.write_text('{"domain": "Site0.example", "blocked_at": 5}\nnonsense\n{"domain": 3}\n')
    blocklist = samplers.Blocklist(path, clock=lambda: 10.0)
    assert blocklist.sites() == {"site0.example"}
    assert "Skipped line 2" in caplog.text
    assert "Skipped line 3" in caplog.text
