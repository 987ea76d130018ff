"""`relabel-forms`: which forms become episodes, by which steps, and that rules can check them."""

import dataclasses
import json

import pytest
from made_episodes import done, episode, finish, page, step, thought

from rows import each
from webtraj import Outcome, errors
from webtraj.environments import actions as a
from webtraj.judging.rules import RuleJudge, make_rules
from webtraj.processing.base import Drop
from webtraj.processing.steps.forms import RelabelForms
from webtraj.processing.steps.judge import JudgeStep
from webtraj.testing.assertions import assert_valid_trajectory


def form(*on, text="", chosen="One", radio="", role="checkbox", extra=""):
    """A form's axtree: boxes A, B, C, two radios, a field, a list and a button."""
    boxes = [f'[{n}] {role} "{name}"{" checked" * (name in on)}' for n, name in enumerate("ABC", 1)]
    radios = [
        f'[{n}] radio "{name}"{" checked" * (name == radio)}' for n, name in ((4, "X"), (5, "Y"))
    ]
    field = f'[6] textbox "Name"{f" value={json.dumps(text)}" * bool(text)}'
    choice = [
        f'[7] combobox "Size" value="{chosen}"',
        *(f'  [{n}] option "{name}"{" selected" * (name == chosen)}'
          for n, name in ((8, "One"), (9, "Two"))),
    ]  # fmt: skip
    return "\n".join(
        [*boxes, *radios, field, *choice, '[10] button "Send"', *filter(None, [extra])]
    )


def did(action, role, name, tree, **channels):
    return step(action, page(tree, **done(role, name), **channels))


def box(name, tree, role="checkbox"):
    return did(a.Click(str("ABC".index(name) + 1)), role, name, tree)


def radio(name, tree):
    return did(a.Click("4" if name == "X" else "5"), "radio", name, tree)


def fill(text, tree):
    return did(a.Fill("6", text), "textbox", "Name", tree)


def choose(name, tree):
    return did(a.SelectOption("7", (name,)), "combobox", "Size", tree)


def send(tree="text 'Sent'", **options):
    return step(a.Click("10"), page(tree, **done("button", "Send")), **options)


def filled(*steps, begun=None, **info):
    """An episode on the form, which the last step sends."""
    return episode(*steps, send(), first=page(form() if begun is None else begun), **info)


EVERYTHING = (
    'Select A, Y, enter "Ada" into the Name field, choose "Two" from the Size list and click Send.'
)
TOLD = {
    "one box": (filled(box("B", form("B"))), "Select B and click Send.", [1, 2]),
    "in the order of the page": (
        filled(box("C", form("C")), box("A", form("C", "A"))),
        "Select A, C and click Send.", [1, 2, 3],
    ),
    "what was undone at once is left out": (
        filled(box("A", form("A")), box("B", form("A", "B")), box("B", form("A"))),
        "Select A and click Send.", [1, 4],
    ),
    "what was undone and done again is done once": (
        filled(box("A", form("A")), box("A", form()), box("A", form("A"))),
        "Select A and click Send.", [1, 4],
    ),
    "another radio is chosen in the end": (
        filled(radio("X", form(radio="X")), radio("Y", form(radio="Y"))),
        "Select Y and click Send.", [2, 3],
    ),
    "what changed nothing is left out": (
        filled(
            step(a.Scroll(0, 10), page(form())), box("A", form("A")),
            step(a.Hover("2"), page(form("A"))),
        ),
        "Select A and click Send.", [2, 4],
    ),
    "text": (filled(fill("Ada", form(text="Ada"))),
             'Enter "Ada" into the Name field and click Send.', [1, 2]),
    "the last text counts": (
        filled(fill("Eve", form(text="Eve")), fill("Ada", form(text="Ada"))),
        'Enter "Ada" into the Name field and click Send.', [2, 3],
    ),
    "list": (filled(choose("Two", form(chosen="Two"))),
             'Choose "Two" from the Size list and click Send.', [1, 2]),
    "all of it": (
        filled(
            box("A", form("A")), fill("Ada", form("A", text="Ada")),
            choose("Two", form("A", text="Ada", chosen="Two")),
            radio("Y", form("A", text="Ada", chosen="Two", radio="Y")),
        ),
        EVERYTHING,
        [1, 2, 3, 4, 5],
    ),
    "what was there before is not asked for": (
        filled(box("A", form("B", "A", radio="X")), begun=form("B", radio="X")),
        "Select A and click Send.", [1, 2],
    ),
    "the form begins where its page does": (
        episode(
            step(a.Click("1"), page(form(), url="https://shop.test/form")),
            did(a.Click("1"), "checkbox", "A", form("A"), url="https://shop.test/form"),
            send(),
        ),
        "Select A and click Send.", [2, 3],
    ),
    "switches": (
        filled(box("A", form("A", role="switch"), "switch"), begun=form(role="switch")),
        "Select A and click Send.", [1, 2],
    ),
}  # fmt: skip


