"""Intervals, pass@k and pass^k, against their definitions."""

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_episodes import patient

from rows import each
from webtraj import errors
from webtraj.metrics.rates import (
    SpreadTally,
    bootstrap_interval,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)


@each("attempts", range(1, 9))
def test_pass_estimates_are_shares_of_all_draws(attempts):
    for successes in range(attempts + 1):
        made = [True] * successes + [False] * (attempts - successes)
        for k in range(1, attempts + 1):
            draws = list(itertools.combinations(made, k))
            for estimate, passes in ((pass_at_k, any), (pass_hat_k, all)):
                expected = sum(map(passes, draws)) / len(draws)
                assert estimate(attempts, successes, k) == pytest.approx(expected, abs=1e-15)


@patient
@given(st.integers(1, 400), st.data())
def test_pass_at_k_grows_with_k_and_begins_at_the_success_rate(attempts, data):
    successes = data.draw(st.integers(0, attempts))
    chances = [pass_at_k(attempts, successes, k) for k in range(1, attempts + 1)]
    assert chances[0] == pytest.approx(successes / attempts)
    assert chances == sorted(chances)
    assert chances[-1] == (successes > 0)


def test_pass_at_k_of_many_attempts_is_exact():
    # The product that the paper's own code uses, in logarithms.
    expected = 1 - math.exp(
        math.fsum(math.log1p(-100 / i) for i in range(20_000 - 100 + 1, 20_000 + 1))
    )
    assert pass_at_k(20_000, 100, 100) == pytest.approx(expected, rel=1e-12)


@each(("attempts", "successes", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0), (0, 0, 1)])
def test_pass_estimates_of_impossible_counts_are_errors(attempts, successes, k):
    for estimate, sign in ((pass_at_k, "@"), (pass_hat_k, r"\^")):
        message = f"pass{sign}{k} of {successes} successes in"
        with pytest.raises(errors.InvalidInputError, match=message):
            estimate(attempts, successes, k)


@each(("alpha", "beta"), [(2, 2), (0.5, 0.5), (8, 1)])
@each("tasks", [3, 8, 25])
def test_the_interval_over_tasks_covers_the_truth_as_often_as_it_claims(alpha, beta, tasks):
    # Tasks are drawn from a world in which the mean chance is known, with four attempts at each.
    source = random.Random(f"{alpha} {beta} {tasks}")
    truth, rounds, covered = alpha / (alpha + beta), 150, 0
    for _ in range(rounds):
        chances = [source.betavariate(alpha, beta) for _ in range(tasks)]
        solved = [sum(source.random() < chance for _ in range(4)) for chance in chances]
        low, high = bootstrap_interval((pass_at_k(4, one, 1), 1, 1) for one in solved)
        covered += low <= truth <= high
    assert covered / rounds > 0.91


def test_the_interval_over_tasks_matches_a_sampled_bootstrap():
    shares = [0.0, 0.25, 0.25, 0.5, 1.0, 1.0, 1.0]
    source = random.Random(1)
    means = sorted(
        statistics.fmean(source.choices([*shares, 0.0, 1.0], k=len(shares))) for _ in range(20_000)
    )
    interval = bootstrap_interval((share, 1, 1) for share in shares)
    assert interval == pytest.approx((means[500], means[-500]), abs=0.04)
    assert interval == bootstrap_interval([(1.0, 1, 3), (0.5, 1, 1), (0.25, 1, 2), (0.0, 1, 1)])


def test_many_attempts_at_few_tasks_do_not_narrow_the_interval():
    few = bootstrap_interval([(2.0, 4, 2), (4.0, 4, 1)])
    assert few == bootstrap_interval([(50.0, 100, 2), (100.0, 100, 1)])
    assert few[1] - few[0] > 0.4
    assert bootstrap_interval([(3.0, 4, 1)]) is None
    assert bootstrap_interval([]) is None


@patient
@given(st.integers(1, 5000), st.data())
def test_wilsons_ends_are_the_chances_that_the_counts_just_do_not_refute(trials, data):
    # By definition: the two chances p at which |share - p| = z·sqrt(p(1 - p)/n).
    successes = data.draw(st.integers(0, trials))
    confidence = data.draw(st.floats(0.5, 0.999))
    low, high = wilson_interval(successes, trials, confidence=confidence)
    share = successes / trials
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        assert abs(share - end) == pytest.approx(
            z * math.sqrt(end * (1 - end) / trials), rel=1e-6, abs=1e-9
        )


def test_wilson_agrees_with_published_numbers():
    # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
    for successes, trials, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_interval_of_no_trials_is_none():
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(("successes", "trials"), [(2, 1), (-1, 1), (0, -1)])
def test_counts_that_are_none_are_an_error(successes, trials):
    with pytest.raises(errors.InvalidInputError, match="successes of"):
        wilson_interval(successes, trials)


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_a_confidence_is_a_share(confidence):
    with pytest.raises(errors.InvalidInputError, match="between 0 and 1"):
        wilson_interval(1, 2, confidence=confidence)


@patient
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50))
def test_the_mean_of_whole_numbers_is_exact(numbers):
    """So steps of all episodes, and of successes that are all of them, are rounded alike."""
    tally = SpreadTally()
    for number in numbers:
        tally.add(number)
    spread = tally.spread()
    assert spread.mean == sum(numbers) / len(numbers)
    if len(numbers) > 1:
        assert spread.std == pytest.approx(statistics.stdev(numbers), abs=1e-6)
