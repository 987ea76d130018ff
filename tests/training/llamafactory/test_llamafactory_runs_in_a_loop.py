"""The loop for a node of GPUs, as its recipe has it but for what needs GPUs.

Two iterations in which LLaMA-Factory trains a tiny model, killed while it trains and gone on with.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
from llamafactory_runs import ON_A_CPU, PYTHON, ROOT
from omegaconf import OmegaConf

from webtraj import open_dataset
from webtraj.testing.model_server import FakeModelServer
from webtraj.training.llamafactory.checkpoints import has_changed, read_about

pytestmark = [pytest.mark.timeout(900), pytest.mark.browser]

TASKS = ["miniwob/click-test", "miniwob/focus-text"]
SMALL = {"preset": TASKS, "parallel": 2, "attempts": 6}


def press(request):
    """Clicks the one thing that has a mark, as a model does that has learned to."""
    assert request.images
    return (
        "Action: Press it.\n<tool_call>\n"
        '{"name": "web_interaction", "arguments": {"action": "click", "element_id": "1"}}\n'
        "</tool_call>"
    )


def recipe(out, url, model):
    """The recipe with a server that needs no GPU, no judge, a tiny model and few tasks."""
    told = OmegaConf.load(ROOT / "src/webtraj/loop/files/node_of_8.yaml")
    small = [*ON_A_CPU, "algorithm_config.min_steps=1", "algorithm_config.cutoff_len=4096"]
    told.train.llamafactory.merge_with_dotlist(small)
    told = OmegaConf.to_container(told)
    serve = {"engine": "external", "url": url, "name": "fake-model", "update_command": ["true"]}
    asked = {"mode": "marks", "prompt": "webgym_complete", "keep_thinking": True}
    return told | {
        "out": str(out),
        "iterations": 2,
        "retries": 0,
        "first": {"policy": str(model)},
        "serve": serve,
        "judge": None,
        "rollout": {**SMALL, "agent_options": asked},
        "evaluation": None,
        "train": {"llamafactory": told["train"]["llamafactory"] | {"python": str(PYTHON)}},
    }


def start(config, *arguments):
    command = [sys.executable, "-m", "webtraj", "loop", "--config", str(config), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_recipe_of_a_node_trains_twice_and_goes_on_after_a_kill(tmp_path, model):
    config, out = tmp_path / "loop.yaml", tmp_path / "loop"
    with FakeModelServer(press) as server:
        OmegaConf.save(recipe(out, server.url, model), config)
        log = out / "training/iteration_0002"
        with start(config) as process:
            deadline = time.monotonic() + 600
            while not list(log.rglob("trainer_log.jsonl")) and time.monotonic() < deadline:
                assert process.poll() is None, process.stdout.read()
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGKILL)
        with start(config, "--resume") as process:
            said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said

    entries = map(json.loads, (out / "state.jsonl").read_text().splitlines())
    tried = [entry["phase"] for entry in entries if entry["event"] == "begun"]
    assert tried == ["rollout", "train", "publish", "rollout", "train", "train", "publish"]
    models = [out / f"training/iteration_000{number}/model.pt" for number in (1, 2)]
    assert (out / "model.pt").resolve() == models[1]
    assert has_changed(model, models[0])
    assert has_changed(models[0], models[1])
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["retries"] for line in lines] == [0, 1]
    assert [line["success"]["value"] for line in lines] == [1.0, 1.0]
    # An iteration is 12 episodes of a step, less those for validation and what is alike.
    data = [out / f"training/iteration_000{n}/llamafactory_data" for n in (1, 2)]
    rows = [len(json.loads((folder / "finetune_train.json").read_text())) for folder in data]
    assert 6 <= rows[0] < 12
    assert rows[0] < rows[1] < 24
    steps = [2 * math.ceil(number / 4) for number in rows]  # A batch is 4, and all is seen twice.
    assert [line["train_steps"] for line in lines] == steps
    assert [read_about(trained)["global_step"] for trained in models] == steps
    assert lines[1]["loss"] < 0.9 * lines[0]["loss"]
    for number in (1, 2):
        recorded = open_dataset(out / f"train_trajectories/iteration_000{number}")
        assert len(recorded) == len(TASKS) * SMALL["attempts"]
