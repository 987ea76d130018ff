"""Intervals and pass@k, against what they are defined as."""

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_episodes import patient

from rows import each
from webtraj import errors
from webtraj.metrics.rates import pass_at_k, wilson_interval


@each("attempts", range(1, 9))
def test_pass_at_k_is_the_share_of_all_draws_that_have_a_success(attempts):
    for successes in range(attempts + 1):
        made = [True] * successes + [False] * (attempts - successes)
        for k in range(1, attempts + 1):
            draws = list(itertools.combinations(made, k))
            expected = sum(map(any, draws)) / len(draws)
            assert pass_at_k(attempts, successes, k) == pytest.approx(expected, abs=1e-15)


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
def test_pass_at_k_of_what_cannot_be_is_an_error(attempts, successes, k):
    with pytest.raises(errors.InvalidInputError, match=f"pass@{k} of {successes} successes in"):
        pass_at_k(attempts, successes, k)


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
