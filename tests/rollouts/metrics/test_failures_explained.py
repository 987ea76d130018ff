"""Why an episode failed: who caused it, what went wrong, and the steps that show it."""

import dataclasses

from measured_episodes import make_trajectory, reply

from rows import each
from webtraj import EndReason, Outcome
from webtraj.environments.actions import Answer, Click, GoBack, ReportInfeasible
from webtraj.judging.base import Judgement
from webtraj.metrics.failures import Cause, explain, summarize
from webtraj.trajectory import ErrorInfo

R, O = EndReason, Outcome  # noqa: E741


def told(error=""):
    return {"url": "http://shop.test/", "last_action": {"error": error, "error_kind": "gone"}}


@each(
    ("actions", "errors", "reason", "kind", "steps"),
    [
        ((Click("1"), Answer("12")), ("", ""), R.TERMINATED, "wrong answer", [2]),
        ((Click("1"), Answer("12")), ("", ""), R.TRUNCATED, "wrong answer", [2]),
        ((ReportInfeasible("no such shop"),), ("",), R.TERMINATED, "gave up", [1]),
        ((Click("1"), Click("2")), ("it is gone", ""), R.TERMINATED, "wrong result", [2]),
        ((Click("1"), Click("2")), ("it is gone", ""), R.TRUNCATED, "refused actions", [1]),
        (
            (GoBack(), Click("2"), Click("2"), Click("2"), Click("3")),
            ("",) * 5, R.TRUNCATED, "repeated actions", [2, 4],
        ),
        ((Click("1"), Click("2"), Click("1")), ("",) * 3, R.TRUNCATED, "out of steps", [2, 3]),
        ((), (), R.TRUNCATED, "no action", []),
    ],
)  # fmt: skip
def test_kinds_of_an_agents_failures(actions, errors, reason, kind, steps):
    observations = [told(error) for error in errors]
    failure = explain(
        make_trajectory(actions, outcome=O.FAILURE, reason=reason, observations=observations)
    )
    assert (failure.cause, failure.kind) == (Cause.AGENT, kind)
    assert [quote.step for quote in failure.quotes] == steps
    assert all("http://shop.test/" in quote.text for quote in failure.quotes)


def test_quotes_say_what_was_wrong():
    refused = make_trajectory(
        (Click("7"),), outcome=O.FAILURE, reason=R.TRUNCATED, observations=[told("7 is gone")]
    )
    assert explain(refused).quotes[0].text == "click('7'): 7 is gone (at http://shop.test/)"
    named = {"last_action": {"role": "button", "name": "Log  in"}}
    clicked = make_trajectory((Click("7"),), outcome=O.FAILURE, observations=[named])
    assert explain(clicked).quotes[0].text == "click('7') on button \"Log in\""
    decisions = [reply("Hm.", None, parse_error="There is no call."), reply("c", Click("1"))]
    unreadable = make_trajectory(
        (None, Click("1")), outcome=O.FAILURE, reason=R.TRUNCATED, decisions=decisions
    )
    failure = explain(unreadable)
    assert failure.kind == "unreadable replies"
    assert failure.quotes[0].text == "nothing: There is no call."
    long = make_trajectory((Answer("x" * 10_000),), outcome=O.FAILURE)
    assert len(explain(long).quotes[0].text) < 300


@each(
    ("outcome", "reason", "cause"),
    [
        (O.SUCCESS, R.TERMINATED, None),
        (O.UNKNOWN, R.TERMINATED, None),
        (O.SUCCESS, R.CRASHED, Cause.ENVIRONMENT),
        (O.UNKNOWN, R.ERRORED, Cause.ENVIRONMENT),
        (O.ENV_ERROR, R.TERMINATED, Cause.ENVIRONMENT),
        (O.MODEL_ERROR, R.ERRORED, Cause.MODEL_SERVER),
        (O.JUDGE_ERROR, R.TERMINATED, Cause.JUDGE),
        (O.TIMEOUT, R.ERRORED, Cause.TIME_LIMIT),
        (O.BLOCKED, R.TERMINATED, Cause.SITE),
        (O.CANCELLED, R.CANCELLED, Cause.CUT_OFF),
        (O.UNKNOWN, R.INTERRUPTED, Cause.CUT_OFF),
        (O.FAILURE, R.CLOSED, Cause.CUT_OFF),
        (O.AGENT_ERROR, R.ERRORED, Cause.AGENT),
    ],
)
def test_the_cause_follows_from_the_end(outcome, reason, cause):
    failure = explain(make_trajectory(outcome=outcome, reason=reason))
    assert (failure and failure.cause) == cause


def test_an_error_is_named_and_the_action_in_flight_quoted():
    broken = make_trajectory(outcome=O.ENV_ERROR, reason=R.ERRORED)
    end = dataclasses.replace(
        broken.end,
        error=ErrorInfo(type="webtraj.errors.BrowserCrashedError", message="it broke\nhere"),
        action_in_flight=True,
        in_flight_action=Click("9"),
    )
    failure = explain(dataclasses.replace(broken, end=end))
    assert (failure.kind, failure.reason) == ("BrowserCrashedError", "it broke")
    assert failure.quotes[-1].text == "click('9'): its result was never seen"
    assert failure.quotes[-1].step is None


def test_the_judges_reason_is_given():
    failed = make_trajectory(outcome=O.FAILURE)
    judged = failed.end.with_judgement(
        Judgement(outcome=O.FAILURE, reward=0.0, reason="No order.\nNone.")
    )
    assert explain(dataclasses.replace(failed, end=judged)).reason == "No order."


def test_kinds_are_counted_most_frequent_first():
    failures = [
        explain(make_trajectory(actions, outcome=outcome, task=task))
        for actions, outcome, task in (
            ((Click("1"),), O.ENV_ERROR, "a"),
            ((Answer("1"),), O.FAILURE, "a"),
            ((Answer("2"),), O.FAILURE, "b"),
            ((Answer("3"),), O.FAILURE, "b"),
        )
    ]
    first, second = summarize(failures)
    assert (first.kind, first.episodes, first.tasks) == ("wrong answer", 3, 2)
    assert first.example is failures[1]
    assert second.cause is Cause.ENVIRONMENT
    assert summarize([]) == []
