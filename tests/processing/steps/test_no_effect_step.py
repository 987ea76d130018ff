"""`drop-no-effect`: what goes, what stays, and that rewards and refs stay right."""

import numpy as np
import pytest
from made_episodes import LIST, SHOP, done, episode, finish, only, page, step

from rows import each
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.processing.base import Changed
from webtraj.processing.steps.prune import DropNoEffect
from webtraj.testing.assertions import assert_valid_trajectory

BLUE, RED = b"\x89PNG blue", b"\x89PNG red"
FOCUSED = SHOP.replace('"Go"', '"Go" focused')
INVALID = a.InvalidAction("No action.", "Hm.", "no_action")
TEXT_ONLY = {"goal": "g", "changes": np.array([], dtype=np.str_)}

GOES = {
    "waiting": step(a.Wait(), page()),
    "looking": step(a.Screenshot(), page()),
    "a click on plain text": step(a.Click("9"), page(**done("generic", "Hi"))),
    "a click at a plain point": step(a.ClickAt(5, 5), page(**done("generic"))),
    "a click that took the focus away": step(a.Click("9"), page(FOCUSED, **done("paragraph"))),
    "a click that was not done": step(a.Click("3"), page(**done("button", error="covered"))),
    "a reply that was no action": step(INVALID, page()),
    "going back nowhere": step(a.GoBack(), page()),
    "scrolling at the end": step(a.Scroll(0, 9), page(scroll={"x": 0.0, "y": 0.0})),
    "a key that nobody hears": step(a.PressKey("F8"), page()),
    "an action as text": step("noop()", page()),
    "an action of another system": step({"key": "wait"}, page()),
}

STAYS = {
    "a key that moved the focus": step(a.PressKey("Tab"), page(FOCUSED)),
    "a click that put the focus into a field": step(
        a.ClickAt(5, 5), page(SHOP.replace('"Search"', '"Search" focused'), **done("generic"))
    ),
    "the page changed": step(a.Wait(), page(LIST)),
    "another address": step(a.Wait(), page(url="https://shop.test/#2")),
    "a button without visible effect": step(a.Click("3"), page(**done("button", "Go"))),
    "a button by its ref alone": step(a.Click("3"), page()),
    "a button as text": step("click('3')", page()),
    "a point on a button": step(a.ClickAt(5, 5), page(**done("button", "Go"))),
    "a reward": step(a.Wait(), page(), reward=0.5),
    "a reward that is no number": step(a.Wait(), page(), reward=float("nan")),
    "a discount": step(a.Wait(), page(), discount=0.9),
    "a dialog": step(a.Wait(), page(dialogs=np.array(["alert: hi"]))),
    "a request that was blocked": step(a.Wait(), page(blocked=np.array(["x: no"]))),
    "an error in the console": step(a.Wait(), page(console=np.array(["boom"]))),
    "a download": step(a.Wait(), page(downloads={"names": np.array(["a.pdf"])})),
    "a message to the user": step(a.SendMessage("Which tea?"), page()),
    "scrolling that nothing shows": step(a.Scroll(0, 9), page()),
    "hovering that nothing shows": step(a.Hover("9"), page()),
    "nothing to tell it by": step(a.Wait(), {"goal": "Buy tea."}),
    "no mapping": step(a.Wait(), 7),
}


def played(record, first=None):
    return episode(record, finish(record.observation), first=first)


@each("case", GOES)
def test_step_without_effect_goes(case):
    first = page(scroll={"x": 0.0, "y": 0.0}) if "scrolling" in case else None
    trajectory = played(GOES[case], first)
    result = DropNoEffect()(trajectory)
    assert isinstance(result, Changed)
    assert result.changes["dropped"] == [1]
    made = only(result)
    assert_valid_trajectory(made)
    assert [s.action for s in made.steps] == [None, a.Answer("done")]
    assert DropNoEffect()(made) is made


@each("case", STAYS)
def test_step_that_may_have_an_effect_stays(case):
    trajectory = played(STAYS[case], 7 if case == "no mapping" else None)
    assert DropNoEffect()(trajectory) is trajectory


