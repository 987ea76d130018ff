"""Each number, reckoned by hand from a few episodes."""

import dataclasses
import math

import pytest
from hypothesis import given
from measured_episodes import make_trajectory, patient, reply

from webtraj import EndReason, Outcome
from webtraj.agents.models.accounting import Price
from webtraj.environments.actions import Click, GoBack, InvalidAction
from webtraj.metrics import Rate, Ratio, measure_results, measure_trajectories
from webtraj.metrics.facts import StepFacts, step_facts
from webtraj.rollouts import EpisodeResult
from webtraj.testing.strategies import trajectories

O, R = Outcome, EndReason  # noqa: E741

USAGE = {"prompt_tokens": 100, "completion_tokens": 10}


def overall(*episodes, **options):
    return measure_trajectories(episodes, **options).overall


def shown(passed):
    return {k: (mean.total, mean.groups, mean.left_out) for k, mean in passed.items()}


def failed(path=""):
    return {"last_action": {"error": path}}


def a_small_rollout():
    """Two tasks: `a/x` solved in 1 of 2 judged attempts, `a/y` in 1 of 2; and what went wrong."""
    return [
        make_trajectory([Click("1"), Click("1")], task="a/x", reward=1.0),
        make_trajectory([Click("1"), GoBack(), Click("2")], outcome=O.FAILURE, task="a/x"),
        make_trajectory([Click("1")] * 4, task="a/y", reward=0.5),
        make_trajectory([Click("1")], outcome=O.UNKNOWN, reason=R.TRUNCATED, task="a/x"),
        make_trajectory([Click("1")], outcome=O.JUDGE_ERROR, reward=9.0, task="a/x"),
        make_trajectory([GoBack()] * 5, outcome=O.ENV_ERROR, reason=R.ERRORED, task="a/x"),
        make_trajectory([Click("1")] * 7, outcome=O.AGENT_ERROR, reason=R.ERRORED, task="a/y"),
        make_trajectory([Click("1")], outcome=O.TIMEOUT, reason=R.ERRORED, task="a/y"),
        make_trajectory([Click("1")], outcome=O.BLOCKED, task="a/y"),
        make_trajectory([Click("1")], outcome=O.CANCELLED, reason=R.CANCELLED, task="a/y"),
    ]


def test_a_small_rollout():
    metrics = overall(*a_small_rollout())
    assert (metrics.total, metrics.valid, metrics.blocked) == (10, 6, 1)
    assert (metrics.crashed, metrics.unfinished) == (2, 1)
    assert (metrics.successes, metrics.failures, metrics.ungraded) == (2, 2, 2)
    assert metrics.infrastructure_failures == 3  # ENV, TIMEOUT, and the judge's; not the agent's.
    assert metrics.success_rate == Rate(2, 4)
    assert metrics.crashed_rate == Rate(2, 10)
    assert metrics.blocked_rate == Rate(1, 7)
    assert metrics.avg_steps == Ratio(2 + 3 + 4 + 1 + 1 + 7, 6)
    assert metrics.goback_rate == Ratio(1, 18)  # Those of the crashed episode do not count.
    assert metrics.repeated_action_rate == Ratio(1 + 0 + 3 + 6, 1 + 2 + 3 + 6)
    assert metrics.longest_repeat == 7
    assert metrics.steps == 26
    assert metrics.with_steps == 10
    spread = metrics.steps_to_success
    assert (spread.count, spread.mean, spread.minimum, spread.maximum) == (2, 3.0, 2, 4)
    assert spread.std == pytest.approx(math.sqrt(2))
    # Of x: 1, 0, and the 0 of the truncated one; of y: 0.5. No error has one.
    assert (metrics.reward.count, metrics.reward.mean) == (4, 0.375)
    assert metrics.outcomes["timeout"] == 1
    assert metrics.end_reasons["errored"] == 3
    assert sum(metrics.outcomes.values()) == sum(metrics.end_reasons.values()) == 10
    assert shown(metrics.pass_at_k) == {1: (1.0, 2, 0), 2: (2.0, 2, 0)}
    assert shown(metrics.pass_hat_k) == {1: (1.0, 2, 0), 2: (0.0, 2, 0)}


