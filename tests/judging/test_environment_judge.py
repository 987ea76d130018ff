"""The environment judge says what the environment found, and nothing else."""

import dataclasses

import numpy as np

from rows import each
from webtraj.judging.base import FirstKnown, with_judgement
from webtraj.judging.environment import EnvironmentJudge
from webtraj.judging.rules import RuleJudge, make_rules
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    Outcome,
    StepRecord,
    StepType,
)

S, F, B, E, U = (
    Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR, Outcome.UNKNOWN
)  # fmt: skip


def episode(outcome=U, shown=None, reward=0.0) -> EpisodeTrajectory:
    observation = {} if shown is None else {"info": {"success": shown}}
    steps = (
        StepRecord(0, StepType.FIRST, observation),
        StepRecord(1, StepType.LAST, observation, "a", reward, 0.0),
    )
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome)
    return EpisodeTrajectory(EpisodeInfo(task="t"), steps, end)


@each(
    ("recorded", "shown", "outcome"),
    [
        (S, True, S),
        (S, np.True_, S),
        (S, None, S),
        (F, False, F),
        (F, None, F),
        (B, False, B),
        (E, None, E),
        (U, True, S),
        (U, False, U),  # Tasks that nobody judges show that too.
        (U, None, U),
        (U, "yes", U),
        (S, False, E),
        (F, True, E),
    ],
)
async def test_outcome_and_observation(recorded, shown, outcome) -> None:
    found = await EnvironmentJudge().judge(episode(recorded, shown))
    assert found.outcome is outcome
    assert found.reward == {S: 1.0, F: 0.0}.get(outcome)
    assert found.reason


@each(
    ("reward", "outcome"),
    [(1.0, S), (2, S), (0.99, F), (-1.0, F), (np.nan, E), ("x", E), (None, U)],
)
async def test_rewards_alone_count_where_a_success_is_said_to_be_one(reward, outcome) -> None:
    trajectory = episode(reward=reward)
    assert (await EnvironmentJudge().judge(trajectory)).outcome is U
    judge = EnvironmentJudge(success_reward=1.0)
    assert (await judge.judge(trajectory)).outcome is outcome
    assert judge.version != EnvironmentJudge().version


async def test_what_other_judges_found_is_not_the_environments() -> None:
    judge = EnvironmentJudge()
    other = Judgement(judge="model", outcome=S)
    assert (await judge.judge(with_judgement(episode(F), other))).outcome is U
    unsure = with_judgement(episode(F), dataclasses.replace(other, outcome=U))
    assert (await judge.judge(unsure)).outcome is F
    own = with_judgement(episode(F), await judge.judge(episode(F)))
    assert (await judge.judge(with_judgement(own, other))).outcome is F


async def test_the_first_that_has_an_opinion() -> None:
    rules = RuleJudge(make_rules([{"tasks": "t", "success": {"answered": False}}]))
    judge = FirstKnown([EnvironmentJudge(), rules])
    assert judge.name == "environment+rules"
    first = await judge.judge(episode(F))
    assert (first.outcome, first.findings["by"]) == (F, "environment")
    second = await judge.judge(episode())
    assert (second.outcome, second.findings["by"]) == (S, "rules")
    assert first.version == second.version == judge.version
    error = await judge.judge(episode(F, True))
    assert error.outcome is E  # That the first one failed is not hidden by the next.
    neither = await FirstKnown([EnvironmentJudge(), RuleJudge()]).judge(episode())
    assert neither.outcome is U
    assert "environment: " in neither.reason
    assert "rules: " in neither.reason
