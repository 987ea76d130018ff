"""`benchmarks/faults.py`: no acknowledged step is lost, and the comparison notices one that is."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import webtraj
from webtraj.trajectory import EndReason, EpisodeEnd, Phase, StepRecord, StepType

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults.py"
SCALE = os.environ.get("WEBTRAJ_FAULTS", "0.02")


@pytest.fixture(scope="module")
def faults():
    spec = importlib.util.spec_from_file_location("benchmark_faults", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses look for their module there.
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.slow
def test_no_acknowledged_step_is_lost() -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--scale", SCALE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    rows = re.findall(
        r"^\| (.+?) \| ([\d,]+).* \| ([\d,]+) \| (\d+) \|$", result.stdout, re.MULTILINE
    )
    assert len(rows) >= 5, result.stdout  # Two of them need root or strace.
    for name, hits, steps, lost in rows:
        assert int(hits.replace(",", "")) > 0, name
        assert int(steps.replace(",", "")) > 0, name
        assert lost == "0", name


async def test_the_comparison_notices_what_is_missing_or_differs(faults, tmp_path: Path) -> None:
    episode = "20260101T000000-0000000000000000"
    async with webtraj.JsonTrajectoryCollector(tmp_path / "d") as collector:
        recorder = collector.begin_episode(webtraj.EpisodeInfo(task="t", episode_id=episode))
        recorder.record_step(StepRecord(0, StepType.FIRST, faults.observation(episode, 0)))
        recorder.record_intent("action 1")
        recorder.record_step(StepRecord(1, StepType.MID, {"shot": b"x"}, "action 1", 0.0, 1.0))
        recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED, phase=Phase.CLOSE))
    told = [(episode, 0)]
    assert faults.count_lost(tmp_path / "d", told) == 0
    assert faults.count_lost(tmp_path / "d", [*told, (episode, 1)]) == 1  # Other content.
    assert faults.count_lost(tmp_path / "d", [*told, (episode, 2)]) == 1  # Not there.
    assert faults.count_lost(tmp_path / "d", [*told, ("another", 0)]) == 1  # No such episode.
