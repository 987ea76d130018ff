"""Which episodes tell of the policy: a table for each rule, and WebGym's own words beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_episodes import make_trajectory, patient, reply

from rows import each
from webtraj import EndReason, Outcome, errors
from webtraj.environments.actions import Answer, Click, GoBack
from webtraj.metrics import measure_trajectories
from webtraj.metrics.facts import EpisodeFacts, StepFacts, classify, step_facts
from webtraj.metrics.tally import Tally

R, O = EndReason, Outcome  # noqa: E741

CLICK, ANSWER = "click('1')", Answer("42")


def classified(trajectory, rule):
    return classify(EpisodeFacts.of_trajectory(trajectory, steps=step_facts(trajectory)), rule)


@each(
    ("outcome", "reason", "expected"),
    [
        (O.SUCCESS, R.TERMINATED, "valid"),
        (O.FAILURE, R.TERMINATED, "valid"),
        (O.FAILURE, R.TRUNCATED, "valid"),
        (O.SUCCESS, R.CLOSED, "unfinished"),  # What did not end by itself says nothing.
        (O.FAILURE, R.CRASHED, "crashed"),
        (O.JUDGE_ERROR, R.CANCELLED, "unfinished"),
        (O.JUDGE_ERROR, R.TERMINATED, "valid"),  # What was done is known, its worth is not.
        (O.UNKNOWN, R.TERMINATED, "valid"),
        (O.UNKNOWN, R.TRUNCATED, "valid"),
        (O.BLOCKED, R.TERMINATED, "blocked"),
        (O.BLOCKED, R.ERRORED, "blocked"),
        (O.ENV_ERROR, R.ERRORED, "crashed"),
        (O.MODEL_ERROR, R.ERRORED, "crashed"),
        (O.AGENT_ERROR, R.ERRORED, "valid"),  # The agent failed, and nothing else did.
        (O.TIMEOUT, R.ERRORED, "crashed"),
        (O.UNKNOWN, R.ERRORED, "crashed"),
        (O.UNKNOWN, R.CRASHED, "crashed"),
        (O.CANCELLED, R.CANCELLED, "unfinished"),
        (O.UNKNOWN, R.CANCELLED, "unfinished"),
        (O.UNKNOWN, R.INTERRUPTED, "unfinished"),
        (O.UNKNOWN, R.CLOSED, "unfinished"),
        (O.UNKNOWN, R.UNKNOWN, "unfinished"),
    ],
)
def test_typed_rule_goes_by_the_outcome(outcome, reason, expected):
    assert classified(make_trajectory(outcome=outcome, reason=reason), "typed") == expected


@each(
    ("actions", "outcome", "reason", "expected"),
    [
        # 1. It is empty or has no steps.
        ((), O.UNKNOWN, R.TERMINATED, "crashed"),
        ((), O.BLOCKED, R.TERMINATED, "crashed"),
        # 2. The first action is invalid_url: the first alone.
        (({"key": "invalid_url"},), O.BLOCKED, R.TERMINATED, "crashed"),
        (({"key": "invalid_url"}, *[CLICK] * 9), O.FAILURE, R.TRUNCATED, "crashed"),
        ((*[CLICK] * 9, {"key": "invalid_url"}), O.FAILURE, R.TRUNCATED, "valid"),
        # 3. A dummy in the place of an action, wherever it stands.
        ((*[CLICK] * 9, None), O.FAILURE, R.TRUNCATED, "crashed"),
        (({"key": "none"}, *[CLICK] * 9, ANSWER), O.SUCCESS, R.TERMINATED, "crashed"),
        # Where these end an episode, WebGym stores a dummy.
        ([CLICK] * 10, O.ENV_ERROR, R.ERRORED, "crashed"),
        ([CLICK] * 10, O.TIMEOUT, R.ERRORED, "crashed"),
        ([CLICK] * 10, O.CANCELLED, R.CANCELLED, "crashed"),
        ([CLICK] * 10, O.UNKNOWN, R.CRASHED, "crashed"),
        # 4. Fewer than 10 steps, no answer at the end, and not blocked.
        ([CLICK] * 9, O.FAILURE, R.TRUNCATED, "crashed"),
        ([CLICK] * 9, O.SUCCESS, R.TERMINATED, "crashed"),
        ([CLICK] * 10, O.FAILURE, R.TRUNCATED, "valid"),
        ((CLICK, ANSWER), O.SUCCESS, R.TERMINATED, "valid"),
        ((CLICK, "answer('42')"), O.FAILURE, R.TERMINATED, "valid"),
        ((CLICK, {"key": "answer"}), O.FAILURE, R.TERMINATED, "valid"),
        ((ANSWER, CLICK), O.FAILURE, R.TRUNCATED, "crashed"),
        ((CLICK,), O.BLOCKED, R.TERMINATED, "blocked"),
        ([CLICK] * 10, O.BLOCKED, R.TRUNCATED, "blocked"),
        ((ANSWER,), O.JUDGE_ERROR, R.TERMINATED, "valid"),
    ],
)
def test_webgyms_rule(actions, outcome, reason, expected):
    made = make_trajectory(tuple(actions), outcome=outcome, reason=reason)
    assert classified(made, "webgym") == expected


def test_webgyms_rule_needs_steps():
    facts = EpisodeFacts(episode_id="e1", num_steps=3)
    with pytest.raises(errors.InvalidInputError, match="'e1', which a summary does not contain"):
        classify(facts, "webgym")


def test_no_other_rule_is_known():
    with pytest.raises(errors.InvalidInputError, match="'typed' or 'webgym'"):
        measure_trajectories([], crash_rule="weblinx")


@pytest.mark.parametrize("rule", ["typed", "webgym"])
@patient
@given(st.sampled_from(O), st.sampled_from(R), st.integers(0, 12))
def test_no_infrastructure_failure_is_in_a_success_rate(rule, outcome, reason, steps):
    tally = Tally(rule)
    facts = EpisodeFacts(
        outcome=outcome, end_reason=reason, num_steps=steps, steps=StepFacts(last_verb="answer")
    )
    tally.add(facts)
    metrics = tally.metrics()
    assert metrics.valid + metrics.blocked + metrics.crashed + metrics.unfinished == 1
    graded = outcome in (O.SUCCESS, O.FAILURE, O.AGENT_ERROR)
    assert metrics.success_rate.denominator <= graded
    assert not (metrics.infrastructure_failures and metrics.success_rate.denominator)


def as_webgym(keys, reward, *, blocked, replies):
    """Returns an episode as WebGym's own functions below read it."""
    return [
        {"key": key, "reply": reply, "reward": reward, "blocked": blocked}
        for key, reply in zip(keys, replies, strict=True)
    ]