def test_health_counts_what_limits_the_trust_in_rates():
    page = {"url": "http://a/", "axtree": "[1] button", "screenshot": b"1"}
    moved = {**page, "scroll": {"x": 0.0, "y": 9.0}}

    def settled(how, shown):
        return {**shown, "last_action": {"error": "", "settled": how}, "timings": {"act": how}}

    episode = make_trajectory(
        [Click("1")] * 4,
        decisions=[
            reply("", Click("1"), finish_reason=reason)
            for reason in ("stop", "length", "refusal", "stop")
        ],
        observations=[
            settled("quiet", page), settled("cap", page), settled("quiet", moved), {"goal": "g"}
        ],
    )  # fmt: skip
    health = overall(episode, *a_small_rollout()).health
    assert {name: (share.numerator, share.denominator) for name, share in health.items()} == {
        "infrastructure_failures": (3, 11),
        "unfinished": (1, 11),
        "blocked": (1, 11),
        "ungraded": (2, 7),
        "unscored": (2, 7),  # The judge's failure, and the agent's error.
        "replies_cut_off": (1, 4),
        "replies_refused": (1, 4),
        "observations_unsettled": (1, 3),
        "observations_repeated": (1, 2),
    }


def test_groups_have_their_own_numbers():
    report = measure_trajectories(a_small_rollout(), by=["task", "group"])
    assert report.by["task"]["a/x"].success_rate == Rate(1, 2)
    assert report.by["task"]["a/y"].success_rate == Rate(1, 2)
    assert report.by["task"]["a/y"].infrastructure_failures == 1
    group, overall = report.by["group"]["a"], report.overall
    assert group.throughput.wall_seconds is None  # They were played among others.
    assert dataclasses.replace(group, throughput=overall.throughput) == overall


def test_nothing_is_known_of_nothing():
    metrics = measure_trajectories([]).overall
    assert metrics.total == 0
    data = metrics.to_data()
    for name in ("success_rate", "crashed_rate", "blocked_rate"):
        assert data[name]["value"] is data[name]["low"] is data[name]["high"] is None
    for name in ("avg_steps", "avg_chars_per_response", "goback_rate", "invalid_action_rate"):
        assert data[name]["value"] is None
    assert data["reward"]["mean"] is data["steps_to_success"]["mean"] is None
    assert data["pass_at_k"] == data["pass_hat_k"] == {}
    assert data["throughput"]["wall_seconds"] is data["throughput"]["steps_per_second"] is None
    assert "success_rate" not in metrics.scalars()


def test_a_rate_of_crashed_episodes_alone_is_unknown_and_not_0():
    metrics = overall(make_trajectory(outcome=O.ENV_ERROR, reason=R.ERRORED))
    assert metrics.success_rate.value is None
    assert metrics.avg_steps.value is None
    assert (metrics.infrastructure_failures, metrics.crashed_rate.value) == (1, 1.0)


def test_replies_are_measured_in_characters():
    decisions = [reply("go back", GoBack()), reply("Klick ☃", Click("1"))]
    asked_twice = reply("", None)
    failed_call = reply("half a re", None, error="gone").model_calls
    asked_twice = reply("abc", Click("1"))
    asked_twice = type(asked_twice)(
        action=Click("1"), model_calls=(*failed_call, *asked_twice.model_calls)
    )
    metrics = overall(
        make_trajectory([GoBack(), Click("1")], decisions=decisions),
        make_trajectory([Click("1")], decisions=[asked_twice]),
        make_trajectory([Click("1")]),  # Nobody said anything.
    )
    assert metrics.avg_chars_per_response == Ratio(7 + 7 + 3, 3)
    assert (metrics.models.calls, metrics.models.failed_calls) == (4, 1)


