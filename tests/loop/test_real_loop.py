"""A loop of webtraj's own commands: a real browser, real datasets, a model server over HTTP."""

import asyncio
import json
import re
import signal
import time

import orjson
import pytest
from loop_state import read_entries

from webtraj import Outcome, open_dataset
from webtraj.datasets.exporters.base import read_manifest
from webtraj.datasets.verification import verify
from webtraj.loop import load_loop_config
from webtraj.loop import run as run_loop
from webtraj.testing.model_server import FakeModelServer

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TRAIN = """
import json, pathlib, sys
export, base, model, seed = sys.argv[1:]
files = sorted(pathlib.Path(export).glob("*.jsonl"))
rows = sum(len(f.read_text().splitlines()) for f in files if f.name != "webtraj-export.jsonl")
folder = pathlib.Path(model)
folder.mkdir(parents=True, exist_ok=True)
(folder / "learned.json").write_text(json.dumps({"rows": rows, "base": base, "seed": int(seed)}))
"""


SERVE = "import sys; print(sys.argv[2], file=open(sys.argv[1], 'a'))"

PLAYED = {
    "preset": ["miniwob/click-test"],
    "parallel": 2,
    "agent_options": {"prompt": "plain"},
}


def press(request):
    """Clicks the button that the page has, as a model does that has learned to."""
    page = orjson.dumps(request.json).decode()
    ref = re.findall(r"\[(\w+)\] button", page)[-1]
    return f"Thought: Press it.\nAction: click('{ref}')"


def told(folder, url):
    return {
        "out": str(folder / "loop"),
        "iterations": 2,
        "seed": 5,
        "first": {"policy": "oracle"},
        "rollout": {**PLAYED, "attempts": 3},
        "evaluation": {**PLAYED, "every": 2},
        "judge": {"judges": ["environment"], "when": "always"},
        "postprocess": {"steps": ["clean:min_steps=1"]},
        "export": {
            "format": "openai",
            "filters": {"min_steps": 1, "distinct": False},
            "render": True,
        },
        "train": {
            "command": ["{python}", "-c", TRAIN, "{export}", "{base}", "{model}", "{seed}"],
            "model": "none/yet",
        },
        "serve": {
            "engine": "external",
            "url": url,
            "name": "fake-model",
            "update_command": ["{python}", "-c", SERVE, str(folder / "served"), "{version}"],
        },
    }  # fmt: skip


@pytest.mark.gate
def test_two_iterations_the_first_killed_while_it_plays(small_loop):
    with FakeModelServer(press) as server:
        data = told(small_loop.folder, server.url)
        small_loop.data = lambda **more: {**data, **more}
        recorded = small_loop.out / "train_trajectories/iteration_0001"
        with small_loop.start() as process:
            for said in process.stdout:
                if said.startswith("began 1 rollout"):
                    break
            deadline = time.monotonic() + 300
            while not list(recorded.glob("runs/*/plan.jsonl")) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        with small_loop.start("--resume") as process:
            said, errors = process.communicate(timeout=900)
        assert process.returncode == 0, said + errors + logs(small_loop.out)
        assert server.requests

    out = small_loop.out
    for dataset in (recorded, out / "train_trajectories/iteration_0002"):
        assert verify(dataset).clean
        (plan,) = dataset.glob("runs/*/plan.jsonl")
        ended = [t for t in open_dataset(dataset) if t.outcome is Outcome.SUCCESS]
        assert len({t.info.seed for t in ended}) == len(ended) == 3
        assert {j.judge for t in ended for j in t.end.judgements} == {"environment"}
        assert len(plan.read_text().splitlines()) == 1 + 3
    assert (small_loop.folder / "served").read_text().split() == [
        "iteration_0001",
        "iteration_0002",
    ]

    header, _ = read_manifest(out / "exports/iteration_0002")
    assert header["splits"]["train"]["samples"] == 6
    learned = [
        json.loads((out / f"training/iteration_000{n}/model.pt/learned.json").read_text())
        for n in (1, 2)
    ]
    assert [each["rows"] for each in learned] == [3, 6]
    assert learned[1]["base"] == str(out / "training/iteration_0001/model.pt")
    assert (out / "model.pt/learned.json").read_text() == json.dumps(learned[1])

    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1, 2]
    assert [line.get("success", {}).get("value") for line in lines] == [None, 1.0, 1.0]
    assert [line.get("kept") for line in lines] == [None, 3, 3]
    assert [line.get("samples") for line in lines] == [None, 3, 6]
    assert lines[2]["evaluation"]["mean"]["value"] == 1.0
    assert lines[2]["evaluation"]["by_task"]["miniwob/click-test"]["denominator"] == 1
    seeds = [next(iter(open_dataset(out / f"test_trajectories/iteration_000{n}"))).info.seed
             for n in (1, 3)]  # fmt: skip
    assert seeds[0] == seeds[1]

    # The export is there, and its line is not: as if the loop had been killed in between.
    state = out / "state.jsonl"
    kept = state.read_bytes().splitlines(keepends=True)
    (begun,) = (
        number
        for number, line in enumerate(map(json.loads, kept))
        if (line["event"], line.get("iteration"), line.get("phase")) == ("begun", 2, "export")
    )
    state.write_bytes(b"".join(kept[: begun + 1]))
    manifest = out / "exports/iteration_0002/webtraj-export.jsonl"
    made = manifest.stat().st_mtime_ns
    asyncio.run(run_loop(load_loop_config(given={**data, "evaluation": None}), resume=True))
    assert manifest.stat().st_mtime_ns == made
    found = [e for e in read_entries(state) if e["event"] == "ended" and e["iteration"] == 2]
    assert {e["phase"]: e["found"] for e in found[3:]} == {
        "export": True, "train": False, "publish": False,
    }  # fmt: skip


def logs(out):
    return "".join(f"\n== {path}\n{path.read_text()}" for path in sorted(out.rglob("*.log")))
