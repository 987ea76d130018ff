"""Intervals for differences: as published, and as they must be."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj.metrics.comparison import Pairs
from webtraj.metrics.rates import difference_interval, mcnemar_p, paired_difference_interval

# Newcombe 1998, Statistics in Medicine 17:873-890, Table II, method 10.
PUBLISHED = [
    ((56, 70), (48, 80), (0.0524, 0.3339)),
    ((9, 10), (3, 10), (0.1705, 0.8090)),
    ((6, 7), (2, 7), (0.0582, 0.8062)),
    ((5, 56), (0, 29), (-0.0381, 0.1926)),
    ((0, 10), (0, 20), (-0.1611, 0.2775)),
    ((0, 10), (0, 10), (-0.2775, 0.2775)),
    ((10, 10), (0, 20), (0.6791, 1.0)),
    ((10, 10), (0, 10), (0.6075, 1.0)),
]


@each(("second", "first", "ends"), PUBLISHED)
def test_interval_is_the_published_one(second, first, ends):
    assert difference_interval(first, second) == pytest.approx(ends, abs=6e-5)


counts = st.integers(1, 60).flatmap(
    lambda trials: st.tuples(st.integers(0, trials), st.just(trials))
)
four = st.tuples(*[st.integers(0, 30)] * 4).filter(any)


@given(counts, counts)
def test_interval_holds_the_difference_and_turns_round_with_it(first, second):
    low, high = difference_interval(first, second)
    difference = second[0] / second[1] - first[0] / first[1]
    assert -1 <= low <= difference + 1e-12
    assert difference - 1e-12 <= high <= 1
    turned = difference_interval(second, first)
    assert (-turned[1], -turned[0]) == pytest.approx((low, high))


@given(four)
def test_paired_interval_holds_the_difference_and_turns_round_with_it(cells):
    both, first_only, second_only, neither = cells
    low, high = paired_difference_interval(*cells)
    difference = (second_only - first_only) / sum(cells)
    assert -1 <= low <= difference + 1e-12
    assert difference - 1e-12 <= high <= 1
    turned = paired_difference_interval(both, second_only, first_only, neither)
    assert (-turned[1], -turned[0]) == pytest.approx((low, high))


@given(st.integers(1, 30), st.integers(0, 10), st.integers(0, 10), st.integers(1, 30))
def test_pairs_that_go_together_say_more_than_as_many_that_do_not(both, first, second, neither):
    pairs = both + first + second + neither
    low, high = paired_difference_interval(both, first, second, neither)
    apart = difference_interval((both + first, pairs), (both + second, pairs))
    if both * neither >= first * second:
        assert high - low <= apart[1] - apart[0] + 1e-12


@pytest.mark.parametrize(("before", "after"), [(0.5, 0.5), (0.1, 0.6), (0.9, 0.95)])
def test_interval_covers_the_truth_about_as_often_as_it_says(before, after):
    trials, covered = 20, 0.0
    for one, other in itertools.product(range(trials + 1), repeat=2):
        low, high = difference_interval((one, trials), (other, trials))
        if low <= after - before <= high:
            covered += _chance(one, trials, before) * _chance(other, trials, after)
    assert 0.93 < covered < 0.99


@pytest.mark.parametrize(
    ("first_only", "second_only", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (2, 10, 0.03857421875)]
)
def test_mcnemar_is_the_binomial_test_of_the_pairs_that_differ(first_only, second_only, p):
    assert mcnemar_p(first_only, second_only) == pytest.approx(p)
    assert mcnemar_p(second_only, first_only) == pytest.approx(p)


def test_equal_agents_rarely_differ_clearly():
    pairs = 12
    for both, discordant in ((0.25, 0.25), (0.1, 0.4), (0.6, 0.1)):
        alarms = 0.0
        for one, first, second in itertools.product(range(pairs + 1), repeat=3):
            neither = pairs - one - first - second
            if neither < 0:
                continue
            found = Pairs(
                both=one, first_only=first, second_only=second, neither=neither, gained={}, lost={}
            )
            if found.is_clear:
                ways = math.factorial(pairs) // math.prod(
                    map(math.factorial, (one, first, second, neither))
                )
                rest = 1 - both - 2 * discordant
                alarms += ways * both**one * discordant ** (first + second) * rest**neither
        assert 0 < alarms < 0.05


def _chance(successes, trials, share):
    return math.comb(trials, successes) * share**successes * (1 - share) ** (trials - successes)
