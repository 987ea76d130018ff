"""Inspect logs: written by `webtraj export` beside inspect_ai, read and scored by `inspect`.

inspect_ai needs an older click than webtraj's own environment has, so both commands run in
`.venv-inspect` (made by `make test-peers`), or where `WEBTRAJ_INSPECT_PYTHON` says.
"""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest

from export_episodes import picture

ROOT = Path(__file__).parents[4]
PYTHON = Path(os.environ.get("WEBTRAJ_INSPECT_PYTHON", ROOT / ".venv-inspect/bin/python"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="needs .venv-inspect, or WEBTRAJ_INSPECT_PYTHON"
    ),
]

SCORER = """
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import TaskState


@scorer(metrics=[accuracy()])
def filled() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        replies = [message for message in state.messages if message.role == "assistant"]
        calls = [call for message in replies for call in message.tool_calls or ()]
        made = [call.arguments.get("value") for call in calls if call.function == "fill"]
        return Score(value=CORRECT if made else INCORRECT, explanation=repr(made))

    return score
"""


def run(command, *arguments, **variables):
    done = subprocess.run(
        [PYTHON.parent / command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def exported(dataset, out, *options):
    """Exports a dataset with the command of that environment; returns its logs, oldest first."""
    run("webtraj", "export", dataset.path, "--format", "inspect", "--out", out, *options)
    return sorted(out.glob("*.eval"))


def dump(log, *options):
    return json.loads(run("inspect", "log", "dump", *options, log))


@pytest.fixture(scope="module")
def shop_log(shop, tmp_path_factory):
    (log,) = exported(shop, tmp_path_factory.mktemp("inspect") / "shop")
    return log


def test_an_episode_is_a_sample_with_its_conversation(shop, shop_log):
    log = dump(shop_log, "--resolve-attachments", "full")
    assert (log["status"], log["eval"]["task"], log["eval"]["model"]) == (
        "success", "shop", "vllm/tiny",
    )  # fmt: skip
    assert [sample["uuid"] for sample in log["samples"]] == list(shop.episode_ids)
    sample = log["samples"][0]
    assert sample["input"] == "Buy tea"
    assert sample["metadata"]["task"] == "shop/tea"
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["user", *["assistant", "tool"] * shop[0].num_steps]
    goal, _, _, reply, result, *_ = sample["messages"]
    shown = goal["content"][-1]["image"].removeprefix("data:image/png;base64,")
    assert base64.b64decode(shown) == picture(0)
    assert reply["content"] == [
        {"type": "reasoning", "reasoning": "thought 2", "redacted": False},
        {"type": "text", "text": "I click 2"},
    ]
    (call,) = reply["tool_calls"]
    assert (call["function"], call["arguments"]["value"]) == ("fill", "tea\n'\"ü")
    assert result["tool_call_id"] == call["id"]
    assert result["content"][0]["text"] == "https://shop.example/2"


def test_the_transcript_has_model_calls_and_actions_at_their_times(shop, shop_log):
    sample = dump(shop_log, "--resolve-attachments", "full")["samples"][0]
    models = [event for event in sample["events"] if event["event"] == "model"]
    tools = [event for event in sample["events"] if event["event"] == "tool"]
    assert len(models) == 4
    assert [event.get("error") for event in models] == ["overloaded", None, None, None]
    assert [event["function"] for event in tools] == ["click", "fill", "click", "answer"]
    reply = models[1]
    assert reply["output"]["choices"][0]["message"]["content"] == "I click 2"
    assert reply["output"]["choices"][0]["stop_reason"] == "stop"
    assert reply["output"]["usage"]["input_tokens"] == 3
    assert reply["config"]["temperature"] == 0.5
    assert sample["model_usage"]["vllm/tiny"]["total_tokens"] == 15
    began = tools[0]["working_start"] + shop[0].start_time
    assert abs(began - shop[0].steps[1].start_time) < 1e-3


def test_rewards_and_outcomes_are_scores_and_an_unscored_episode_has_none(shop, shop_log):
    log = dump(shop_log)
    done, closed = log["samples"]
    assert {name: score["value"] for name, score in done["scores"].items()} == {
        "outcome": "C", "reward": shop[0].total_reward,
    }  # fmt: skip
    assert not closed.get("scores")
    assert not closed.get("error")
    outcome, reward = log["results"]["scores"]
    assert (outcome["metrics"]["accuracy"]["value"], outcome["unscored_samples"]) == (1.0, 1)
    assert reward["metrics"]["mean"]["value"] == shop[0].total_reward


def test_what_the_machinery_broke_is_an_error_and_no_zero(wrecks, tmp_path):
    (log,) = exported(wrecks, tmp_path / "wrecks")
    log = dump(log)
    assert log["results"]["completed_samples"] == 0
    for sample in log["samples"]:
        episode = wrecks[sample["uuid"]]
        assert not sample.get("scores")
        kind = (episode.outcome or episode.end_reason).name.lower()
        assert sample["error"]["message"].startswith(kind)
        if episode.end.error is not None:
            assert episode.end.error.message in sample["error"]["message"]


def test_inspect_lists_and_scores_the_log(shop_log, tmp_path):
    (listed,) = json.loads(run("inspect", "log", "list", "--json", "--log-dir", shop_log.parent))
    assert listed["task"] == "shop"
    scorer = tmp_path / "scorers.py"
    scorer.write_text(SCORER)
    scored = tmp_path / "scored.eval"
    run(
        "inspect", "score", shop_log, "--scorer", f"{scorer}@filled", "--action", "append",
        "--output-file", scored, "--display", "none", "--model", "none/none",
    )  # fmt: skip
    scores = dump(scored)["samples"][0]["scores"]
    assert scores["filled"]["value"] == "C"
    assert scores["outcome"]["value"] == "C"
