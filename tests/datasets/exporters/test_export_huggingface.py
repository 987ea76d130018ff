"""Parquet with a card: what `datasets`, pandas and DuckDB read of it."""

import io
import json

import numpy as np
import pytest

from export_episodes import SHOP_ACTIONS, picture

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def load(tmp_path):
    """Loads a table by `datasets`."""
    datasets = pytest.importorskip("datasets")

    def run(out, config="steps", split="train"):
        cache = str(tmp_path / "cache")
        return datasets.load_dataset(str(out), config, split=split, cache_dir=cache)

    return run


def rows(out, config="steps", split="train"):
    files = sorted((out / config).glob(f"{split}-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_every_step_is_a_row(shop, export):
    out, report = export(shop, "huggingface")
    assert report.notes == ()
    found = rows(out)
    steps = [(episode, step) for episode in shop for step in episode.steps]
    assert len(found) == len(steps) == 8
    for row, (episode, step) in zip(found, steps, strict=True):
        assert (row["episode_id"], row["step"]) == (episode.episode_id, step.index)
        assert (row["task"], row["goal"]) == ("shop/tea", "Buy tea")
        assert (row["is_first"], row["is_last"]) == (step.first, step.last)
        assert (row["reward"], row["discount"]) == (step.reward, step.discount)
        assert row["url"] == step.observation["url"]
        assert row["axtree"] == step.observation["axtree"]
        assert row["screenshot"]["bytes"] == step.observation["screenshot"]
        rest = json.loads(row["observation"])
        assert rest.keys() == step.observation.keys() - {"url", "axtree", "screenshot"}
        assert rest["boxes"] == step.observation["boxes"].tolist()
        call = step.decision.model_calls[-1] if step.decision else None
        assert row["completion_token_ids"] == (list(call.completion_token_ids) if call else None)
        assert row["logprobs"] == (list(call.logprobs) if call else None)
        assert row["thought"] == (step.decision.thought if step.decision else None)
    assert [row["action"] for row in found[:4]] == [
        None, "click('1')", "fill('2', 'tea\\n\\'\"ü')", SHOP_ACTIONS[2],
    ]  # fmt: skip
    extra = json.loads(found[2]["extra"])
    assert [call.get("error") for call in extra["model_calls"]] == ["overloaded", None]
    shown = extra["model_calls"][1]["messages"][1]["content"][0]["image"]
    assert found[2]["images"][shown["index"]]["bytes"] == picture(2)


def test_every_episode_is_a_row(shop, wrecks, export):
    out, _ = export(shop, "huggingface")
    first, second = rows(out, "trajectories")
    assert (first["outcome"], first["end_reason"], first["finished"]) == (
        "success", "terminated", True,
    )  # fmt: skip
    assert first["rewards"] == [0.25, 0.5, 0.75, 1.0]
    assert first["total_reward"] == 2.5
    assert first["seed"] == shop[0].info.seed
    assert json.loads(first["info"])["metadata"]["split"] == "train"
    assert (second["end_reason"], second["finished"]) == ("closed", False)
    out, report = export(wrecks, "huggingface", name="wrecks")
    found = {row["episode_id"]: row for row in rows(out, "trajectories")}
    assert sorted(row["end_reason"] for row in found.values()) == ["crashed", "errored", "errored"]
    assert not any(item.finished for item in report.written)
    for episode in wrecks:
        row = found[episode.episode_id]
        assert row["num_steps"] == episode.num_steps
        if not episode.steps:
            assert row["total_reward"] is None
            assert json.loads(row["end"])["error"]["message"] == "no page"


@pytest.mark.slow
def test_hugging_face_datasets_reads_it(shop, export, load):
    image = pytest.importorskip("PIL.Image")
    out, _ = export(shop, "huggingface")
    steps = load(out)
    assert len(steps) == 8
    assert isinstance(steps[1]["screenshot"], image.Image)
    assert np.array_equal(
        np.asarray(steps[1]["screenshot"]), np.asarray(image.open(io.BytesIO(picture(1))))
    )
    assert steps[2]["images"][0].size == (64, 48)
    assert steps[2]["prompt_token_ids"] == [1, 2, 151_643]
    assert steps.features["logprobs"].feature.dtype == "float64"
    trajectories = load(out, "trajectories")
    assert trajectories["actions"][0][0] == "click('1')"


@pytest.mark.slow
def test_splits_are_those_asked_for(shop, export, load):
    splits = "won=outcome == 'success';rest=group_id == 'g'"
    out, report = export(shop, "huggingface", options={"splits": splits, "license": "mit"})
    assert len(load(out, split="won")) == 5
    assert len(load(out, "trajectories", "rest")) == 1
    assert len(report.written) == 2
    out, report = export(
        shop, "huggingface", name="one", options={"splits": "won=outcome == 'success'"}
    )
    (left,) = report.left_out
    assert left.episode_id == shop.episode_ids[1]
    assert not left.failed
    assert "none of the splits" in left.why
    assert "1 episodes were left out" in (out / "README.md").read_text()


def test_the_card_says_what_is_in_it(shop, export):
    out, _ = export(shop, "huggingface", options={"license": "cc-by-4.0", "title": 'A "b": c'})
    text = (out / "README.md").read_text()
    assert text.startswith('---\npretty_name: "A \\"b\\": c"\nlicense: cc-by-4.0\n')
    assert "- config_name: steps\n  default: true\n" in text
    assert '    path: "trajectories/train-*.parquet"' in text
    assert "| train | 2 | 8 |" in text
    assert "closed 1, terminated 1" in text
    for column in ("screenshot", "completion_token_ids", "total_reward"):
        assert f"| `{column}` |" in text