def is_crashed(t):
    """After `is_crashed` of microsoft/webgym, scripts/rollout.py, at 574a205 (MIT)."""
    if not t or len(t) == 0:
        return True
    if t[0]["key"] == "invalid_url":
        return True
    for step in t:
        if step["key"] == "none":
            return True
    min_steps = 10
    return len(t) < min_steps and t[-1]["key"] != "answer" and not t[-1]["blocked"]


def calculate_rollout_metrics(trajs):
    """After `calculate_rollout_metrics`, there, without its zeros where nothing is known."""
    crashed = sum(map(is_crashed, trajs))
    valid = [t for t in trajs if not is_crashed(t)]
    blocked = sum(t[-1]["blocked"] for t in valid)
    rest = [t for t in valid if not t[-1]["blocked"]]
    steps = sum(map(len, rest))
    return {
        "crashed_rate": crashed / len(trajs) if trajs else None,
        "blocked_rate": blocked / len(valid) if valid else None,
        "success_rate": sum(t[-1]["reward"] == 1 for t in rest) / len(rest) if rest else None,
        "avg_chars_per_response": sum(len(s["reply"]) for t in rest for s in t) / steps
        if rest
        else None,
        "avg_steps": steps / len(rest) if rest else None,
        "goback_rate": sum(s["key"] == "goback" for t in rest for s in t) / steps if rest else None,
    }


ACTIONS = {"click": Click("1"), "goback": GoBack(), "answer": ANSWER, "none": None}
KEYS = st.sampled_from(["click"] * 6 + ["goback", "answer", "none"])
EPISODES = st.lists(
    st.tuples(st.lists(KEYS, max_size=13), st.booleans(), st.sampled_from([0, 0, 1])), max_size=8
)


@patient
@given(EPISODES)
def test_graded_episodes_have_the_numbers_that_webgyms_own_code_gives(episodes):
    theirs, ours = [], []
    for keys, blocked, reward in episodes:
        replies = ["x" * (3 + i) for i in range(len(keys))]
        theirs.append(as_webgym(keys, reward, blocked=blocked, replies=replies))
        outcome = O.BLOCKED if blocked else O.SUCCESS if reward else O.FAILURE
        actions = [ACTIONS[key] for key in keys]
        decisions = [reply(t, a) for t, a in zip(replies, actions, strict=True)]
        ours.append(make_trajectory(actions, outcome=outcome, decisions=decisions))
    metrics = measure_trajectories(ours, crash_rule="webgym").overall
    for name, value in calculate_rollout_metrics(theirs).items():
        assert getattr(metrics, name).value == (value if value is None else pytest.approx(value))
