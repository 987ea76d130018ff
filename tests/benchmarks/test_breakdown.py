"""The breakdown splits what the processes use among the calls that used it."""

import asyncio
import importlib.util
import os
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def breakdown():
    """The module `breakdown`."""
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("breakdown", BENCHMARKS / "breakdown.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


def test_a_row_has_the_figures_of_one_call(breakdown):
    phase = breakdown.Phase()
    phase.cpu.update({"Python": 0.004, "renderer": 0.01, "zygote": 0.002})
    phase.messages = 6
    phase.walls += [0.01, 0.03]
    phase.parts["act"] += [0.001, 0.003]
    row = phase.row()
    assert row["Python"] == pytest.approx(2)
    assert row["renderer"] == pytest.approx(5)
    assert row["CPU"] == pytest.approx(8)  # Kinds without a column count too.
    assert row["to Node"] == 3
    assert row["wall"] == pytest.approx(20)
    assert row["act"] == pytest.approx(2)
    assert row["pictures"] == 0


def test_what_was_used_counts_to_the_calls_that_ended(breakdown, monkeypatch):
    clock = {"seconds": 0.0}
    monkeypatch.setattr(breakdown.Sent, "count", 0)
    monkeypatch.setattr(breakdown.Meter, "_used", lambda meter: {os.getpid(): clock["seconds"]})

    async def work(seconds):
        clock["seconds"] += seconds
        breakdown.Sent.count += 1
        return seconds

    async def measure():
        meter = breakdown.Meter()
        assert await meter.run("reset", [work(1)]) == [1]
        assert await meter.run("step", [work(5), work(2)]) == [5, 2]
        await meter.run("step", [work(3)])
        return meter.phases

    phases = asyncio.run(measure())
    assert phases["reset"].cpu["Python"] == pytest.approx(1)
    assert phases["step"].cpu["Python"] == pytest.approx(10)
    assert (phases["reset"].messages, phases["step"].messages) == (1, 3)
    assert len(phases["step"].walls) == 3
