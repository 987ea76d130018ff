"""`relabel-clicks`: which clicks become episodes, and that a judge of rules can check them."""

import pytest
from made_episodes import CLICKED, SHOP, done, episode, finish, page, step, thought

from rows import each
from webtraj import Outcome, errors
from webtraj.environments import actions as a
from webtraj.judging.rules import RuleJudge
from webtraj.processing.base import Drop
from webtraj.processing.steps.clicks import RelabelClicks
from webtraj.processing.steps.judge import JudgeStep
from webtraj.testing.assertions import assert_valid_trajectory

TRIED = episode(
    step(
        a.Click("1"),
        {**CLICKED.observation, "info": {"success": False}},
        decision=thought("I want tea."),
    ),
    finish(reward=-1.0),
    outcome=Outcome.FAILURE,
    group_id="g1",
    metadata={"task": {"name": "shop/tea"}},
)


def test_click_becomes_an_episode_of_its_own():
    original, made = RelabelClicks()(TRIED).trajectories
    assert original is TRIED
    assert_valid_trajectory(made)
    assert (made.episode_id, made.info.task) == ("e1.click1", "hindsight/click")
    assert made.info.goal == 'Click on the link "Shop".'
    assert [one.observation["goal"] for one in made.steps] == [made.info.goal] * 2
    assert made.steps[0].observation["axtree"] == SHOP
    assert made.steps[1].action == a.Click("1")
    assert "info" not in made.steps[1].observation
    assert made.steps[1].decision is None
    assert (made.outcome, made.info.group_id) == (Outcome.UNKNOWN, "")
    assert [one.reward for one in made.steps] == [None, None]  # Nobody has judged it yet.
    assert made.info.metadata["relabelled"]["episode_id"] == "e1"
    assert RelabelClicks()(made) is made


async def test_its_own_rule_tells_a_right_click_from_a_wrong_one():
    _, made = RelabelClicks()(TRIED).trajectories
    judged = await JudgeStep(judge=RuleJudge())(made)
    assert judged.trajectories[0].outcome is Outcome.SUCCESS
    wrong = episode(
        step(a.Click("3"), page(**done("button", "Go"))),
        outcome=Outcome.UNKNOWN,
        task=made.info.task,
        metadata=made.info.metadata,
    )
    judged = await JudgeStep(judge=RuleJudge())(wrong)
    assert judged.trajectories[0].outcome is Outcome.FAILURE


TWICE = SHOP + '\n[9] link "Shop"'
ON_LINK = done("link", "Shop")

PASSED_OVER = {
    "not done": episode(step(a.Click("1"), page(**done("link", "Shop", error="covered")))),
    "two of that name": episode(step(a.Click("1"), page(**ON_LINK)), first=page(TWICE)),
    "not all of the page": episode(
        step(a.Click("1"), page(**ON_LINK)), first=page(SHOP + "\n... 12 more lines")
    ),
    "no name": episode(step(a.Click("1"), page(**done("link")))),
    "not on the page": episode(step(a.Click("1"), page(**done("link", "Elsewhere")))),
    "nothing known of it": episode(step(a.Click("1"), page())),
    "another button": episode(step(a.Click("1", button="right"), page(**ON_LINK))),
    "a key held": episode(step(a.Click("1", modifiers=("Shift",)), page(**ON_LINK))),
    "a double click": episode(step(a.Click("1", count=2), page(**ON_LINK))),
    "no click": episode(step(a.Hover("1"), page(**ON_LINK))),
    "braces": episode(
        step(a.Click("1"), page(**done("link", "{x}"))), first=page('[1] link "{x}"')
    ),
    "no page": episode(step(a.Click("1"), 7), first=7),
}


@each("case", PASSED_OVER)
def test_passed_over(case):
    assert RelabelClicks()(PASSED_OVER[case]) is PASSED_OVER[case]
    assert RelabelClicks(keep_original=False)(PASSED_OVER[case]) == Drop("no click to ask for")


