"""The recipe for one GPU, run on a CPU: what needs a GPU is its size, and that is made small.

    .venv-train/bin/python tests/loop/gpu_recipe.py --out /tmp/small   (as `make test-loop` does)

A vision-language model of random weights looks at screenshots, a LoRA is trained on what an oracle
did, and vLLM, which runs on, is given each adapter. Such a model succeeds at nothing, so nothing of
the second iteration is left to train on but what the first had. Exits 1 with what does not hold.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
from loop_state import read_entries

from webtraj import ModelCall, open_dataset
from webtraj.loop import load_loop_config
from webtraj.testing.tiny_models import make_vision_model

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "src/webtraj/loop/files/one_gpu.yaml"
ON_A_CPU = ROOT / "examples/two_cores/two_cores.yaml"
"""Knows how a server runs here."""
ATTEMPTS = 6
TASKS = "[miniwob/click-button,miniwob/click-dialog-2]"
CONTEXT = 4096


def overrides(out: Path, model: Path) -> list[str]:
    """Returns what is otherwise than in the recipe."""
    on_a_cpu = load_loop_config(ON_A_CPU).serve.options | {
        "max_model_len": CONTEXT,
        "max_num_seqs": 4,
        "gpu_memory_utilization": None,
    }
    few = {"attempts": ATTEMPTS, "parallel": 2, "max_steps": 2, "max_tokens": 32}
    return [
        f"out={out}", "iterations=2", "first.policy=oracle", f"train.model={model}",
        # As the documentation of the recipe says, but for the sleep, which is a GPU's.
        "train.begin=base", "serve.update=lora", "serve.while_training=keep",
        *(f"serve.options.{key}={orjson.dumps(value).decode()}" for key, value in on_a_cpu.items()),
        *(f"rollout.{key}={value}" for key, value in few.items()),
        *(f"evaluation.{key}={value}" for key, value in few.items()),
        f"rollout.preset={TASKS}",
        'postprocess.steps=["clean:min_steps=1",drop-no-effect]',
        "export.filters.min_steps=1", "export.render=true", "export.val_split=null",
        "export.split_by=null",
        f"train.cutoff_len={CONTEXT}", "train.accumulation=2", "train.epochs=2",
    ]  # fmt: skip


def problems(out: Path) -> Iterator[str]:
    """Tells what came of it, and yields what should not have."""
    lines = {line["iteration"]: line for line in map(orjson.loads, _lines(out / "metrics.jsonl"))}
    if sorted(lines) != [0, 1, 2]:
        yield f"There are iterations {sorted(lines)}."
    for number in (1, 2):
        line = lines[number]
        print(f"iteration {number}: loss {line['loss']:.3f} after {line['train_steps']} steps")
        if line["train_steps"] < 2 * -(-line["samples"] // 2) or not math.isfinite(line["loss"]):
            yield f"Iteration {number} trained too little."
        adapter = out / f"training/iteration_{number:04d}/model.pt"
        if not list(adapter.glob("*.safetensors")):
            yield f"{adapter} holds no weights."
    played = {
        "train_trajectories/iteration_0002": "policy-lora@iteration_0001",
        "test_trajectories/iteration_0002": "policy-lora@iteration_0001",
        "test_trajectories/iteration_0003": "policy-lora@iteration_0002",
    }
    for place, version in played.items():
        steps = [step for record in open_dataset(out / place) for step in record.steps[1:]]
        calls = [call for step in steps for call in step.decision.model_calls]
        told = {call.policy_version for call in calls}
        print(f"{place}: {len(calls)} calls of {', '.join(sorted(told))}")
        if told != {version} or not all(map(_has_picture, calls)):
            yield f"{place}: expected calls with pictures of {version}."
    kept = [lines[number]["kept"] for number in (1, 2)]
    samples = [lines[number]["samples"] for number in (1, 2)]
    if kept != [2 * ATTEMPTS, 0] or samples[0] < ATTEMPTS or samples[1] != samples[0]:
        yield f"{kept} episodes were kept of the iterations, and {samples} samples trained on."
    starts = [e for e in read_entries(out / "state.jsonl") if e["event"] == "begun"]
    if len({(e["iteration"], e["phase"]) for e in starts}) != len(starts):
        yield "A phase was tried more than once."
    log = (out / "logs/server.log").read_text(errors="replace")
    if (count := log.count("Application startup complete")) != 1:
        yield f"The server was started {count} times."


def _has_picture(call: ModelCall) -> bool:
    return any(
        part["type"] == "image_url"
        for message in call.messages
        if not isinstance(message["content"], str)
        for part in message["content"]
    )


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    folder = options.out.absolute()
    os.chdir(ROOT)
    texts = (page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    model = make_vision_model(folder / "model", texts, context=CONTEXT)
    out = folder / "loop"
    command = [sys.executable, "-m", "webtraj", "loop", "--config", str(CONFIG)]
    subprocess.run([*command, *overrides(out, model)], check=True)
    found = list(problems(out))
    for problem in found:
        print(f"FAILED: {problem}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
