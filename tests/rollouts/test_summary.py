"""The numbers that a rollout reports, and the counts behind them."""

import dataclasses

from rows import each
from webtraj import EndReason, Outcome
from webtraj.rollouts import EpisodeResult, RolloutSummary


def result(task="a", end_reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS, steps=2):
    return EpisodeResult(
        task=task,
        seed=0,
        attempt=0,
        episode_id="",
        end_reason=end_reason,
        outcome=outcome,
        num_steps=steps,
        total_reward=None,
        seconds=0.5,
    )


@each(
    ("outcomes", "rate"),
    [
        ([Outcome.SUCCESS, Outcome.SUCCESS], 1.0),
        ([Outcome.SUCCESS, Outcome.FAILURE], 0.5),
        ([Outcome.SUCCESS, Outcome.ENV_ERROR, Outcome.CANCELLED, Outcome.UNKNOWN], 1.0),
        ([Outcome.ENV_ERROR, Outcome.MODEL_ERROR, Outcome.TIMEOUT, Outcome.JUDGE_ERROR], None),
        ([Outcome.SUCCESS, Outcome.AGENT_ERROR], 0.5),
        ([], None),
    ],
)
def test_success_rate_is_among_successes_and_failures(outcomes, rate):
    results = tuple(result(outcome=outcome) for outcome in outcomes)
    summary = RolloutSummary(results=results, seconds=1.0)
    assert summary.total.success_rate == rate
    assert summary.total.episodes == len(outcomes)


def test_tasks_are_counted_apart_and_in_the_order_of_names():
    summary = RolloutSummary(
        results=(
            result("b", steps=4),
            result("a", EndReason.ERRORED, Outcome.ENV_ERROR, steps=1),
            result("b", EndReason.TRUNCATED, Outcome.FAILURE, steps=5),
        ),
        seconds=0.5,
    )
    a, b = summary.tasks
    assert (a.task, a.episodes, a.success_rate, a.end_reasons) == (
        "a",
        1,
        None,
        {EndReason.ERRORED: 1},
    )
    assert (b.task, b.episodes, b.mean_steps, b.success_rate) == ("b", 2, 4.5, 0.5)
    assert b.end_reasons == {EndReason.TERMINATED: 1, EndReason.TRUNCATED: 1}
    assert b.steps_per_second == 9.0
    assert summary.total.steps == 10
    assert repr(summary) == (
        "<RolloutSummary: episodes=3, tasks=2, successes=1, failures=1, "
        "infrastructure_failures=1, steps=10, seconds=0.5>"
    )
    assert summary.steps_per_second == 20.0
    assert dataclasses.replace(summary, earlier=1).steps_per_second == 12.0


def test_rollout_of_nothing_has_no_rates():
    summary = RolloutSummary(results=(), seconds=0.0)
    assert summary.tasks == ()
    assert summary.total.mean_steps == summary.steps_per_second == 0.0