def dated(value="", month=""):
    """A form with a date, and its calendar if it is open at a month."""
    held = f' value="{value}"' if value else ""
    days = [f'[{day}] link "{day}"' for day in range(11, 14)]
    calendar = ['[4] generic "Prev"', f'[5] generic "{month}"', *days] if month else []
    lines = ['text "Date:"', f"[2] textbox readonly{held}", '[3] button "Send"', *calendar]
    return "\n".join(lines)


def opened(month, value=""):
    return did(a.Click("2"), "textbox", "", dated(value, month))


def turned(month, value=""):
    return did(a.Click("4"), "generic", "Prev", dated(value, month))


def day(ref, value):
    return did(a.Click(ref), "link", ref, dated(value))


def sent(*steps):
    last = step(a.Click("3"), page("text 'Sent'", **done("button", "Send")))
    return episode(*steps, last, first=page(dated()))


PICKED = {
    "a day": (
        sent(opened("May"), day("12", "05/12")),
        "Select 05/12 as the Date and click Send.", [1, 2, 3],
    ),
    "pages are turned": (
        sent(opened("May"), turned("April"), turned("March"), day("11", "03/11")),
        "Select 03/11 as the Date and click Send.", [1, 2, 3, 4, 5],
    ),
    "what was closed again is left out": (
        sent(opened("May"), did(a.Press("2", "Escape"), "textbox", "", dated()),
             opened("May"), day("12", "05/12")),
        "Select 05/12 as the Date and click Send.", [1, 4, 5],
    ),
    "the last day counts": (
        sent(opened("May"), day("12", "05/12"), opened("May", "05/12"), day("13", "05/13")),
        "Select 05/13 as the Date and click Send.", [3, 4, 5],
    ),
}  # fmt: skip


@each("case", PICKED)
async def test_a_field_that_a_click_filled_in_is_a_task_of_its_own(case):
    (made,) = RelabelForms(keep_original=False)(PICKED[case][0]).trajectories
    assert made.info.task == "hindsight/picked-form"
    assert (await RuleJudge().judge(made)).outcome is Outcome.SUCCESS


@each("case", [*TOLD, *PICKED])
async def test_form_becomes_an_episode(case):
    trajectory, goal, steps = (TOLD | PICKED)[case]
    result = RelabelForms(keep_original=False)(trajectory)
    (made,) = result.trajectories
    assert_valid_trajectory(made)
    assert (made.info.goal, result.changes) == (goal, {"forms": [steps]})
    assert [one.action for one in made.steps[1:]] == [trajectory.steps[n].action for n in steps]
    # Each action was taken on just the page that stands before it.
    for index, position in enumerate(steps):
        seen = made.steps[index].observation
        before = trajectory.steps[position - 1].observation
        assert (seen["axtree"], seen["url"]) == (before["axtree"], before["url"])
    judged = await JudgeStep(by=["environment", "rules"])(made)
    assert judged.trajectories[0].outcome is Outcome.SUCCESS


