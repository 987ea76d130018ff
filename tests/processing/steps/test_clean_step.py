"""`clean`: what is dropped, for which reason, and that what is sound goes on as it is."""

import dataclasses

import numpy as np
import pytest
from made_episodes import done, episode, finish, page, step

from rows import each
from webtraj import Outcome, errors
from webtraj.environments import actions as a
from webtraj.processing.base import Drop
from webtraj.processing.steps import step_class
from webtraj.processing.steps.clean import Clean
from webtraj.trajectory import Decision, EndReason, ErrorInfo, ModelCall

SOUND = episode(step(a.Click("1"), page()), finish())


def ended(reason, **fields):
    end = dataclasses.replace(SOUND.end, reason=reason, outcome=Outcome.UNKNOWN, **fields)
    return dataclasses.replace(SOUND, end=end)


def called(*calls):
    decision = Decision(action=a.Click("1"), model_calls=calls)
    return episode(step(a.Click("1"), page(), decision=decision), finish())


INVALID = a.InvalidAction("No action.", "Hm.", "no_action")
FAILED = ModelCall(error="503")
ANSWERED = ModelCall(text="click('1')")

CASES = {
    "open": (dataclasses.replace(SOUND, end=None), "open"),
    "unknown end": (ended(EndReason.UNKNOWN), "open"),
    "errored": (ended(EndReason.ERRORED), "errored"),
    "crashed": (ended(EndReason.CRASHED), "crashed"),
    "cancelled": (ended(EndReason.CANCELLED), "cancelled"),
    "closed": (ended(EndReason.CLOSED), "closed"),
    "interrupted": (ended(EndReason.INTERRUPTED), "interrupted"),
    "env error": (episode(*SOUND.steps[1:], outcome=Outcome.ENV_ERROR), "outcome env_error"),
    "agent error": (episode(*SOUND.steps[1:], outcome=Outcome.AGENT_ERROR), "outcome agent_error"),
    "judge error": (episode(*SOUND.steps[1:], outcome=Outcome.JUDGE_ERROR), "outcome judge_error"),
    "timeout": (episode(*SOUND.steps[1:], outcome=Outcome.TIMEOUT), "outcome timeout"),
    "no steps": (dataclasses.replace(SOUND, steps=()), "empty"),
    "only empty observations": (episode(step(a.Wait(), {}), finish({}), first={}), "empty"),
    "no action at all": (dataclasses.replace(SOUND, steps=SOUND.steps[:1]), "too short"),
    "no action": (episode(step(None, page()), finish()), "no action"),
    "no observation": (episode(step(a.Wait(), None), finish()), "no observation"),
    "no first observation": (episode(step(a.Wait(), page()), finish(), first={}), "no observation"),
    "a step is lost": (
        dataclasses.replace(
            SOUND, steps=(SOUND.steps[0], dataclasses.replace(SOUND.steps[1], index=2))
        ),
        "gap",
    ),
    "a channel is None": (episode(step(a.Wait(), page(None)), finish()), "no observation"),
    "no response": (called(ModelCall()), "no response"),
    "failed to the last": (called(ANSWERED, FAILED), "no response"),
    "only invalid": (episode(step(INVALID, page()), step(INVALID, page())), "no valid action"),
}

KEPT = {
    "sound": SOUND,
    "one action": episode(finish()),
    "truncated": episode(*SOUND.steps[1:], truncated=True),
    "failure": episode(*SOUND.steps[1:], outcome=Outcome.FAILURE),
    "blocked": episode(*SOUND.steps[1:], outcome=Outcome.BLOCKED),
    "answered in the end": called(FAILED, ANSWERED),
    "a tool call without text": called(ModelCall(response={"choices": []})),
    "one invalid of two": episode(step(INVALID, page()), finish()),
    "numbers for observations": episode(step(1, 0), step(0, 2), first=0),
    "arrays for observations": episode(step(1, np.zeros(2)), step(0, np.ones(2)), first=np.ones(2)),
    "scalars of numpy": episode(step(1, np.array(3)), step(0, np.array(4)), first=np.array(0)),
    "a channel that nothing had": episode(
        step(1, {"text": "b", "error": None}),
        step(0, {"text": "c", "error": None}),
        first={"text": "a", "error": None},
    ),
    "an error of the site": episode(step(a.Click("9"), page(**done(error="gone"))), finish()),
}


@each("case", CASES)
def test_dropped_for_a_reason(case):
    trajectory, reason = CASES[case]
    result = Clean()(trajectory)
    assert isinstance(result, Drop)
    assert result.reason == reason


@each("case", KEPT)
def test_goes_on_as_it_is(case):
    assert Clean()(KEPT[case]) is KEPT[case]


def test_detail_says_what_there_is_to_say_of_this_one():
    error = ErrorInfo(type="webtraj.errors.BrowserCrashedError", message="the page died")
    found = Clean()(ended(EndReason.ERRORED, error=error))
    assert found.detail == "webtraj.errors.BrowserCrashedError: the page died"
    assert Clean()(CASES["no action"][0]).detail == "step 1"


def test_single_clicks_stay_where_they_are_asked_for():
    single = episode(finish())
    assert Clean(min_steps=1)(single) is single
    assert step_class("clean")(min_steps=1).settings == {"min_steps": 1}


@each("value", [-1, 1.5, True, "2", None])
def test_what_is_no_number_of_steps_is_refused(value):
    with pytest.raises(errors.InvalidInputError, match=r"clean: min_steps is .* whole number"):
        Clean(min_steps=value)