def test_invalid_actions_count_also_where_they_end_the_episode():
    bad = InvalidAction("it is no action", "hm", "no_action")
    metrics = overall(
        make_trajectory(
            [bad, Click("1"), Click("2")],
            decisions=[
                reply("hm", bad, parse_error="it is no action"),
                reply("click", Click("1")),
                reply("?", Click("2"), parse_error="guessed"),
            ],
        ),
        make_trajectory([bad], outcome=O.UNKNOWN, reason=R.TRUNCATED, in_flight=reply("hm", bad)),
        make_trajectory(["up"]),  # Some other environment's action.
    )
    assert metrics.invalid_action_rate == Ratio(1 + 1 + 2, 3 + 2 + 1)


def test_failed_actions_are_counted_where_the_observation_says():
    metrics = overall(
        make_trajectory(
            [Click("1")] * 3, observations=[failed("hidden"), failed(), {"goal": "press"}]
        )
    )
    assert metrics.failed_action_rate == Ratio(1, 2)


def test_odd_rewards_are_counted_apart():
    metrics = overall(
        make_trajectory(reward=math.nan), make_trajectory(reward=math.inf), make_trajectory()
    )
    assert (metrics.reward.count, metrics.reward.mean, metrics.odd_rewards) == (1, 1.0, 2)


def test_tokens_and_cost_are_of_all_episodes():
    priced = reply("a", Click("1"), model="qwen3", usage=USAGE)
    other = reply("b", Click("1"), model="other", usage={"input_tokens": 7, "output_tokens": 3})
    episodes = [
        make_trajectory([Click("1")], decisions=[priced]),
        make_trajectory(
            [Click("1")], decisions=[other], outcome=O.ENV_ERROR, reason=R.ERRORED, in_flight=priced
        ),
    ]
    metrics = overall(*episodes, prices={"qwen*": Price(input=10.0, output=100.0)})
    use = metrics.models
    assert (use.calls, use.input_tokens, use.output_tokens) == (3, 207, 23)
    assert use.cost == pytest.approx(2 * (100 * 10 + 10 * 100) / 1e6)
    assert use.unpriced_calls == 1
    assert metrics.cost_per_success == pytest.approx(use.cost)
    assert overall(*episodes).models.cost is None
    assert overall(*episodes).cost_per_success is None


def test_steps_seconds_and_tokens_to_success_are_of_successes_alone():
    counted = reply("a", Click("1"), usage=USAGE)
    silent = reply("a", Click("1"))  # The server counted no tokens.
    metrics = overall(
        make_trajectory([Click("1")] * 2, decisions=[counted] * 2, seconds=3.0),
        make_trajectory([Click("1")] * 4, decisions=[counted] * 4, seconds=5.0),
        make_trajectory([Click("1")] * 3, decisions=[counted, silent, counted], seconds=7.0),
        make_trajectory([Click("1")] * 9, decisions=[counted] * 9, outcome=O.FAILURE),
    )
    assert (metrics.steps_to_success.count, metrics.steps_to_success.mean) == (3, 3.0)
    assert (metrics.seconds_to_success.count, metrics.seconds_to_success.mean) == (3, 5.0)
    assert (metrics.tokens_to_success.count, metrics.tokens_to_success.mean) == (2, 330.0)
    assert measure_trajectories([make_trajectory()]).overall.tokens_to_success.mean is None


def test_wall_time_is_when_anything_was_under_way():
    metrics = overall(
        make_trajectory(begun=100.0, seconds=10.0),
        make_trajectory(begun=105.0, seconds=10.0),  # At the same time,
        make_trajectory(begun=120.0, seconds=5.0),  # soon after,
        make_trajectory(begun=90_000.0, seconds=25.0),  # and the next day.
    )
    speed = metrics.throughput
    assert (speed.wall_seconds, speed.episode_seconds) == (50.0, 50.0)
    assert (speed.mean_parallel, speed.steps_per_second) == (1.0, 4 / 50)


