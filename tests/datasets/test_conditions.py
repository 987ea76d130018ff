"""Conditions on episodes as text: parsed, and never run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rows import each
from webtraj import Outcome, errors
from webtraj.datasets.dataset import parse_condition
from webtraj.store.index import EpisodeSummary

EPISODE = EpisodeSummary(
    episode_id="e1",
    task="miniwob/click-test",
    goal="Click the login button",
    outcome=Outcome.SUCCESS,
    num_steps=4,
    total_reward=0.75,
    seed=None,
)
CONDITIONS = {
    "outcome == 'success'": True,
    "outcome != 'success'": False,
    "num_steps <= 4 and total_reward > 0.5": True,
    "num_steps < 4 or total_reward > 0.5": True,
    "not (num_steps < 4)": True,
    "0 < num_steps <= 3": False,
    "0 < num_steps <= 4": True,
    "task in ('a', 'miniwob/click-test')": True,
    "task not in ['a', 'b']": True,
    "'login' in goal": True,
    "seed is None": True,
    "seed is not None": False,
    "seed > 2": False,
    "not seed > 2 and 1 < num_steps": True,
    "total_reward > -1": True,
    "total_reward > -1.5 and True": True,
    "  site == '' ": True,
    "end_reason == 'unknown'": True,
    "outcome in ('success', 'failure')": True,
    "'succ' in outcome": True,
    "outcome == task": False,
}


@each(("text", "expected"), CONDITIONS.items())
def test_conditions(text, expected):
    assert parse_condition(text)(EPISODE) is expected


REFUSED = [
    "", "task ==", "import os", "task = 'a'", "print(1)", "task.upper() == 'A'", "tasks == 'a'",
    "().__class__", "[t for t in task]", "lambda: 1", "f'{task}'", "task[0] == 'm'", "seed + 1",
    "2 ** 9999999", "b'x' == task", "x := 1", "task if seed else goal", "... == seed", "\0", "1j",
    "outcome == 'sucess'", "outcome == 'Success'", "end_reason in ('terminated', 'over')",
    "outcome is 'success'", "(" * 300 + ")" * 300, "'a' == task and " * 200 + "seed", "((" * 900,
]  # fmt: skip


@each("text", REFUSED)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(errors.InvalidInputError, match="Invalid condition"):
        parse_condition(text)


@given(
    st.text(
        st.sampled_from("taskseed_num '\"()[]{}<>=!&|.,:+-*/%0123456789andornoti\n\\"), max_size=60
    )
)
def test_any_text_is_a_condition_or_refused(text):
    try:
        met = parse_condition(text)
        assert met(EPISODE) in (True, False)
    except errors.InvalidInputError:
        pass
