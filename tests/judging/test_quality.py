"""Judges beside labels: the numbers, and judges without a model on real episodes."""

import dataclasses
import json
from pathlib import Path

import pytest

from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.writer import DatasetWriter
from webtraj.judging.environment import EnvironmentJudge
from webtraj.judging.quality import Confusion, Label, evaluate, labels_of_dataset
from webtraj.judging.rules import RuleJudge
from webtraj.store.layout import DatasetLayout
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
RULES = Path(__file__).with_name("rules.yaml")


def test_the_numbers_by_hand() -> None:
    found = Confusion({(S, S): 20, (S, F): 5, (F, S): 10, (F, F): 15, (S, E): 5, (F, U): 5})
    assert (found.judged, found.given) == (60, 50)
    assert (found.agreement.numerator, found.agreement.denominator) == (35, 50)
    assert found.coverage.value == 50 / 60
    assert found.precision.value == 20 / 30
    assert found.recall.value == 20 / 30  # Of all 30, the five without a verdict included.
    assert found.f1 == pytest.approx(2 / 3)
    # Agreement 0.7; by chance 25/50 · 30/50 + 25/50 · 20/50 = 0.5.
    assert found.kappa == pytest.approx(0.4)
    assert found.agreement.interval == pytest.approx((0.5625, 0.8090), abs=1e-4)


def test_what_is_not_defined_is_none() -> None:
    for counts in ({}, {(S, E): 3}):
        found = Confusion(counts)
        assert found.agreement.value is found.precision.value is found.f1 is found.kappa is None
    same = Confusion({(S, S): 3})
    assert (same.agreement.value, same.f1, same.kappa) == (1.0, 1.0, None)
    assert Confusion({(S, F): 2, (F, S): 2}).kappa == -1.0
    assert Confusion({(S, F): 2, (F, S): 2}).f1 == 0.0


def test_errors_and_blocks_have_columns_of_their_own() -> None:
    data = Confusion({(S, E): 2, (B, B): 1, (F, U): 3}).to_data()
    assert data["confusion"]["success"] == {
        "success": 0, "failure": 0, "blocked": 0, "judge_error": 2, "unknown": 0
    }  # fmt: skip
    assert data["confusion"]["blocked"]["blocked"] == 1
    assert data["confusion"]["failure"]["unknown"] == 3


class ByName:
    """Says what the episode's id says."""

    name = "by-name"
    version = "1"

    async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
        verdict = Outcome[trajectory.episode_id.partition("-")[0].upper()]
        return Judgement(judge=self.name, outcome=verdict, reason="It is called so.")


def write(path: Path, *episode_ids: str, reason=EndReason.TERMINATED) -> None:
    with DatasetWriter(path) as writer:
        for episode_id in episode_ids:
            steps = (StepRecord(0, StepType.FIRST, {}), StepRecord(1, StepType.LAST, {}, "a", 0.0))
            info = EpisodeInfo(episode_id=episode_id, task=episode_id[-1])
            writer.add(EpisodeTrajectory(info, steps, EpisodeEnd(reason=reason)))


async def test_every_label_is_accounted_for(tmp_path) -> None:
    write(tmp_path, "success-a", "failure-b", "judge_error-b", "success-unlabelled", "success-x")
    write(tmp_path, "success-errored", reason=EndReason.ERRORED)
    DatasetLayout(tmp_path).episode("success-x", "json").write_bytes(b"torn")
    labels = {
        episode_id: Label(episode_id, S, "anna")
        for episode_id in (
            "success-a", "failure-b", "judge_error-b", "success-x", "success-errored", "gone"
        )
    }  # fmt: skip
    seen = []
    report = await evaluate(
        ByName(), open_dataset(tmp_path), labels, parallel=2, judged=lambda *each: seen.append(each)
    )
    assert report.overall.counts == {(S, S): 1, (S, F): 1, (S, E): 1}
    assert len(seen) == 3
    assert report.missing == ("gone",)
    assert report.unjudgeable == ("success-errored",)
    assert report.unreadable == ("success-x",)
    assert {task: found.judged for task, found in report.by_task.items()} == {"a": 1, "b": 2}
    assert [found.episode_id for found in report.disagreements] == ["failure-b", "judge_error-b"]
    assert json.loads(json.dumps(report.to_data()))["disagreements"][0]["verdict"] == "failure"


async def test_a_judge_that_cannot_judge_is_told_at_once(tmp_path) -> None:
    class Unusable(ByName):
        async def judge(self, trajectory: EpisodeTrajectory) -> Judgement:
            raise errors.InvalidInputError("no such model")

    write(tmp_path, "success-a", "success-b")
    labels = {"success-a": Label("success-a", S), "success-b": Label("success-b", S)}
    dataset = open_dataset(tmp_path)
    with pytest.raises(errors.InvalidInputError, match="no such model"):
        await evaluate(Unusable(), dataset, labels)
    with pytest.raises(errors.InvalidInputError, match="There are no labels"):
        await evaluate(ByName(), dataset, {})
    with pytest.raises(errors.InvalidInputError, match="parallel"):
        await evaluate(ByName(), dataset, labels, parallel=0)


async def test_the_environment_judge_agrees_with_all_real_labels(labelled_dataset) -> None:
    labels = labels_of_dataset(labelled_dataset.dataset)
    report = await evaluate(EnvironmentJudge(), labelled_dataset.dataset, labels)
    assert report.overall.judged == len(labels) >= 300
    assert report.overall.agreement.value == report.overall.coverage.value == 1.0
    assert report.overall.kappa == report.overall.f1 == 1.0
    assert report.disagreements == report.missing == report.unjudgeable == report.unreadable == ()


@pytest.mark.slow
async def test_rules_find_what_the_environment_knows(labelled_dataset) -> None:
    labels = labels_of_dataset(labelled_dataset.dataset)
    judge = RuleJudge(RULES)
    report = await evaluate(judge, labelled_dataset.dataset, labels)
    covered = {
        task: found
        for task, found in report.by_task.items()
        if any(rule.fits(task) for rule in judge.rules)
    }
    assert len(covered) >= 20
    assert all(found.coverage.value == 1.0 for found in covered.values())
    assert report.overall.given == sum(found.judged for found in covered.values()) >= 100
    assert report.overall.agreement.value >= 0.97
    assert report.overall.precision.value >= 0.97
    assert report.overall.kappa >= 0.93
    uncovered = report.overall.count(verdict=U)
    assert uncovered == report.overall.judged - report.overall.given


async def test_rules_without_their_channels_judge_nothing(labelled_dataset) -> None:
    """The same episodes without what the rules look at: no verdict, and never a success."""
    labels = labels_of_dataset(labelled_dataset.dataset)
    judge, verdicts = RuleJudge(RULES), set()
    for summary in labelled_dataset.dataset.filter(outcome=S, policy="oracle").summaries[::4]:
        assert summary.episode_id in labels
        trajectory = labelled_dataset.dataset[summary.episode_id]
        steps = tuple(
            dataclasses.replace(step, observation={"goal": step.observation["goal"]})
            for step in trajectory.steps
        )
        found = await judge.judge(dataclasses.replace(trajectory, steps=steps))
        verdicts.add(found.outcome)
    assert verdicts <= {E, U}
    assert E in verdicts
