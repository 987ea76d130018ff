"""`relabel-forms` where fields have no names, or show bullets: as a person would put it."""

import dataclasses
import json

import pytest
from made_episodes import done, episode, page, step

from rows import each
from two_cores.decisions import PointingRenderer
from webtraj import Outcome, open_dataset
from webtraj.agents.oracle import OracleAgent
from webtraj.environments import actions as a
from webtraj.judging.rules import RuleJudge
from webtraj.processing.steps.forms import RelabelForms
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.assertions import assert_valid_trajectory

GOAL = 'Enter "anna" into the Username field, enter "Xy1" into the Password field and click Login.'


def form(user="", password=0, before=("Username", "Password")):
    """Two fields with texts before them, of which the second shows bullets."""
    held = [f" value={json.dumps(text)}" if text else "" for text in (user, "\u2022" * password)]
    return (
        f'[1] generic "{before[0]}"\n[2] textbox{held[0]}\n'
        f'[3] generic "{before[1]}"\n[4] textbox{held[1]}\n[5] button "Login"'
    )


def did(action, tree, **options):
    return step(action, page(tree, **done("textbox", "", ref=action.ref, **options)))


def user(text, tree):
    return did(a.Fill("2", text), tree)


def password(text, tree, **options):
    return did(a.Fill("4", text), tree, **options)


def sent(*steps, begun=None):
    login = step(a.Click("5"), page("text 'Hi'", **done("button", "Login", ref="5")))
    return episode(*steps, login, first=page(begun or form()))


BOTH = (user("anna", form("anna")), password("Xy1", form("anna", 3)))
TOLD = {
    "both": (sent(*BOTH), GOAL, [1, 2, 3]),
    "the other way round": (
        sent(password("Xy1", form("", 3)), user("anna", form("anna", 3))), GOAL, [1, 2, 3],
    ),
    "the last password": (
        sent(
            password("abc", form("", 3)), user("anna", form("anna", 3)),
            password("Xy1", form("anna", 3)),
        ),
        GOAL, [2, 3, 4],
    ),
    "one alone": (
        sent(password("Xy1", form("", 3))), 'Enter "Xy1" into the Password field and click Login.',
        [1, 2],
    ),
    "Enter in between": (
        sent(*BOTH, did(a.Press("4", "Enter"), form("anna", 3))), GOAL, [1, 2, 4],
    ),
    "the same in both": (
        sent(user("Xy1", form("Xy1")), password("Xy1", form("Xy1", 3))),
        'Enter "Xy1" into the Username field, enter "Xy1" into the Password field and click Login.',
        [1, 2, 3],
    ),
    "a text before one of them": (
        sent(
            user("anna", form("anna", before=("Username:", "Why do we ask? Read on."))),
            begun=form(before=("Username:", "Why do we ask? Read on.")),
        ),
        'Enter "anna" into the Username field and click Login.', [1, 2],
    ),
}  # fmt: skip
PASSED_OVER = {
    "texts that do not tell them": sent(
        user("anna", form("anna", before=("Name", "Name"))), begun=form(before=("Name", "Name"))
    ),
    "no texts": sent(user("anna", form("anna", before=("", ""))), begun=form(before=("", ""))),
    "a password that was redacted": sent(password("<secret:password>", form("", 17))),
    "a password that nobody typed": sent(
        user("anna", form("anna", 3)), step(a.Click("2"), page(form("anna", 3)))
    ),
    "a password of another length": sent(password("abcd", form("", 3))),
    "a password that was not typed": sent(password("abc", form("", 3), error="covered")),
    "a password that a key changed": sent(*BOTH, did(a.Press("4", "x"), form("anna", 3))),
}


@each("case", TOLD)
async def test_field_is_called_by_the_text_before_it(case):
    trajectory, goal, steps = TOLD[case]
    result = RelabelForms(keep_original=False)(trajectory)
    (made,) = result.trajectories
    assert_valid_trajectory(made)
    assert (made.info.goal, result.changes) == (goal, {"forms": [steps]})
    typed = "" if goal.count('"') == 2 else "-2"
    assert made.info.task == f"hindsight/typed-form{typed}"
    assert (await RuleJudge().judge(made)).outcome is Outcome.SUCCESS


@each("case", PASSED_OVER)
def test_what_cannot_be_told_is_passed_over(case):
    assert RelabelForms()(PASSED_OVER[case]) is PASSED_OVER[case]


OTHERWISE = {
    "another password": (sent(BOTH[0], password("abc", form("anna", 3))), Outcome.FAILURE),
    "a longer one": (sent(BOTH[0], password("Xy12", form("anna", 4))), Outcome.FAILURE),
    "no password": (sent(BOTH[0]), Outcome.FAILURE),
    "typed once more": (sent(*BOTH, password("abc", form("anna", 3))), Outcome.FAILURE),
    "the fields mixed up": (
        sent(user("Xy1", form("Xy1")), password("anna", form("Xy1", 4))), Outcome.FAILURE,
    ),
    "not sent": (episode(*BOTH, first=page(form())), Outcome.FAILURE),
    "a password that nobody typed": (sent(user("anna", form("anna", 3))), Outcome.JUDGE_ERROR),
}  # fmt: skip


@each("case", OTHERWISE)
async def test_rule_looks_at_what_was_typed(case):
    _, made = RelabelForms()(sent(*BOTH)).trajectories
    trajectory, outcome = OTHERWISE[case]
    task = {"task": made.info.task, "metadata": made.info.metadata, "goal": made.info.goal}
    played = dataclasses.replace(trajectory, info=dataclasses.replace(trajectory.info, **task))
    assert (await RuleJudge().judge(played)).outcome is outcome


def test_page_that_was_opened_anew_holds_no_password_any_more():
    again = form().replace("[", "[1")
    reloaded = sent(
        password("Xy1", form("", 3)),
        step(a.Reload(), page(again, **done())),
        did(a.Fill("14", "abc"), form("", 3).replace("[", "[1")),
    )
    # The button's ref is of no account here: what it is called is on record.
    _, made = RelabelForms()(reloaded).trajectories
    assert made.info.goal == 'Enter "abc" into the Password field and click Login.'


@pytest.mark.slow
@pytest.mark.browser
async def test_log_in_of_miniwob_becomes_what_was_asked_for(tmp_path):
    observe = {"observe": ("goal", "url", "axtree", "focused", "last_action")}
    tasks = ["miniwob/login-user", "miniwob/enter-password"]
    await collect(
        RunSpec(preset=tasks, episodes=2, out=tmp_path / "raw", environment_options=observe),
        agent=OracleAgent(),
    )
    for trajectory in open_dataset(tmp_path / "raw"):
        (made,) = RelabelForms(keep_original=False)(trajectory).trajectories
        assert (await RuleJudge().judge(made)).outcome is Outcome.SUCCESS
        asked = trajectory.info.goal.split('"')[1::2]
        told = made.info.goal.split('"')[1::2]
        assert told == (asked if len(asked) == 2 else asked * 2)
        # A pointing agent can say all of it, and is told what it has typed where no page shows it.
        rendered = PointingRenderer().render(made)
        assert len(rendered) == made.num_steps
        last = rendered[made.num_steps].messages[0].parts[0].text
        assert f"Password typed {told[1]}" in last.replace("Verify password", "Password")
        assert "has \u2022" in last
