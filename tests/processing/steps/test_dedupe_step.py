"""`dedupe`: what is alike, and who stays."""

import itertools
import json

import numpy as np
import pytest
from made_episodes import LIST, SHOP, done, episode, finish, page, step

from rows import each
from webtraj import Outcome, errors
from webtraj.environments import actions as a
from webtraj.processing.base import OrderedStep
from webtraj.processing.steps.clean import Dedupe


def typed(*texts, ref="2", tree=SHOP, episode_id="e", outcome=Outcome.SUCCESS, reward=0.0, **info):
    """Types some texts, one after the other."""
    steps = [step(a.Fill(ref, text), page(tree, **done("textbox", "Search"))) for text in texts]
    return episode(
        *steps,
        finish(reward=reward),
        first=page(tree),
        episode_id=episode_id,
        outcome=outcome,
        **info,
    )


def admitted(dedupe, *trajectories):
    """Whether each is let in, with signatures as they come back from a file."""
    signatures = [json.loads(json.dumps(dedupe.signature(one))) for one in trajectories]
    return [dedupe.admit(signature) is None for signature in signatures]


LONG = [f"word {number}" for number in range(40)]


def test_first_of_the_same_stays():
    assert isinstance(Dedupe(), OrderedStep)
    one, two = typed("tea", episode_id="one"), typed("tea", episode_id="two")
    dedupe = Dedupe()
    assert admitted(dedupe, one) == [True]
    dropped = dedupe.admit(dedupe.signature(two))
    assert (dropped.reason, dropped.detail) == ("the same as another", "like one, 1.00")


DIFFERENT = {
    "text": typed("coffee"),
    "order": typed("tea", "tea"),
    "task": typed("tea", task="shop/coffee"),
    "goal": typed("tea", goal="Buy coffee."),
    "outcome": typed("tea", outcome=Outcome.FAILURE),
    "page": typed("tea", tree=LIST),
}


@each("case", DIFFERENT)
def test_different_ones_stay(case):
    assert admitted(Dedupe(threshold=1), typed("tea"), DIFFERENT[case]) == [True, True]
    assert admitted(Dedupe(), typed("tea"), DIFFERENT[case]) == [True, True]


def test_refs_white_space_in_goals_and_times_make_no_difference():
    anew = typed("tea", ref="12", tree=SHOP.replace("[", "[1"), goal=" Buy  tea. ")
    assert admitted(Dedupe(), typed("tea"), anew) == [True, False]


def test_pages_can_be_left_aside():
    assert admitted(Dedupe(same_pages=False), typed("tea"), DIFFERENT["page"]) == [True, False]


def test_nearly_the_same_goes_from_the_threshold_on():
    near = typed(*LONG[:-1], "another")
    assert admitted(Dedupe(threshold=0.8), typed(*LONG), near) == [True, False]
    assert admitted(Dedupe(threshold=1), typed(*LONG), near) == [True, True]
    far = typed(*LONG[:10], *(f"else {number}" for number in range(30)))
    assert admitted(Dedupe(threshold=0.8), typed(*LONG), far) == [True, True]


def test_estimate_is_near_the_truth():
    def pairs(texts):
        marks = ["first", *texts, "end"]
        return set(itertools.pairwise(marks))

    dedupe = Dedupe()
    for shared in (5, 15, 25, 35):
        other = [*LONG[:shared], *(f"else {number}" for number in range(40 - shared))]
        truth = len(pairs(LONG) & pairs(other)) / len(pairs(LONG) | pairs(other))
        one, two = (dedupe.signature(typed(*texts))["minhash"] for texts in (LONG, other))
        assert np.mean(np.array(one) == np.array(two)) == pytest.approx(truth, abs=0.2)


def test_better_one_stays_too_where_that_is_asked_for():
    tries = [typed("tea", reward=reward) for reward in (0.5, 0.4, 0.9, 0.9, 0.6)]
    assert admitted(Dedupe(), *tries) == [True, False, False, False, False]
    best = Dedupe(prefer_reward=True)
    assert admitted(best, *tries) == [True, False, True, False, False]


def test_reward_that_is_no_number_can_be_written():
    for reward in (float("nan"), float("inf"), float("-inf")):
        signature = Dedupe().signature(typed("tea", reward=reward))
        assert json.loads(json.dumps(signature, allow_nan=False)) == signature


def test_observations_of_any_kind_are_compared():
    numbers = [episode(step(1, 5), step(0, last), first=3) for last in (7, 7, 8)]
    assert admitted(Dedupe(), *numbers) == [True, False, True]
    arrays = [episode(step(1, np.full(3, n)), first=np.zeros(3)) for n in (1, 1, 2)]
    assert admitted(Dedupe(), *arrays) == [True, False, True]


@pytest.mark.parametrize(
    "options", [{"threshold": 0.3}, {"threshold": "1"}, {"same_pages": 1}], ids=str
)
def test_bad_options_are_named(options):
    with pytest.raises(errors.InvalidInputError, match=f"dedupe: {next(iter(options))} is"):
        Dedupe(**options)
