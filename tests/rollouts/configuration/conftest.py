"""A configuration, and what it needs: task files, and a preset `web` that opens no browser."""

import json

import pytest

from webtraj import registry
from webtraj.rollouts.configuration import build_rollout, load_configuration


@pytest.fixture
def task_row():
    """Makes a row of WebGym's."""

    def make(number, *, difficulty=1, website="example.org", **more):
        return {
            "task_name": f"find {number}",
            "task_id": f"task-{number}",
            "website": website,
            "difficulty": difficulty,
            "evaluator_reference": "it is there",
            "definite_answer": "",
            **more,
        }

    return make


@pytest.fixture
def write_rows():
    """Writes a task file."""

    def write(path, rows):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return write


@pytest.fixture
def world(tmp_path, ladder, task_row, write_rows, monkeypatch):
    """A folder with task files, a configuration of our own, and room for iterations."""
    monkeypatch.chdir(tmp_path)
    registry.register("web", ladder, uses_browser=True)
    write_rows(tmp_path / "train.jsonl", [task_row(i, difficulty=1 + i % 9) for i in range(30)])
    write_rows(tmp_path / "test.jsonl", [task_row(i, difficulty=1 + i % 9) for i in range(5)])
    write_rows(
        tmp_path / "ladder.jsonl",
        [{"name": name, "preset": f"ladder/{name}"} for name in ("climb", "slip", "tire")],
    )
    write_rows(
        tmp_path / "coarse.jsonl",
        [{"url": f"site{number}.example", "description": "Look around."} for number in range(2)],
    )
    (tmp_path / "own.yaml").write_text(
        f"""
        save_path: {tmp_path}/runs
        data_path: {tmp_path}
        env_config: {{train_tasks: train.jsonl, test_tasks: test.jsonl}}
        policy_config: {{base_model: some-model}}
        """
    )
    (tmp_path / "crawled.yaml").write_text(
        f"""
        kind: crawl
        source_parquet_path: {tmp_path}/train.jsonl
        s3_save_uri: {tmp_path}/crawl
        agent_model_name: some-model
        """
    )
    return tmp_path


@pytest.fixture
def build(world):
    """Builds a rollout of a configuration in that folder, given overrides."""

    def build(*overrides, name="own", resume=False):
        return build_rollout(load_configuration(name, overrides, config_dir=world), resume=resume)

    return build