HOME = page(**done("link", "Home"))
GO = page(**done("button", "Go"))


async def test_two_clicks_in_a_row_are_a_task_of_their_own_if_asked_for():
    home, go = step(a.Click("4"), HOME, decision=thought("Back.")), step(a.Click("3"), GO)
    trajectory = episode(CLICKED, home, go, outcome=Outcome.FAILURE)
    result = RelabelClicks(sequences=True, keep_original=False)(trajectory)
    assert result.changes == {"clicks": [1, 2, 3], "sequences": [[1, 2], [2, 3]]}
    made = result.trajectories[3]
    assert_valid_trajectory(made)
    assert (made.episode_id, made.info.task) == ("e1.clicks1", "hindsight/click-sequence")
    assert made.info.goal == 'Click on the link "Shop", then on the link "Home".'
    assert [one.action for one in made.steps] == [None, a.Click("1"), a.Click("4")]
    assert [one.observation["url"] for one in made.steps] == [
        "https://shop.test/", "https://shop.test/list", "https://shop.test/",
    ]  # fmt: skip
    assert all(one.decision is None and one.reward is None for one in made.steps)
    for one in result.trajectories:
        judged = await JudgeStep(judge=RuleJudge())(one)
        assert judged.trajectories[0].outcome is Outcome.SUCCESS
    swapped = episode(
        home, CLICKED, outcome=Outcome.UNKNOWN, task=made.info.task, metadata=made.info.metadata
    )
    judged = await JudgeStep(judge=RuleJudge())(swapped)
    assert judged.trajectories[0].outcome is Outcome.FAILURE


async def test_a_click_shows_how_to_find_an_element_of_its_kind_if_asked_for():
    nameless = '[1] checkbox\n[2] checkbox "B"\n[3] button "Go"'
    ticked = step(a.Click("1"), page(nameless, **done("checkbox")))
    (made,) = RelabelClicks(kinds=True, keep_original=False)(
        episode(ticked, first=page(nameless))
    ).trajectories
    assert_valid_trajectory(made)
    assert (made.episode_id, made.info.task) == ("e1.kind1", "hindsight/click-kind")
    assert made.info.goal == 'Click on a "checkbox".'
    judged = await JudgeStep(judge=RuleJudge())(made)
    assert judged.trajectories[0].outcome is Outcome.SUCCESS
    result = RelabelClicks(kinds=True, kind_wording="Some {role}", keep_original=False)(TRIED)
    assert result.changes == {"clicks": [1], "kinds": [1]}
    only = episode(ticked, first=page('[1] checkbox\n[2] checkbox "B"'))
    assert RelabelClicks(kinds=True)(only) is only, "any click would do"


def test_clicks_with_something_between_them_are_no_sequence():
    trajectory = episode(CLICKED, step(a.GoBack(), page()), step(a.Click("3"), GO))
    result = RelabelClicks(sequences=True)(trajectory)
    assert result.changes == {"clicks": [1, 3]}


@pytest.mark.browser
async def test_recorded_clicks_are_right_by_their_own_rules(recorded):
    made = []
    for trajectory in recorded:
        result = RelabelClicks(sequences=True, keep_original=False)(trajectory)
        made += [] if isinstance(result, Drop) else result.trajectories
    assert len(made) > 10
    assert any(one.num_steps == 2 for one in made)
    judge = JudgeStep(judge=RuleJudge())
    for one in made:
        assert_valid_trajectory(one)
        assert (await judge(one)).trajectories[0].outcome is Outcome.SUCCESS


@each(
    "options",
    [
        {"most": 0},
        {"wording": "Click"},
        {"keep_original": 1},
        {"sequences": 2},
        {"sequence_wording": "{role} {name} {name2}"},
    ],
)
def test_bad_options_are_named(options):
    with pytest.raises(errors.InvalidInputError, match=f"relabel-clicks: {next(iter(options))} is"):
        RelabelClicks(**options)