def test_new_episode_knows_nothing_of_the_old_task():
    info = {"info": {"success": False}}
    tried = filled(
        step(
            a.Click("1"), page(form("A"), **done("checkbox", "A"), **info), decision=thought("A?")
        ),
        outcome=Outcome.FAILURE,
        group_id="g1",
        metadata={"task": {"name": "shop/tea"}},
    )
    original, made = RelabelForms()(tried).trajectories
    assert original is tried
    assert (made.episode_id, made.info.task) == ("e1.form2", "hindsight/form")
    assert (made.outcome, made.info.group_id) == (Outcome.UNKNOWN, "")
    assert {one.observation["goal"] for one in made.steps} == {made.info.goal}
    for one in made.steps:
        assert (one.reward, one.decision, one.observation.get("info")) == (None, None, None)
    assert made.info.metadata["relabelled"]["goal"] == "Buy tea."
    assert RelabelForms()(made) is made


WRONG = {
    "a box too many": filled(box("A", form("A")), box("B", form("A", "B"))),
    "none": episode(send(), first=page(form())),
    "another button": episode(
        box("A", form("A")), step(a.Click("9"), page("", **done("button", "Stop"))),
        first=page(form()),
    ),
    "not sent": episode(
        box("A", form("A")), finish(page(form("A"), **done())), first=page(form())
    ),
    "unchecked again": filled(box("A", form("A")), box("A", form())),
}  # fmt: skip


@each("case", WRONG)
async def test_rule_tells_what_was_filled_in_otherwise(case):
    _, made = RelabelForms()(filled(box("A", form("A")))).trajectories
    task = {"task": made.info.task, "metadata": made.info.metadata, "goal": made.info.goal}
    wrong = WRONG[case]
    wrong = dataclasses.replace(wrong, info=dataclasses.replace(wrong.info, **task))
    wrong = dataclasses.replace(wrong, end=dataclasses.replace(wrong.end, outcome=Outcome.UNKNOWN))
    judged = await JudgeStep(judge=RuleJudge())(wrong)
    assert judged.trajectories[0].outcome is Outcome.FAILURE


A_BOX = box("A", form("A"))
TWO_SENDS = '[11] button "Send"'
PASSED_OVER = {
    "nothing was filled in": filled(),
    "nothing is filled in any more": filled(A_BOX, box("A", form())),
    "a box was unchecked": filled(box("B", form("A", "B")), box("A", form("B")), begun=form("A")),
    "a field was emptied": filled(fill("", form()), begun=form(text="Ada")),
    "not sent": episode(A_BOX, finish(), first=page(form())),
    "sent by another key": episode(
        A_BOX, step(a.Press("10", "Enter"), page("", **done("button", "Send"))), first=page(form())
    ),
    "the click was not done": episode(
        A_BOX, step(a.Click("10"), page(**done("button", "Send", error="covered"))),
        first=page(form()),
    ),
    "two buttons of one name": filled(
        box("A", form("A", extra=TWO_SENDS)), begun=form(extra=TWO_SENDS)
    ),
    "two boxes of one name": filled(
        did(a.Click("1"), "checkbox", "A", form("A", extra='[11] checkbox "A"')),
        begun=form(extra='[11] checkbox "A"'),
    ),
    "braces": filled(fill("{x}", form(text="{x}"))),
    "quotes": filled(fill('"', form(text='"'))),
    "hidden": filled(fill("abc", form(text="\u2022\u2022"))),
    "redacted": filled(fill("<secret:name>", form(text="<secret:name>"))),
    "done by no action of the agent's": filled(step(a.Wait(1), page(form("A")))),
    "a page that was cut short": filled(
        box("A", form("A", extra="... 3 more lines")), begun=form(extra="... 3 more lines")
    ),
    "no page": episode(step(a.Click("1"), 7), first=7),
}  # fmt: skip


@each("case", PASSED_OVER)
def test_forms_that_are_passed_over(case):
    assert RelabelForms()(PASSED_OVER[case]) is PASSED_OVER[case]
    assert RelabelForms(keep_original=False)(PASSED_OVER[case]) == Drop("no form to ask for")


