"""The benchmark of faults loses nothing in small, either."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/faults.py"


@pytest.mark.gate
def test_no_acknowledged_step_is_lost():
    command = [sys.executable, SCRIPT, "kill", "writers", "cancel", "--scale", "0.01"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200)
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert len(rows) == 4
    for name, _, steps, lost in rows:
        assert int(steps.replace(",", "")) > 100, name
        assert lost == "0"
