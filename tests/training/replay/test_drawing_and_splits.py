"""Draws, weights and splits: shares are met, seeds repeat, units stay where they were."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors
from webtraj.datasets.writer import DatasetWriter
from webtraj.training.replay import ReplayBuffer, weights
from webtraj.training.replay.buffer import in_validation
from webtraj.training.replay.weights import View, draw, quotas, rank

SEEDS = st.integers(0, 2**63)


def drawn_of(selection):
    """Returns how many samples there are of each iteration."""
    return list(selection.buffer.report(selection).iterations.values())


@pytest.fixture(scope="module")
def four_iterations(tmp_path_factory, make):
    places = [str(tmp_path_factory.mktemp("iteration")) for _ in range(4)]
    for n, place in enumerate(places):
        with DatasetWriter(place) as writer:
            for m in range(4):
                writer.add(make(f"d{n}-{m}", steps=10))
    return ReplayBuffer.from_datasets(places)


@pytest.mark.parametrize("replacement", [False, True])
def test_recency_at_power_2_draws_3_13_30_53_percent_of_four_equal_iterations(
    four_iterations, replacement
):
    drawn = four_iterations.sample_with_recency(60, 2, replacement=replacement)
    assert drawn_of(drawn) == [2, 8, 18, 32]


def test_recency_goes_by_iteration_not_by_place_in_a_list(four_iterations):
    view = four_iterations.view
    found = weights.recency(2.0)(view)
    assert {(int(i), float(w)) for i, w in zip(view.iteration, found, strict=True)} == {
        (1, 1.0), (2, 4.0), (3, 9.0), (4, 16.0),
    }  # fmt: skip


def test_what_an_iteration_lacks_goes_to_the_others(four_iterations):
    drawn = four_iterations.sample_with_recency(120, 2)
    assert drawn_of(drawn)[-2:] == [40, 40]
    assert len(drawn) == len(set(drawn.rows.tolist())) == 120
    # With no more than there is, all of it.
    assert len(four_iterations.sample_with_recency(1000, 2)) == 160
    assert drawn_of(four_iterations.sample_with_recency(40, 0)) == [10, 10, 10, 10]


def test_draws_repeat_with_their_seed_and_differ_without(four_iterations):
    one = four_iterations.sample_with_recency(50, seed=1)
    assert one.sha256 == four_iterations.sample_with_recency(50, seed=1).sha256
    assert one.sha256 != four_iterations.sample_with_recency(50, seed=2).sha256
    shuffled = one.shuffle(3)
    assert sorted(shuffled.rows) == sorted(one.rows)
    assert shuffled.sha256 != one.sha256


def test_a_sample_stays_drawn_when_others_are_added(episode, dataset):
    few = [episode(f"e{n}") for n in range(10)]
    more = [episode(f"f{n}") for n in range(10)]
    small = ReplayBuffer.from_datasets(dataset("small", few)).sample(20)
    large = ReplayBuffer.from_datasets(dataset("large", [*few, *more])).sample(20)
    assert {key for key in large.keys if key.episode_id[0] == "e"} < set(small.keys)


def view_of(**columns):
    length = len(next(iter(columns.values())))
    fields = dict.fromkeys(
        ("episode", "step", "iteration", "task", "site", "level", "outcome", "tokens", "version"),
        np.zeros(length, np.int64),
    )
    fields |= {"reward": np.full(length, np.nan), "advantage": np.full(length, np.nan)}
    fields |= {name: np.asarray(values) for name, values in columns.items()}
    return View(**fields, tasks=(), sites=(), versions=(), iterations=(0,))


@given(st.lists(st.integers(0, 5), min_size=1))
def test_balanced_gives_all_tasks_the_same_weight_in_sum(tasks):
    found = weights.balanced("task")(view_of(task=tasks))
    sums = np.bincount(tasks, weights=found)
    assert np.allclose(sums[np.unique(tasks)], 1.0)


def test_lifted_raises_rare_tasks_and_lowers_none():
    view = view_of(task=[0] * 90 + [1] * 9 + [2])
    found = weights.lifted("task", most=10.0)(view)
    assert (found[0], found[90], found[99]) == pytest.approx((1.0, 100 / 3 / 9, 10.0))
    assert not len(weights.lifted("task")(view_of(task=[])))
    for wrong in ({"by": "colour"}, {"by": "task", "most": 0.5}):
        with pytest.raises(errors.InvalidInputError, match="expected"):
            weights.lifted(**wrong)


def test_advantage_weights():
    view = view_of(advantage=[0.5, -0.5, np.nan])
    assert weights.advantage()(view).tolist() == [0.5, 0.0, 0.0]
    assert weights.advantage(positive_only=False)(view).tolist() == [0.5, 0.5, 0.0]
    scaled = weights.advantage(scale=0.5)(view)
    assert scaled.tolist() == pytest.approx([np.e, 1 / np.e, 0.0])
    both = weights.product(weights.advantage(), lambda view: np.full(len(view), 2.0))
    assert both(view).tolist() == [1.0, 0.0, 0.0]


WRONG = {
    "shape": lambda view: np.ones(len(view) + 1),
    "negative": lambda view: np.full(len(view), -1.0),
    "nan": lambda view: np.full(len(view), np.nan),
    "no-numbers": lambda view: ["x"] * len(view),
}


@each("name", WRONG)
def test_a_weighting_of_no_weights_is_refused(name, episode, dataset):
    buffer = ReplayBuffer.from_datasets(dataset("d", [episode("e1")]))
    with pytest.raises(errors.InvalidInputError, match="weighting gave"):
        buffer.sample(1, WRONG[name])


@each("power", [-1, float("nan"), float("inf"), True])
def test_a_power_that_is_none_is_refused(power, four_iterations):
    with pytest.raises(errors.InvalidInputError, match="power of recency"):
        four_iterations.sample_with_recency(3, power)


@settings(max_examples=50)
@given(
    st.lists(st.floats(0.0, 100.0) | st.just(0.0), min_size=1, max_size=40),
    st.integers(0, 60),
    SEEDS,
    st.booleans(),
)
def test_draws_have_the_size_asked_for_and_nothing_of_weight_0(given_weights, count, seed, again):
    found = np.array(given_weights)
    assume(found.sum() > 1e-6)
    possible = int((found > 0.0).sum())
    drawn = draw(found, np.arange(len(found), dtype=np.uint64), count, seed=seed, replacement=again)
    assert len(drawn) == (count if again else min(count, possible))
    assert np.all(found[drawn] > 0.0)
    assert again or len(set(drawn.tolist())) == len(drawn)


@given(
    st.lists(st.tuples(st.floats(0.01, 50.0), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(0, 300),
)
def test_quotas_add_up_and_ask_of_no_part_more_than_it_has(parts, count):
    shares = np.array([share for share, _ in parts])
    sizes = np.array([size for _, size in parts])
    found = quotas(shares, sizes, count)
    assert found.sum() == min(count, sizes.sum())
    assert np.all((found >= 0) & (found <= sizes))
    free = quotas(shares, None, count)
    assert free.sum() == count
    assert np.all(np.abs(free - shares / shares.sum() * count) < 1.0)


@given(st.lists(st.integers(0, 4), max_size=30), SEEDS)
def test_places_in_groups_count_from_0(groups, seed):
    numbers = np.array(groups, np.int64)
    places = rank(numbers, np.arange(len(groups), dtype=np.uint64), seed=seed)
    for group in set(groups):
        assert sorted(places[numbers == group]) == list(range(groups.count(group)))


NAMES = st.lists(st.text(max_size=8), unique=True, min_size=2, max_size=60)


@given(NAMES, NAMES, st.floats(0.05, 0.9), SEEDS)
def test_units_stay_in_their_part_when_others_are_added(names, more, ratio, seed):
    both = [*names, *(name for name in more if name not in names)]
    try:
        before = in_validation(names, ratio, seed=seed)
        after = in_validation(both, ratio, seed=seed)
    except errors.InvalidInputError:  # Nothing would be left to train on.
        assume(False)
    moved = before != after[: len(names)]
    # But for the one that stands in where there would be none to validate on.
    assert moved.sum() <= 1
    assert not moved.any() or before.sum() == 1
    assert before.any()
    assert not before.all()


def test_splits_take_about_their_share_and_differ_by_seed():
    names = [f"episode {n}" for n in range(20_000)]
    one, other = (in_validation(names, 0.05, seed=seed) for seed in (0, 1))
    assert one.mean() == pytest.approx(0.05, abs=0.005)
    assert (one & other).mean() == pytest.approx(0.0025, abs=0.0015)
