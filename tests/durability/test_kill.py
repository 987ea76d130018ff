"""SIGKILL at random moments: every step whose call returned is in the recovered dataset."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_runs.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collector", "seed"),
    [("json", 0), ("json", 1000), ("protobuf", 0), ("protobuf-zst", 1000)],
)
def test_nothing_whose_call_returned_is_lost_in_100_killed_runs(
    collector: str, seed: int, tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "100", str(seed), str(tmp_path), collector],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    totals = json.loads(result.stdout)
    assert totals["runs"] == 100
    # The kills must have hit something: open episodes, actions in flight, and ended episodes.
    assert totals["crashed"] >= 100
    assert totals["in_flight"] >= 50
    assert totals["terminated"] >= 100
