"""Samples of Inspect logs, which need no inspect_ai to be made."""

import dataclasses

import orjson
import pytest

from webtraj.datasets.exporters.base import Ledger
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj_formats.exporters.inspect_ai import _Sample

EPISODE = EpisodeTrajectory(
    EpisodeInfo(episode_id="e1", goal="Buy tea"),
    (
        StepRecord(0, StepType.FIRST, "page"),
        StepRecord(1, StepType.LAST, "page", "click", 0.25, 0.0),
    ),
    EpisodeEnd(reason=EndReason.TERMINATED),
)


def sample(**changes):
    return _Sample(dataclasses.replace(EPISODE, **changes), Ledger(), True).sample()


UNDECIDED = Judgement(judge="model", reason="no idea")
DECIDED = Judgement(judge="rules", outcome=Outcome.SUCCESS, reward=1.0, reason="bought")


@pytest.mark.parametrize(
    ("judgements", "scores"),
    [
        ((DECIDED, UNDECIDED), {"outcome": {"value": "C", "explanation": "bought"},
                                "reward": {"value": 1.0}}),
        ((UNDECIDED, DECIDED), {"outcome": {"value": "C", "explanation": "bought"},
                                "reward": {"value": 1.0}}),
        ((UNDECIDED,), {"reward": {"value": 0.25}}),
    ],
)  # fmt: skip
def test_the_last_judgement_that_decided_is_the_score(judgements, scores):
    end = EPISODE.end
    for judgement in judgements:
        end = end.with_judgement(judgement)
    assert sample(end=end)["scores"] == scores


def test_odd_model_calls_are_written():
    messages = ({"role": "assistant", "content": "hm", "tool_calls": 5},)
    call = ModelCall(policy_version="7\ud800", messages=messages, text="click")
    step = dataclasses.replace(EPISODE.steps[1], decision=Decision(model_calls=(call,)))
    made = sample(steps=(EPISODE.steps[0], step))
    (event,) = [event for event in made["events"] if event["event"] == "model"]
    assert event["metadata"] == {"policy_version": "7?"}
    assert [part["text"] for part in event["input"][0]["content"]] == ["hm"]
    orjson.dumps(made)
