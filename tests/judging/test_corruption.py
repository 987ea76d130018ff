"""Corruptions know what they claim: each is checked against what the environment had shown."""

import dataclasses
from collections import Counter

import pytest
from corrupted_episodes import CORRUPTIONS, corrupt, corrupt_dataset

from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.environments import actions
from webtraj.environments.actions.recorded import final_answer
from webtraj.judging.base import is_judgeable
from webtraj.judging.environment import EnvironmentJudge
from webtraj.judging.quality import evaluate, read_labels, write_labels
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

FOREIGN = EpisodeInfo(task="other/buy", goal="Buy a lamp.", site="other")


def episode(*taken, shown=None, outcome=Outcome.SUCCESS) -> EpisodeTrajectory:
    """An episode whose environment shows success after the last action only, unless `shown`."""
    count = len(taken)
    shown = shown or [False] * count + [True]
    steps = [StepRecord(0, StepType.FIRST, {"goal": "Do it.", "info": {"success": shown[0]}})]
    for index, action in enumerate(taken, 1):
        kind = StepType.LAST if index == count else StepType.MID
        seen = {"goal": "Do it.", "info": {"success": shown[index], "raw_reward": 1.0}}
        steps.append(StepRecord(index, kind, seen, action, float(shown[index] or 0), 0.0))
    return EpisodeTrajectory(
        EpisodeInfo(episode_id="e1", task="t", goal="Do it.", site="here"),
        tuple(steps),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=outcome),
    )


CLICKS = [actions.Click(str(number)) for number in range(4)]
ANSWERED = [actions.Click("1"), actions.Answer("12")]


@pytest.mark.parametrize("kind", CORRUPTIONS)
async def test_nothing_is_left_that_gives_the_success_away(kind) -> None:
    whole = episode(*(ANSWERED if kind == "no-answer" else CLICKS))
    made = corrupt(whole, kind, foreign=FOREIGN)
    assert made is not None
    assert made == corrupt(whole, kind, foreign=FOREIGN)
    changed = made.trajectory
    assert is_judgeable(changed)
    assert changed.outcome is Outcome.UNKNOWN
    assert changed.total_reward == 0.0
    assert [step.index for step in changed.steps] == list(range(len(changed.steps)))
    assert changed.steps[-1].last
    assert not any(step.observation["info"]["success"] for step in changed.steps)
    assert made.label.outcome is Outcome.FAILURE
    assert made.label.episode_id == changed.episode_id == f"e1.{kind}"
    assert changed.info.derivation[-1].source_episode_id == "e1"
    assert (await EnvironmentJudge().judge(changed)).outcome is Outcome.UNKNOWN


def test_what_each_does() -> None:
    made = {
        kind: corrupt(episode(*CLICKS), kind, foreign=FOREIGN).trajectory
        for kind in CORRUPTIONS
        if kind != "no-answer"
    }
    assert [step.action for step in made["cut"].steps[1:]] == CLICKS[:2]
    assert final_answer(made["claimed"]) == "I have done what was asked for."
    assert [type(step.action) for step in made["idle"].steps[-2:]] == [actions.Click, actions.Wait]
    assert made["foreign-goal"].info.goal == "Buy a lamp."
    assert {step.observation["goal"] for step in made["foreign-goal"].steps} == {"Buy a lamp."}
    answer = corrupt(episode(*ANSWERED), "no-answer").trajectory
    assert final_answer(answer) == "I have no answer to that."


@pytest.mark.parametrize(
    ("kind", "whole"),
    [
        *((kind, episode(*CLICKS, outcome=Outcome.FAILURE)) for kind in CORRUPTIONS),
        *((kind, episode(*CLICKS, outcome=Outcome.UNKNOWN)) for kind in CORRUPTIONS),
        # The environment does not say whether it was done before.
        *((kind, episode(*CLICKS, shown=[None] * 5)) for kind in ("cut", "claimed", "idle")),
        # It was done before the last action.
        ("idle", episode(*CLICKS, shown=[False, False, False, True, True])),
        ("cut", episode(*CLICKS, shown=[False, True, True, True, True])),
        ("claimed", episode(*CLICKS, shown=[False, True, False, False, True])),
        ("cut", episode(CLICKS[0])),
        ("no-answer", episode(*CLICKS)),
        ("idle", episode(*ANSWERED)),
        ("foreign-goal", episode(*ANSWERED)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_is_not_claimed(kind, whole) -> None:
    assert corrupt(whole, kind, foreign=FOREIGN) is None


def test_a_goal_of_the_same_site_is_not_foreign() -> None:
    whole = episode(*CLICKS)
    assert corrupt(whole, "foreign-goal") is None
    for site in ("here", ""):
        near = dataclasses.replace(FOREIGN, site=site)
        assert corrupt(whole, "foreign-goal", foreign=near) is None


def test_an_unknown_corruption_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="expected one of cut, claimed"):
        corrupt(episode(*CLICKS), "melt")


async def test_real_successes_corrupted(labelled_dataset, tmp_path) -> None:
    some = labelled_dataset.dataset.filter(
        lambda summary: summary.site == "fixture" or summary.seed % 2 == 0, policy="oracle"
    )
    with DatasetWriter(tmp_path / "bad") as writer:
        labels = corrupt_dataset(some, writer)
    assert verify(tmp_path / "bad").clean
    dataset = open_dataset(tmp_path / "bad")
    assert set(dataset.episode_ids) == set(labels)
    counts = Counter(label.source for label in labels.values())
    assert counts.keys() == {f"corruption/{kind}" for kind in CORRUPTIONS}
    assert sum(counts.values()) >= 80
    write_labels(tmp_path / "labels.jsonl", labels.values())
    assert read_labels(tmp_path / "labels.jsonl") == labels
    report = await evaluate(EnvironmentJudge(), dataset, labels)
    assert report.overall.judged == len(labels)
    assert report.overall.given == 0  # Nothing in the record says what the label says.
