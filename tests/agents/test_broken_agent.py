"""The broken agent repeats a recorded success with one fault, and says that it is done."""

import pytest

from rows import each
from webtraj import EndReason, Outcome, errors
from webtraj.agents.broken import BrokenAgent
from webtraj.agents.catalog import make_agent
from webtraj.environments import actions as a
from webtraj.trajectory import EpisodeEnd, EpisodeInfo, EpisodeTrajectory, StepRecord, StepType

PAGE = '[1] searchbox "Search"\n[2] textbox "Name"\n[3] combobox "Kind"\n[4] button "Save"'
DONE = a.Answer("Room 41")
DEEDS = (a.Fill("1", "room"), a.Fill("2", "Emma"), a.SelectOption("3", ("big",)), a.Click("4"))


class Site:
    def __init__(self, task):
        self._task = task

    def describe_episode(self):
        return {"task": self._task, "seed": 1}


def recorded(*actions, task="add", url="http://shop.test/", outcome=Outcome.SUCCESS):
    seen = {"axtree": PAGE, "url": url}
    rest = [StepRecord(at, StepType.MID, seen, action) for at, action in enumerate(actions, 1)]
    steps = (StepRecord(0, StepType.FIRST, seen), *rest)
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(EpisodeInfo(task=task, seed=1), steps, end)


async def played(fault, *trajectories, task="add", page=PAGE):
    """Return the agent's actions up to its answer."""
    actor = BrokenAgent.of(trajectories, fault).begin_episode(Site(task))
    found = []
    while not found or not isinstance(found[-1], a.Answer | a.ReportInfeasible):
        found.append((await actor.act({"axtree": page})).action)
    return found


OTHER = recorded(a.Click("4"), a.Answer("x"), task="other")


@each(("fault", "actions", "expected"), [
        ("answer-only", (*DEEDS, DONE), [DONE]),
        ("stops-early", (*DEEDS, a.Wait(1), DONE), [*DEEDS[:3], DONE]),
        ("stops-early", (DONE,), [DONE]),
        ("wrong-value", (*DEEDS, DONE), [DEEDS[0], a.Fill("2", "Emm"), *DEEDS[2:], DONE]),
        # A search is no value; then the answer is what can be mistyped.
        ("wrong-value", (DEEDS[0], DONE), [DEEDS[0], a.Answer("Room 42")]),
        ("wrong-value", (a.ReportInfeasible("No."),), [a.Answer("done")]),
        ("side-effect", (*DEEDS, DONE),
            [*DEEDS, a.Goto("http://shop.test/"), a.Click("4"), DONE]),
    ])  # fmt: skip
async def test_a_fault_changes_one_thing(fault, actions, expected):
    assert await played(fault, recorded(*actions), OTHER) == expected


async def test_a_side_effect_is_the_deed_of_another_task_on_the_same_site():
    elsewhere = recorded(a.Click("4"), DONE, task="b", url="http://wiki.test/")
    refused = recorded(a.Click("4"), a.ReportInfeasible("No."), task="c")
    assert await played("side-effect", recorded(*DEEDS, DONE), elsewhere, refused) == [*DEEDS, DONE]
    unknown = [recorded(*DEEDS, DONE, url=""), recorded(a.Click("4"), DONE, task="b", url="")]
    assert await played("side-effect", *unknown) == [*DEEDS, DONE]


async def test_it_answers_where_the_page_is_another_one():
    page = PAGE.replace('button "Save"', 'button "Back"')
    assert await played("wrong-value", recorded(*DEEDS, DONE), page=page) == [
        *(DEEDS[0], a.Fill("2", "Emm"), DEEDS[2], DONE)
    ]


def test_what_it_cannot_do_is_an_error_that_says_why(tmp_path):
    with pytest.raises(errors.InvalidInputError, match=r"no fault 'lazy'.*wrong-value, side-eff"):
        BrokenAgent.of([recorded(DONE)], "lazy")
    with pytest.raises(errors.InvalidInputError, match="at least one recorded success"):
        BrokenAgent.of([recorded(DONE, outcome=Outcome.FAILURE)], "answer-only")
    with pytest.raises(errors.InvalidInputError, match="does not end with an answer"):
        BrokenAgent.of([recorded(a.Click("4"))], "answer-only").begin_episode(Site("add"))
    with pytest.raises(errors.InvalidInputError, match="needs 'fault'"):
        make_agent("broken", options={"dataset": str(tmp_path)})
