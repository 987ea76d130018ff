"""The final answer is found in whichever form actions were recorded."""

import pytest

from rows import each
from webtraj.environments import actions
from webtraj.environments.actions.recorded import answer_of, final_answer
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import Decision, EpisodeInfo, EpisodeTrajectory, StepRecord, StepType


def trajectory_of(*taken) -> EpisodeTrajectory:
    steps = [StepRecord(0, StepType.FIRST, {})]
    steps += [
        StepRecord(number, StepType.MID, {}, action, 0.0, 1.0)
        for number, action in enumerate(taken, 1)
    ]
    return EpisodeTrajectory(EpisodeInfo(), tuple(steps))


@each(
    ("action", "told"),
    [
        pytest.param(actions.Answer("12"), "12", id="answer"),
        pytest.param(actions.SendMessage("hello"), "hello", id="message"),
        pytest.param(actions.ReportInfeasible("no such page"), "no such page", id="infeasible"),
        pytest.param("answer('12 dollars')", "12 dollars", id="webtraj text"),
        pytest.param("send_msg_to_user('12')", "12", id="browsergym text"),
        pytest.param("report_infeasible('why')", "why", id="browsergym infeasible"),
        pytest.param({"key": "answer", "arguments": {"content": "9"}}, "9", id="webgym"),
        pytest.param({"key": "click", "arguments": {"text": "9"}}, None, id="webgym click"),
        pytest.param({"key": "answer"}, None, id="webgym without text"),
        pytest.param(OpaqueRecord("action/answer", {"text": "12"}), "12", id="opaque"),
        pytest.param(OpaqueRecord("other/answer", {"text": "12"}), None, id="another record"),
        pytest.param(Decision(action=actions.Answer("12")), "12", id="decision"),
        pytest.param(actions.Click("12"), None, id="click"),
        pytest.param("up", None, id="another environment's text"),
        pytest.param(3, None, id="number"),
        pytest.param(None, None, id="none"),
        pytest.param(actions.Answer(""), "", id="empty answer"),
    ],
)
def test_answer_of(action, told) -> None:
    assert answer_of(action) == told
    assert final_answer(trajectory_of(actions.Click("1"), action)) == told


def test_the_last_thing_told_is_the_answer() -> None:
    told = (actions.SendMessage("I am looking."), actions.Answer("12"), actions.Click("1"))
    assert final_answer(trajectory_of(*told)) == "12"


def test_no_answer_was_given() -> None:
    assert final_answer(trajectory_of(actions.Click("1"))) is None
    assert final_answer(EpisodeTrajectory(EpisodeInfo())) is None
