"""Judged by a model that goes by rules, labelled episodes get the verdicts that the rules deserve.

The model is a fake; all else is real: episodes that a browser played, HTTP, and quoted evidence,
which is all that its rules know. They read how the episode ended, what was done, and what was
answered; so they are right on most episodes, and wrong on some that end by a wrong click.
"""

import asyncio
import dataclasses
import hashlib
import re
from collections import Counter

import pytest

from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.judging.model import JudgeSettings, ModelJudge, replayed
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.trajectory import Outcome

GIVEN = (Outcome.SUCCESS, Outcome.FAILURE)
FACTS = ("What the task asks for was done.", "It was done, or it was undone and then done again.")
BROKEN = (
    Reply(""),
    Reply("SUCCESS"),
    Reply("I'm sorry, I can't judge that."),
    Reply('{"reasoning": "All was seen.", "verdict": "succ'),
    Reply('{"reasoning": "All was seen.", "verdict": "success"}', finish_reason="length"),
    Reply('{"reasoning": "All was seen.", "verdict": "Success"}'),
    Reply('{"reasoning": "No.", "verdict": "failure", "verdict": "success"}'),
    Reply('Verdict: {"reasoning": "All was seen.", "verdict": "success"}'),
    Reply('{"reasoning": "Verdict: failure", "verdict": "success"}'),
)
CLAIM = "I have done what was asked for."
FENCED = re.compile(
    r"^<<<(?!end )([0-9a-f]{16}) (.*)>>>\n((?:\| .*\n)*)<<<end \1>>>$", re.MULTILINE
)


def blocks(text: str) -> dict[str, str]:
    """Returns what is quoted, by its label."""
    return {label: re.sub("(?m)^[|] ", "", said) for _, label, said in FENCED.findall(text)}


def was_done(quoted: dict[str, str]) -> bool:
    """The rules: it ended by itself, not by a claim, and after more than one step where needed."""
    steps = quoted["steps"].splitlines()
    done = [line for line in steps if re.match(r"Step [1-9]", line)]
    several = re.match("(Enter|Type|Select|Expand) ", quoted["task"])
    cut_off = steps[-1].startswith("Then the episode was cut off")
    claimed = quoted.get("final answer of the agent", "").strip() == CLAIM
    return not cut_off and not claimed and (len(done) > 1 or not several)


class RuleBacked:
    """The model. Of its replies, some share is broken, always the same ones."""

    def __init__(self, judged, verdict_reply, share: float) -> None:
        self.kind, self.reply, self.share = judged.kind, verdict_reply, share
        self.broken = 0

    def __call__(self, request):
        digest = hashlib.sha256(request.body).digest()
        if digest[0] < 256 * self.share:
            self.broken += 1
            return BROKEN[digest[1] % len(BROKEN)]
        kind = self.kind(request)
        if kind in ("screenshot", "blocked", "answer"):
            words = {"screenshot": "keep", "blocked": "open", "answer": "success"}
            return self.reply(words[kind])
        return self.reply("success" if was_done(blocks(request.text)) else "failure")


def with_facts(episode):
    """Gives the episode a task with facts, whose name says nothing of its worth."""
    group = {"id": "", "description": "", "facts": [{"description": fact} for fact in FACTS]}
    task = {"name": episode.info.task, "goal": episode.info.goal, "facts": [group]}
    info = dataclasses.replace(episode.info, metadata={**episode.info.metadata, "task": task})
    return dataclasses.replace(episode, info=info)


async def judge_all(episodes, rule, **settings):
    """Returns the judgements by episode."""
    with FakeModelServer(rule, vendor="openai") as server:
        client = OpenAICompatibleClient(
            "fake-model", server.url, kind="openai", retries=RetryPolicy(max_retries=0)
        )
        turns = asyncio.Semaphore(8)
        async with ModelJudge(client, settings=JudgeSettings(**settings)) as judge:

            async def one(episode):
                async with turns:
                    return await judge.judge(episode)

            judgements = await asyncio.gather(*map(one, episodes))
        assert not server.errors
    ids = (episode.episode_id for episode in episodes)
    return dict(zip(ids, judgements, strict=True))


@pytest.fixture(scope="module")
def episodes(labelled_dataset):
    """All labelled episodes; each second one of a task with facts."""
    labelled = [e for e in labelled_dataset.dataset if e.episode_id in labelled_dataset.labels]
    return [with_facts(e) if number % 2 else e for number, e in enumerate(labelled)]


async def test_verdicts_agree_with_labels_and_broken_replies_change_none(
    episodes, labelled_dataset, judged, verdict_reply
) -> None:
    labels = labelled_dataset.labels
    assert len(episodes) >= 300
    sound = RuleBacked(judged, verdict_reply, 0.0)
    found = await judge_all(episodes, sound, select_above=2)
    outcomes = {name: judgement.outcome for name, judgement in found.items()}
    assert set(outcomes.values()) <= set(GIVEN)
    pairs = Counter((outcomes[name], labels[name]) for name in outcomes)
    right = pairs[GIVEN[0], GIVEN[0]] + pairs[GIVEN[1], GIVEN[1]]
    assert right / len(outcomes) >= 0.94, pairs
    assert pairs[Outcome.FAILURE, Outcome.SUCCESS] <= 3, pairs
    asked = Counter(q["question"] for j in found.values() for q in j.findings["questions"])
    assert min(asked["goal"], asked["fact/0"], asked["answer"], asked["blocked"]) >= 50
    assert any(len(j.findings["screenshots"]["of"]) > 2 for j in found.values())

    faulty = RuleBacked(judged, verdict_reply, 0.2)
    disturbed = await judge_all(episodes, faulty, select_above=2, retries=1)
    calls = sum(len(judgement.model_calls) for judgement in disturbed.values())
    assert 0.15 < faulty.broken / calls < 0.25
    errors = 0
    for name, judgement in disturbed.items():
        assert judgement.outcome in (outcomes[name], Outcome.JUDGE_ERROR)
        assert replayed(judgement) == judgement
        errors += judgement.outcome is Outcome.JUDGE_ERROR
    assert 0 < errors < 0.25 * len(episodes)  # Nearly all is healed by asking again.
    given = {name: j.outcome for name, j in disturbed.items() if j.outcome in GIVEN}
    agreed = sum(labels[name] is outcome for name, outcome in given.items())
    assert agreed / len(given) >= 0.94
