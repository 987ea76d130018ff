"""`prune-loops`: which detours are cut, which are not, and what is left of them."""

import numpy as np
from made_episodes import LIST, SHOP, done, episode, finish, only, page, step

from rows import each
from webtraj.environments import actions as a
from webtraj.processing.base import Changed
from webtraj.processing.steps.prune import PruneLoops
from webtraj.testing.assertions import assert_valid_trajectory

AGAIN = SHOP.replace("[1]", "[11]").replace("[2]", "[12]").replace("[3]", "[13]")
LISTED = page(LIST, url="https://shop.test/list")
THERE = step(a.Click("1"), {**LISTED, **done("link", "Shop", ref="1")})
BACK = step(a.GoBack(), page(AGAIN))


def detour(*steps):
    return episode(*steps, step(a.Fill("12", "tea"), page(AGAIN)), finish())


def test_detour_of_looking_around_is_cut():
    trajectory = detour(THERE, BACK)
    result = PruneLoops()(trajectory)
    assert isinstance(result, Changed)
    assert result.changes == {"cut": [{"first": 1, "last": 2}]}
    made = only(result)
    assert_valid_trajectory(made)
    assert [s.action for s in made.steps] == [None, a.Fill("12", "tea"), a.Answer("done")]


def test_next_action_finds_its_ref_on_the_page_that_is_left():
    made = only(PruneLoops()(detour(THERE, BACK)))
    assert made.steps[0].first
    assert made.steps[0].observation["axtree"] == AGAIN
    assert made.steps[0].observation["goal"] == "Buy tea."


def test_what_came_of_the_step_before_stays_with_it():
    here = page(**done("button", "Search"))
    trajectory = episode(
        step(a.Click("3"), here),
        THERE,
        step(a.GoBack(), page(AGAIN, **done())),
        finish(),
        first=page(LIST, url="about:blank"),
    )
    made = only(PruneLoops()(trajectory))
    assert made.steps[1].action == a.Click("3")
    assert made.steps[1].observation["last_action"]["name"] == "Search"
    assert made.steps[1].observation["axtree"] == AGAIN


PHONE = '[4] link "Home"\n[5] paragraph "Our phone number is 555-0142."'


def asked(answer, *, goal="What is the phone number?", seen=PHONE):
    looked = step(a.Click("1"), page(seen, url="https://shop.test/list"))
    return episode(looked, BACK, step(a.Answer(answer), page(AGAIN)), goal=goal)


def test_a_detour_stays_if_its_words_are_said_later():
    for trajectory in (asked("It is 555-0142."), asked("yes", seen="")):
        assert PruneLoops()(trajectory) is trajectory
    typed = episode(
        step(a.Click("1"), page(PHONE, url="https://shop.test/list")),
        BACK,
        step(a.Fill("12", "0142"), page(AGAIN)),
        finish(),
    )
    assert PruneLoops()(typed) is typed
    for trajectory in (asked("Welcome"), asked("555-0142", goal="Answer with 555-0142.")):
        assert len(only(PruneLoops()(trajectory)).steps) == 2


CUT = {
    "history and addresses": [step(a.Goto("https://shop.test/list"), LISTED), BACK],
    "waiting": [step(a.Wait(), page())],
    "hovering and looking": [step(a.Hover("1"), page()), step(a.Screenshot(), page())],
    "actions as text": [step("goto('https://shop.test/list')", LISTED), step("go_back()", page())],
    "a link by its ref alone": [step(a.Click("1"), LISTED), BACK],
    "a reply that was no action": [step(a.InvalidAction("?", "", "empty"), page())],
    "there and back twice": [THERE, BACK, step(a.Click("11"), LISTED), BACK],
    "a longer way": [THERE, step(a.Goto("https://shop.test/x"), page("text", url="x")), BACK],
}

STAYS = {
    "typing": [step(a.Fill("2", "tea"), page("text", url="x")), BACK],
    "a button": [step(a.Click("3"), {**LISTED, **done("button", "Go")}), BACK],
    "a point of which nothing is known": [step(a.ClickAt(3, 3), LISTED), BACK],
    "a key": [step(a.PressKey("Enter"), LISTED), BACK],
    "a download on the way": [
        step(a.Click("1"), {**LISTED, "downloads": {"names": np.array(["a.pdf"])}}),
        BACK,
    ],
    "a dialog on the way": [
        step(a.Click("1"), {**LISTED, "dialogs": np.array(["confirm: sure?"])}),
        BACK,
    ],
    "a reward on the way": [step(a.Click("1"), LISTED, reward=0.1), BACK],
    "a discount on the way": [step(a.Click("1"), LISTED, discount=0.5), BACK],
    "a message on the way": [step(a.SendMessage("Hi"), LISTED), BACK],
    "another address": [THERE, step(a.GoBack(), page(url="https://shop.test/?q=1"))],
    "other values": [THERE, step(a.GoBack(), page(SHOP.replace('"Search"', '"Search" value="t"')))],
    "scrolling that nothing shows": [step(a.Scroll(0, 9), page())],
    "scrolled": [step(a.Scroll(0, 9), page(scroll={"x": 0.0, "y": 9.0}))],
    "another picture": [THERE, step(a.GoBack(), page(screenshot=b"\x89PNG other"))],
    "an action of another system": [step({"key": "back"}, LISTED), BACK],
}


@each("case", CUT)
def test_cut(case):
    result = PruneLoops()(detour(*CUT[case]))
    made = only(result)
    assert made.num_steps == 2
    assert result.changes == {"cut": [{"first": 1, "last": len(CUT[case])}]}
    assert PruneLoops()(made) is made


@each("case", STAYS)
def test_stays(case):
    first = page(scroll={"x": 0.0, "y": 0.0}) if case == "scrolled" else page()
    trajectory = episode(*STAYS[case], finish(page("text", url="z")), first=first)
    assert PruneLoops()(trajectory) is trajectory


def test_side_effects_are_cut_where_that_is_asked_for():
    trajectory = episode(*STAYS["typing"], finish(page("text", url="z")))
    assert only(PruneLoops(cut_side_effects=True)(trajectory)).num_steps == 1
    rewarded = episode(*STAYS["a reward on the way"], finish())
    assert PruneLoops(cut_side_effects=True)(rewarded) is rewarded


def test_last_step_is_never_part_of_a_detour():
    trajectory = episode(THERE, step(a.GoBack(), page()), truncated=True)
    assert PruneLoops()(trajectory) is trajectory


def test_decisions_stay_as_they_were_recorded():
    trajectory = detour(THERE, BACK)
    made = only(PruneLoops()(trajectory))
    assert made.steps[1].decision is trajectory.steps[3].decision
    assert (made.steps[1].start_time, made.end) == (trajectory.steps[3].start_time, trajectory.end)
