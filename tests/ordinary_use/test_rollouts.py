"""Rollouts as people run them: twice at once, into the same folder, with odd numbers and files."""

import asyncio
import subprocess
import sys
from pathlib import Path

import dm_env
import pytest

from webtraj import errors, open_dataset, registry
from webtraj.datasets.verification import verify
from webtraj.rollouts import RunSpec, collect


class Count:
    def __init__(self, tasks=()):
        self.number = 0

    async def reset(self):
        self.number = 0
        return dm_env.restart(0)

    async def step(self, action):
        self.number += 1
        return dm_env.termination(1.0, 1) if self.number == 2 else dm_env.transition(0.0, 0)

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        pass


def agent(observation):
    return "up"


@pytest.fixture(autouse=True)
def count(monkeypatch):
    monkeypatch.setattr(registry, "_presets", {})
    monkeypatch.setattr(registry, "_builtin_loaded", True)
    monkeypatch.setattr(registry, "_plugins_loaded", True)
    registry.register("count", Count)


PROCESS = """
import asyncio, sys
sys.path.insert(0, {here!r})
import test_rollouts
from webtraj import registry
from webtraj.rollouts import RunSpec, collect

registry.register("count", test_rollouts.Count)
print("ready", flush=True)
sys.stdin.readline()
spec = RunSpec(preset="count", episodes=20, parallel=4, out={out!r})
asyncio.run(collect(spec, agent=test_rollouts.agent))
"""


@pytest.mark.slow
def test_two_processes_at_once_into_one_folder(tmp_path):
    here = str(Path(__file__).parent)
    program = PROCESS.format(here=here, out=str(tmp_path / "data"))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert len(open_dataset(tmp_path / "data")) == 40
    assert verify(tmp_path / "data").clean


async def test_ten_thousand_planned_and_one_wanted_to_stop(tmp_path):
    """Cancelled soon after it began, it can be resumed, and its plan is whole."""
    begun = asyncio.Event()

    def act(observation):
        loop.call_soon_threadsafe(begun.set)
        return "up"

    loop = asyncio.get_running_loop()
    rollout = asyncio.ensure_future(
        collect(RunSpec(preset="count", episodes=10_000, out=tmp_path), agent=act)
    )
    await begun.wait()
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    (plan,) = tmp_path.glob("runs/*/plan.jsonl")
    assert len(plan.read_bytes().splitlines()) > 10_000
    assert 0 < len(open_dataset(tmp_path)) < 10_000


async def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "data").write_text("mine")
    with pytest.raises(errors.WebtrajError, match="data"):
        await collect(RunSpec(preset="count", out=tmp_path / "data"), agent=agent)
    assert (tmp_path / "data").read_text() == "mine"
