"""Samples that a model was really asked for, pictures included, in every format and back."""

import asyncio
import dataclasses
import io
import json
import re

import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from webtraj import errors
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.cli.app import make_app
from webtraj.datasets.exporters.base import read_manifest
from webtraj.rollouts import RunSpec, collect
from webtraj.runs.plan import plan_episodes
from webtraj.testing.model_server import FakeModelServer
from webtraj.training.export import FORMATS, export_selection, make_format
from webtraj.training.export.pictures import PictureReader
from webtraj.training.export.preferences import preferences_of
from webtraj.training.replay import Filters, ReplayBuffer

pytestmark = pytest.mark.browser
PAIRED = ("preferences", "trl-preferences")
EVERYTHING = Filters(min_steps=1, distinct=False, filter_successful_only=False)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A task with two seeds, four attempts each: half of them click the wrong button."""
    folder = tmp_path_factory.mktemp("played") / "d"
    asked = []

    def reply(request):
        asked.append(request)
        goal = re.search("Task: (.*)", request.text)[1]
        buttons = re.findall(r'\[(\w+)\] button "([^"]*)"', request.text)
        buttons.sort(key=lambda button: button[1] in goal)
        ref, name = buttons[-(len(asked) % 2)]
        return f"Thought: it is {name}.\nAction: click('{ref}')"

    async def play():
        client = OpenAICompatibleClient(
            "fake-model", server.url, retries=RetryPolicy(max_retries=0)
        )
        plan = [
            dataclasses.replace(planned, seed=planned.row // 4)
            for planned in plan_episodes("miniwob/click-test-2", episodes=8)
        ]
        agent = ModelAgent(client=client, context=ContextSettings(mode="text", images=True))
        try:
            await collect(
                RunSpec(
                    parallel=1,
                    out=folder,
                    environment_options={"observe": [*agent.channels, "info"]},
                ),
                tasks=plan,
                agent=agent,
            )
        finally:
            await agent.aclose()

    with FakeModelServer(reply) as server:
        asyncio.run(play())
    return folder, asked


@pytest.fixture(scope="module")
def buffer(played):
    return ReplayBuffer.from_datasets(played[0], filters=EVERYTHING)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_back_what_the_model_was_sent(name, buffer, tmp_path):
    selection = buffer.all
    if name not in ("tokens", *PAIRED):
        selection = selection.positive()
    report = export_selection(selection, tmp_path / "x", format=name)
    split = report.splits["train"]
    assert split.left_out == {}
    assert split.samples == (8 if name == "tokens" else 2 if name in PAIRED else 4)
    made = make_format(name)
    reader = PictureReader(tmp_path / "x")
    back = [made.sample_of(row, reader) for row in made.read(tmp_path / "x", "train")]
    by_key = {sample.key: sample for sample in selection}
    for sample in back:
        wanted = by_key[sample.key]
        if name == "tokens":
            assert sample.prompt_token_ids == wanted.prompt_token_ids
            assert sample.logprobs == wanted.logprobs
            assert sample.temperature == wanted.temperature
        else:
            assert sample.messages == wanted.messages
            assert sample.completion == wanted.completion
            (picture,) = (p for m in sample.messages for p in m.parts if hasattr(p, "data"))
            with Pillow.open(io.BytesIO(picture.data)) as opened:
                opened.load()
    header, episodes = read_manifest(tmp_path / "x")
    assert header["origin"]["datasets"][0]["place"]
    assert header["origin"]["splits"]["train"]["sha256"] == selection.sha256
    assert all(len(line["sha256"]) == 64 for line in episodes)


def test_what_is_exported_is_what_the_server_was_asked(played, buffer, tmp_path):
    _, asked = played
    export_selection(buffer.all.positive(), tmp_path / "x")
    rows = json.loads((tmp_path / "x/finetune_train.json").read_text())
    texts = {request.text for request in asked}
    for row in rows:
        said = row["conversations"][0]["value"].replace("<image>", "")
        assert any(all(line in text for line in said.splitlines()) for text in texts)
        assert row["conversations"][-1]["value"].startswith("Thought: it is ")


def test_pairs_are_a_success_and_a_failure_by_the_same_prompt(buffer, tmp_path):
    preferences = preferences_of(buffer.all)
    assert preferences.counts == {
        "groups": 1,
        "groups_without_pairs": 0,
        "pairs": 2,
        "prompts": 2,
        "prompts_with_one_reply": 0,
        "prompts_without_contrast": 0,
        "samples_of_failed_groups": 0,
        "samples_without_reward": 0,
    }
    export_selection(buffer.all, tmp_path / "x", format="preferences")
    rows = json.loads((tmp_path / "x/finetune_train.json").read_text())
    rewards = {f"{s.key.episode_id}/{s.key.step}/0": s.reward for s in buffer.all}
    for row in rows:
        assert (rewards[row["sample"]], rewards[row["rejected_sample"]]) == (1.0, 0.0)
        assert row["margin"] == 1.0
        assert row["chosen"]["value"] != row["rejected"]["value"]
        assert len(row["conversations"]) % 2 == 1
    info = json.loads((tmp_path / "x/dataset_info.json").read_text())["webtraj_train"]
    assert info["ranking"] is True
    assert (info["columns"]["chosen"], info["columns"]["rejected"]) == ("chosen", "rejected")


def test_the_command_exports_splits_and_previews(played, tmp_path):
    def run(*words, code=0):
        result = CliRunner().invoke(make_app(), ["train", *map(str, words)])
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    folder = played[0]
    out = tmp_path / "x"
    said = run(
        "export", folder, "--format", "sharegpt", "--out", out, "--filter", "min_steps=1",
        "--filter", "distinct=false", "--set", "cutoff_len=100000",
    )  # fmt: skip
    assert re.search(r"skipped +not successful +4\n", said)
    assert "train: 4 rows (4 of 4 samples, 4 of 8 episodes); 2 pictures; 4 left out: not" in said
    shown = run("preview", out, "--samples", 1, "--skip", 1)
    assert "Thought: it is " in shown
    assert re.search(r"\[PNG \d+x\d+, [\d,]+ bytes, [0-9a-f]{12}\]", shown) or "JPEG" in shown
    assert "reward 1.0" not in shown  # ShareGPT does not hold it.
    assert "prompt tokens" in run("preview", folder)

    tokens = tmp_path / "tokens"
    said = run(
        "export", "--format", "tokens", "--out", tokens, "--samples", "6", "--seed", "3",
        "--filter", "min_steps=1", folder,
    )  # fmt: skip
    header, _ = read_manifest(tokens)
    assert header["splits"]["train"]["rows"] == 6
    assert header["origin"]["splits"]["train"]["selection"]["num_samples"] == 6
    assert header["origin"]["seed"] == 3
    with pytest.raises(errors.InvalidInputError, match="no split 'test'"):
        run("preview", tokens, "--split", "test")

    pages = ["export", str(folder), "--format", "html", "--out", str(tmp_path / "pages")]
    assert CliRunner().invoke(make_app(), pages).exit_code == 0
    with pytest.raises(errors.InvalidInputError, match="holds episodes"):
        run("preview", tmp_path / "pages")
    for words, message in {
        ("--format", "html", "--samples", "3"): "webtraj export .* --format html",
        ("--format", "trl", "--filter", "min_step=1"): "No filter 'min_step'",
        ("--format", "trl", "--recency-bias-power", "3"): "recency_bias_power needs samples",
        ("--format", "sharegpt", "--set", "cutof_len=3"): "Did you mean 'cutoff_len'",
        ("--format", "sharegpt", "--where", "task == 'x'"): "not asked for: 8",
    }.items():
        with pytest.raises(errors.InvalidInputError, match=message):
            run("export", folder, "--out", tmp_path / "no", *words)
    given = ["export", str(folder), "--out", str(tmp_path / "no"), "--format", "trl"]
    assert "webtraj train export" in str(CliRunner().invoke(make_app(), given).exception)
    assert not (tmp_path / "no").exists()