def test_fields_without_names_are_told_if_there_is_one_of_a_kind():
    tree = '[6] textbox{}\n[7] combobox value="{}"\n[10] button "Send"'
    steps = (
        did(a.Fill("6", "Ada"), "textbox", "", tree.format(' value="Ada"', "One")),
        did(a.SelectOption("7", ("Two",)), "combobox", "", tree.format(' value="Ada"', "Two")),
    )
    _, made = RelabelForms()(filled(*steps, begun=tree.format("", "One"))).trajectories
    goal = 'Enter "Ada" into the text field, choose "Two" from the list and click Send.'
    assert made.info.goal == goal
    second = "\n[8] textbox"
    twice = filled(
        did(a.Fill("6", "Ada"), "textbox", "", tree.format(' value="Ada"', "One") + second),
        begun=tree.format("", "One") + second,
    )
    assert RelabelForms()(twice) is twice


def test_every_form_of_an_episode_and_no_more_than_asked_for():
    again = step(a.GoBack(), page(form()))
    trajectory = episode(
        A_BOX, send(), again, box("B", form("B")), send(), again, A_BOX, send(), first=page(form())
    )
    result = RelabelForms(most=2, keep_original=False)(trajectory)
    assert result.changes == {"forms": [[1, 2], [4, 5]]}
    assert [one.episode_id for one in result.trajectories] == ["e1.form2", "e1.form5"]


def test_click_that_left_the_form_as_it_was_sent_nothing():
    stays = episode(
        A_BOX, send(form("A")), box("B", form("A", "B")), send(form("A", "B")), first=page(form())
    )
    result = RelabelForms(keep_original=False)(stays)
    assert result.changes == {"forms": [[1, 3, 4]]}  # The last ended the episode.


def test_of_several_wordings_each_episode_has_one():
    enter = ('enter "{value}" into the {name} field', 'type "{value}" as {name}')
    goals = {}
    for number in range(12):
        trajectory = filled(fill("Ada", form(text="Ada")), episode_id=f"e{number}")
        _, made = RelabelForms(enter=enter)(trajectory).trajectories
        _, again = RelabelForms(enter=list(enter))(trajectory).trajectories
        assert made == again
        goals[made.info.goal] = made
    first, second = 'Enter "Ada" into the Name field', 'Type "Ada" as Name'
    assert set(goals) == {f"{first} and click Send.", f"{second} and click Send."}


@each(
    "options",
    [
        {"enter": ()}, {"enter": ['"{value}" as {name}', "{value}"]},
        {"most": 0}, {"keep_original": 1}, {"wording": "{what}"}, {"select": ""},
        {"enter": "{value}"}, {"choose": 3},
    ],
)  # fmt: skip
def test_bad_options_of_forms_are_named(options):
    with pytest.raises(errors.InvalidInputError, match=f"relabel-forms: {next(iter(options))} is"):
        RelabelForms(**options)


WORDS = {  # What MiniWoB++ itself asks of who plays these pages, nearly.
    "miniwob/click-checkboxes": "Select {} and click Submit.",
    "miniwob/click-option": "Select {} and click Submit.",
    "miniwob/enter-text": 'Enter "{}" into the text field and click Submit.',
}


@pytest.mark.slow
@pytest.mark.browser
async def test_what_an_oracle_did_is_told_in_the_words_that_it_was_asked_in(recorded):
    told = {}
    for trajectory in recorded:
        if trajectory.info.policy != "oracle" or trajectory.info.task not in WORDS:
            continue
        (made,) = RelabelForms(keep_original=False)(trajectory).trajectories
        assert_valid_trajectory(made)
        judged = await JudgeStep(judge=RuleJudge())(made)
        assert judged.trajectories[0].outcome is Outcome.SUCCESS
        told[trajectory.info.task] = (trajectory.info.goal, made.info.goal)
    asked, made = told["miniwob/enter-text"]
    assert made == asked.replace("press Submit", "click Submit")
    asked, made = (_chosen(goal) for goal in told["miniwob/click-checkboxes"])
    assert made == asked


def _chosen(goal):
    """The boxes that a goal of click-checkboxes names, in whatever order."""
    return set(goal.removeprefix("Select ").removesuffix(" and click Submit.").split(", "))


async def test_forms_rule_is_one_that_rules_files_may_hold():
    _, made = RelabelForms()(filled(A_BOX)).trajectories
    (rule,) = make_rules([made.info.metadata["task"]["metadata"]["rule"]])
    assert rule.success.kind == "all_of"
