"""A judgement can be made again from its record: with a model, and without."""

import dataclasses

import pytest

from webtraj import errors
from webtraj.agents.models import AnthropicClient, RetryPolicy
from webtraj.collectors.local import JsonTrajectoryCollector
from webtraj.datasets.dataset import open_dataset
from webtraj.judging import with_judgement
from webtraj.judging.model import replay, rerun
from webtraj.judging.model.votes import messages_of
from webtraj.testing.model_server import FakeModelServer
from webtraj.trajectory import Judgement, Outcome

TASK = {"name": "lamp", "goal": "Find the price.", "reference_answer": "12 dollars"}


@pytest.fixture
async def judgement(serve, make_judge, make_episode, judged):
    judge = make_judge(serve(judged(goal=["", "success"])), select_above=1)
    return await judge.judge(make_episode(task=TASK))


async def test_asking_again_asks_the_same(judgement, serve, make_judge, judged) -> None:
    server = serve(judged())
    again = await rerun(judgement, make_judge.client(server))
    assert again.agrees
    assert again.differences == ()
    # Broken replies are asked for again only if they are broken again.
    told = [messages_of(call) for call in judgement.model_calls]
    asked = [messages_of(call) for call in again.judgement.model_calls]
    assert len(told) == len(asked) + 1
    assert all(messages in told for messages in asked)
    assert replay(again.judgement) == again.judgement


async def test_what_was_not_asked_then_is_not_asked_now(
    serve, make_judge, make_episode, judged
) -> None:
    judge = make_judge(serve(judged(answer="failure")))
    failed = await judge.judge(make_episode(task=TASK))
    rule = judged()
    again = await rerun(failed, make_judge.client(serve(rule)))
    assert rule.asked == ["blocked", "answer"]
    assert (again.agrees, again.judgement.outcome) == (False, Outcome.JUDGE_ERROR)
    assert "It was not asked" in again.judgement.reason


async def test_anthropic_calls_can_be_asked_again_elsewhere(
    make_judge, make_episode, judged, serve
) -> None:
    with FakeModelServer(judged()) as server:
        client = AnthropicClient("fake-model", server.url, retries=RetryPolicy(max_retries=0))
        first = await make_judge(None, models=client).judge(make_episode(task=TASK))
    other = serve(judged())
    again = await rerun(first, make_judge.client(other))
    assert again.agrees
    assert other.requests[-1].images


async def test_stored_judgement_is_complete(
    judgement, make_episode, tmp_path, serve, make_judge, judged
) -> None:
    """Pictures, replies and all: what comes back from disk says the same."""
    episode = with_judgement(make_episode(task=TASK), judgement)
    collector = JsonTrajectoryCollector(tmp_path / "data")
    recorder = collector.begin_episode(episode.info)
    for step in episode.steps:
        recorder.record_step(step)
    recorder.end_episode(episode.end)
    await collector.aclose()
    (read,) = open_dataset(tmp_path / "data")
    (stored,) = read.end.judgements
    assert stored == judgement
    assert replay(stored) == stored
    assert (await rerun(stored, make_judge.client(serve(judged())))).agrees


def cut(judgement, number):
    findings = {**judgement.findings, "transcript": judgement.findings["transcript"][:number]}
    calls = judgement.model_calls[:number]
    return dataclasses.replace(judgement, findings=findings, model_calls=calls)


async def test_transcript_that_lacks_anything_gives_no_success(judgement) -> None:
    for number in range(2, len(judgement.model_calls)):  # The first two are about pictures.
        assert replay(cut(judgement, number)).outcome is Outcome.JUDGE_ERROR


async def test_replies_alone_make_the_outcome(judgement) -> None:
    claimed = dataclasses.replace(cut(judgement, 3), outcome=Outcome.SUCCESS, reward=1.0)
    assert replay(claimed).reward is None


@pytest.mark.parametrize(
    "damaged",
    [
        Judgement(judge="rules"),
        Judgement(judge="model", findings={"case": {}, "transcript": []}),
        Judgement(judge="model", findings={"case": 3, "transcript": []}),
    ],
    ids=["another judge's", "no case", "no mapping"],
)
async def test_judgement_without_transcript_is_told(damaged) -> None:
    with pytest.raises(errors.InvalidInputError, match="no transcript"):
        replay(damaged)