def test_an_element_that_moved_is_a_change():
    def placed(x):
        return page(boxes={"refs": np.array(["9"]), "boxes": np.array([[x, 0.0, 9.0, 9.0]])})

    drag = a.DragAt(((5, 5), (50, 5)))
    dragged, missed = step(drag, placed(45.0)), step(drag, placed(0.0))
    trajectory = played(dragged, placed(0.0))
    assert DropNoEffect()(trajectory) is trajectory
    assert isinstance(DropNoEffect()(played(missed, placed(0.0))), Changed)


def test_keys_go_to_what_has_the_focus():
    first = page(FOCUSED, focused="3")
    pressed = episode(step(a.PressKey("Enter"), first), finish(first), first=first)
    assert DropNoEffect()(pressed) is pressed


def test_pictures_alone_tell():
    def shown(*pictures):
        first, *rest = ({"screenshot": picture} for picture in pictures)
        return episode(*(step(a.ClickAt(1, 1), seen) for seen in rest), first=first)

    assert only(DropNoEffect()(shown(BLUE, BLUE, RED, RED, BLUE))).num_steps == 2
    untaken = shown(BLUE, b"", BLUE)
    assert DropNoEffect()(untaken) is untaken


def test_lines_that_changed_tell_without_the_page_itself():
    lines = np.array(['- [3] button "Go"', '+ [3] button "Go" focused'])
    new = {"goal": "g", "changes": np.array(["+ text 'Sold'"])}
    trajectory = episode(
        step(a.Wait(), TEXT_ONLY),
        step(a.Wait(), {"goal": "g", "changes": lines}),
        step(a.Wait(), new),
        finish(TEXT_ONLY),
        first=TEXT_ONLY,
    )
    assert DropNoEffect()(trajectory).changes == {"dropped": [1, 2], "actions": {"wait": 2}}


def test_only_pictures_count_where_only_they_are_compared():
    first, second = page(screenshot=BLUE), page(LIST, screenshot=BLUE, **done("generic"))
    trajectory = episode(step(a.Click("9"), second), finish(second), first=first)
    assert DropNoEffect()(trajectory) is trajectory
    assert only(DropNoEffect(channels="screenshot")(trajectory)).num_steps == 1
    control = episode(step(a.Click("3"), first), finish(first), first=first)
    assert DropNoEffect(channels=("screenshot",))(control) is control
    harsh = DropNoEffect(channels=("screenshot",), keep_interactive=False)
    assert only(harsh(control)).num_steps == 1


def test_mistakes_stay_where_they_are_asked_for():
    for case in ("a click that was not done", "a reply that was no action"):
        trajectory = played(GOES[case])
        assert DropNoEffect(keep_errors=True)(trajectory) is trajectory


def test_numbers_rewards_and_the_last_step_are_right_afterwards():
    trajectory = episode(
        step(a.Wait(), page()),
        step(a.Click("1"), page(LIST), reward=0.25),
        step(a.Wait(), page(LIST)),
        step(a.Wait(), page(LIST), reward=0.5),
        step(a.Wait(), page(LIST)),
        step(a.Wait(), page(LIST), reward=1.0),
    )
    result = DropNoEffect()(trajectory)
    made = only(result)
    assert result.changes == {"dropped": [1, 3, 5], "actions": {"wait": 3}}
    assert [s.index for s in made.steps] == [0, 1, 2, 3]
    assert made.total_reward == trajectory.total_reward == 1.75
    assert made.steps[-1].last
    assert_valid_trajectory(made)


def test_last_step_of_an_episode_cut_by_its_run_loop_stays():
    cut = played(GOES["waiting"])
    steps = cut.steps[:2]
    trajectory = type(cut)(cut.info, steps, cut.end)
    assert DropNoEffect()(trajectory) is trajectory


@pytest.mark.parametrize(
    "options", [{"except_tasks": "shop/*"}, {"except_environments": ["Web*", "Fix*"]}], ids=str
)
def test_tasks_and_environments_can_be_left_alone(options):
    trajectory = episode(*map(GOES.get, ["waiting"]), finish(), environment="FixtureSite")
    assert DropNoEffect(**options)(trajectory) is trajectory
    assert DropNoEffect()(trajectory) is not trajectory


@each(
    "options",
    [{"channels": "pixels"}, {"channels": ()}, {"channels": 3}, {"keep_errors": "yes"}],
)
def test_bad_options_are_named(options):
    with pytest.raises(errors.InvalidInputError, match=f"drop-no-effect: {next(iter(options))} is"):
        DropNoEffect(**options)