def test_attempts_are_those_of_one_group_or_else_of_one_policy_at_one_task():
    episodes = [
        make_trajectory(group_id="g1", task="t"),
        make_trajectory(group_id="g2", task="t", outcome=O.FAILURE),
        make_trajectory(task="t", policy="one"),
        make_trajectory(task="t", policy="two", outcome=O.FAILURE),
        make_trajectory(task="t", policy="two"),
    ]
    metrics = overall(*episodes)
    assert shown(metrics.pass_at_k) == {1: (1 + 0 + 1 + 0.5, 4, 0), 2: (1.0, 1, 3)}
    assert shown(metrics.pass_hat_k) == {1: (1 + 0 + 1 + 0.5, 4, 0), 2: (0.0, 1, 3)}
    assert metrics.pass_at_k[1].num_tasks == 1
    assert metrics.pass_at_k[1].interval is None
    assert list(overall(*episodes, ks=[3, 1]).pass_at_k) == [1, 3]
    assert overall(*episodes, ks=[3]).pass_at_k[3].value is None


def test_attempts_at_one_task_with_different_seeds_are_different_groups():
    result = EpisodeResult(
        task="t", seed=1, attempt=0, episode_id="e", end_reason=EndReason.TERMINATED,
        outcome=Outcome.SUCCESS, num_steps=1, total_reward=1.0, seconds=1.0,
    )  # fmt: skip
    results = [
        dataclasses.replace(result, group=group, attempt=attempt)
        for group in (0, 1)
        for attempt in range(3)
    ]
    assert sorted(measure_results(results).overall.pass_at_k) == [1, 2]


def test_results_are_measured_as_they_come():
    def result(outcome, reason, *, task="t", reward=None, number=0):
        return EpisodeResult(
            task=task,
            seed=0,
            attempt=0,
            episode_id="",
            end_reason=reason,
            outcome=outcome,
            num_steps=2,
            total_reward=reward,
            seconds=1.5,
            number=number,
            level="easy",
        )

    results = [
        result(O.ENV_ERROR, R.ERRORED),
        result(O.SUCCESS, R.TERMINATED, reward=1.0, number=1),
        result(O.FAILURE, R.TRUNCATED, reward=0.0),
    ]
    report = measure_results(results, policy="p", seconds=3.0)
    assert report.overall.success_rate == Rate(1, 2)
    assert report.overall.retries == 1
    assert report.overall.throughput.episodes_per_second == 1.0
    assert report.overall.throughput.mean_parallel == 1.5
    assert report.overall.goback_rate.value is None  # No steps were read.
    assert report.by["level"] == {"easy": measure_results(results).overall}
    assert report.by["policy"]["p"].successes == 1


@pytest.mark.parametrize("actions", [[], ["a"], ["a", "a", "b", "b", "b", "a"]])
def test_repeats(actions):
    facts = step_facts(make_trajectory(actions))
    expected = {0: (0, 0), 1: (0, 1), 6: (3, 3)}[len(actions)]
    assert (facts.repeated, facts.longest_repeat) == expected


def test_actions_that_are_arrays_are_compared_too():
    import numpy as np

    facts = step_facts(make_trajectory([np.zeros(2), np.zeros(2), np.ones(2)]))
    assert (facts.repeated, facts.longest_repeat) == (1, 2)
    odd = np.zeros(2, dtype=[("x", "f8")])  # Comparing it with others raises.
    assert step_facts(make_trajectory([odd, odd, np.zeros(2)])).longest_repeat == 2


@pytest.mark.slow
@patient
@given(trajectories())
def test_whatever_an_episode_holds_it_is_measured(episode):
    facts = step_facts(episode)
    assert isinstance(facts, StepFacts)
    assert facts.invalid_choices <= facts.choices
    assert facts.go_backs + facts.dummies <= max(episode.num_steps, len(episode.steps))
    assert measure_trajectories([episode]).overall.total == 1
