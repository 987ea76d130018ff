"""`redact`: secrets leave the whole episode, and no setting holds them."""

import dataclasses

import numpy as np
import pytest
from made_episodes import done, episode, finish, only, page, step

from rows import each
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.processing.steps.redact import Redact
from webtraj.testing.assertions import assert_valid_trajectory
from webtraj.trajectory import Decision, ErrorInfo, ModelCall
from whole import whole

PASSWORD = "hunter2-hunter2"
REDACT = Redact(secrets={"password": PASSWORD}, patterns=("email",))


def leaky():
    call = ModelCall(
        messages=({"role": "user", "content": f"Log in with {PASSWORD}"},),
        text=f"fill('2', '{PASSWORD}')",
        response={"text": PASSWORD},
        completion_token_ids=(1, 2, 3),
    )
    decision = Decision(thought=f"I type {PASSWORD}.", model_calls=(call,))
    seen = page(f'[2] textbox "Key" value="{PASSWORD}"', **done("textbox", PASSWORD))
    changes = {"changes": np.array([f"+ text {PASSWORD}"]), "text": "anna@example.org"}
    trajectory = episode(
        step(a.Fill("2", PASSWORD), {**seen, **changes}, decision=decision),
        finish(),
        goal=f"Log in with {PASSWORD}.",
        metadata={"note": {"nested": [PASSWORD]}},
    )
    error = ErrorInfo(type="ValueError", message=f"no {PASSWORD}")
    return dataclasses.replace(trajectory, end=dataclasses.replace(trajectory.end, error=error))


def test_secret_is_nowhere_in_the_episode():
    trajectory = leaky()
    assert PASSWORD in whole(trajectory)
    result = REDACT(trajectory)
    made = only(result)
    assert_valid_trajectory(made)
    assert PASSWORD not in whole(made)
    assert "anna@example.org" not in whole(made)
    assert made.info.goal == "Log in with <secret:password>."
    assert made.steps[1].decision.model_calls[0].completion_token_ids == ()
    assert result.changes["redactions"]["email"] == 1
    assert made.info.metadata["redactions"] == result.changes["redactions"]


def test_doing_it_twice_changes_nothing():
    made = only(REDACT(leaky()))
    assert REDACT(made) is made


def test_placeholders_stay_whole_when_other_secrets_look_like_them():
    made = only(REDACT(leaky()))
    again = only(Redact(secrets={"word": "password", "tag": "secret"})(made))
    assert again.info.goal == "Log in with <secret:password>."
    assert again.steps[1].decision.thought == "I type <secret:password>."
    assert (
        again.info.metadata["redactions"]["password"]
        == made.info.metadata["redactions"]["password"]
    )


def test_secrets_are_in_no_setting_and_no_name():
    assert REDACT.settings == {"patterns": ["email"], "regexes": {}, "secrets": ["password"]}
    assert PASSWORD not in repr(REDACT)


def test_episode_without_secrets_goes_on_as_it_is():
    sound = episode(finish())
    assert REDACT(sound) is sound


@each(
    ("options", "said"),
    [
        ({}, "nothing to redact"),
        ({"patterns": "phone-numbers"}, "phone-numbers"),
        ({"secrets": {"key": "abc"}}, "at least"),
        ({"secrets": ["abc"]}, "secrets is not a mapping"),
        ({"regexes": {"badge": "("}}, "badge"),
    ],
)
def test_bad_options_are_named_without_values(options, said):
    with pytest.raises(errors.InvalidInputError, match=said) as raised:
        Redact(**options)
    assert "abc" not in str(raised.value)
