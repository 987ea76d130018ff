"""A model judge on a real vLLM of random weights: what weights without sense bring about.

Whatever it says, an episode is a success only if its words were, one by one; gibberish is no
verdict; and what is stored says it all again.
"""

import json
import subprocess
import sys
from collections import Counter

import pytest
import pytest_asyncio
import text_shop
from vllm_server import client_of

from webtraj import open_dataset
from webtraj.datasets.verification import verify
from webtraj.judging.model import JudgeSettings, ModelJudge, replay
from webtraj.judging.model.prompts import load_prompts
from webtraj.trajectory import Outcome

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1200)]

EVIDENCE = {"page_characters": 300}
GIVEN = {Outcome.SUCCESS, Outcome.FAILURE, Outcome.BLOCKED, Outcome.JUDGE_ERROR}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def played(tmp_path_factory):
    """A few episodes, each policy's."""
    folder = tmp_path_factory.mktemp("played")
    await text_shop.play(folder, range(6))
    return folder


async def judge_all(client, dataset, **settings):
    async with ModelJudge(client, settings=JudgeSettings(**EVIDENCE, **settings)) as judge:
        return {episode.episode_id: await judge.judge(episode) for episode in dataset}


def webtraj(*arguments):
    result = subprocess.run(
        [sys.executable, "-m", "webtraj", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


async def test_gibberish_is_always_a_judge_error(text_server, played):
    settings = {"structured": False, "temperature": 1.0, "max_tokens": 48, "retries": 1}
    client = client_of(text_server)
    judgements = await judge_all(client, open_dataset(played), **settings)
    assert len(judgements) == 6
    for judgement in judgements.values():
        assert judgement.outcome is Outcome.JUDGE_ERROR
        assert judgement.reward is None
        assert len(judgement.model_calls) == 2  # It was asked for again, in vain.
        assert all(call.text and not call.error for call in judgement.model_calls)
        assert not judgement.findings["unanswered"]  # It did answer: the verdict stands.
        assert replay(judgement) == judgement


async def test_form_alone_makes_no_success(text_server, played):
    """Random words in the right form: each has to be right for its question, and none is lost."""
    settings = {"temperature": 2.0, "max_tokens": 512, "retries": 0, "check_blocked": False}
    client = client_of(text_server)
    judgements = await judge_all(client, open_dataset(played), **settings)
    words = load_prompts().words
    ended = Counter()
    for judgement in judgements.values():
        assert judgement.outcome in GIVEN
        assert replay(judgement) == judgement
        said = {}
        entries = judgement.findings["transcript"]
        for entry, call in zip(entries, judgement.model_calls, strict=True):
            ended[call.finish_reason] += 1
            if call.finish_reason != "stop":
                assert call.finish_reason == "length"
                continue
            reply = json.loads(call.text)
            assert list(reply) == ["reasoning", "verdict"]
            assert reply["verdict"] in entry["words"]
            said[entry["question"]] = reply["verdict"] if reply["reasoning"].strip() else ""
        assert all(entry["words"] in map(list, words.values()) for entry in entries)
        if judgement.outcome is Outcome.SUCCESS:
            assert "goal" in said
            assert set(said.values()) == {"success"}
            assert len(said) == len(entries) == len(judgement.findings["questions"])
        elif judgement.outcome is Outcome.FAILURE:
            assert "failure" in said.values()
        else:
            assert judgement.reward is None
    assert ended["stop"] > 0
    print(f"{dict(ended)}; {dict(Counter(one.outcome.name for one in judgements.values()))}")


async def test_stored_verdicts_are_made_again_from_their_transcripts(text_server, played, tmp_path):
    judged = tmp_path / "judged"
    asked = ["--model", text_server.model, "--base-url", text_server.base_url]
    options = {**EVIDENCE, "max_tokens": 64, "retries": 0, "structured": False}
    settings = [f"--set=judge.options={json.dumps(options)}"]
    webtraj("postprocess", "--read", played, "--write", judged, "--step=judge", *asked, *settings)
    assert verify(judged).clean
    dataset = open_dataset(judged)
    assert len(dataset) == 6
    for number, episode in enumerate(dataset):
        assert episode.end.outcome is Outcome.JUDGE_ERROR
        assert episode.end.judgements[-1].model_calls
        if number < 2:  # The first asks no model, the second one that is there still.
            ways = ["--replay"] if number == 0 else asked
            told = json.loads(
                webtraj("judge", "rerun", judged, episode.episode_id, "--json", *ways)
            )
            assert (told["same"], told["now"]) == (True, "judge_error")
