"""SIGKILL at named moments: every step whose call returned is in the recovered dataset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("WEBTRAJ_KILLS", "20"))
SCRIPT = Path(__file__).with_name("kill_runs.py")


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("collector", "seed"),
    [("json", 0), ("json", 1000), ("protobuf", 0), ("protobuf-zst", 1000)],
)
def test_nothing_whose_call_returned_is_lost_in_so_many_killed_runs(
    collector: str, seed: int, tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(KILLS), str(seed), str(tmp_path), collector],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    totals = json.loads(result.stdout)
    assert totals["runs"] == KILLS
    # The kills must have hit something: open episodes, actions in flight, and ended episodes.
    assert totals["crashed"] >= KILLS
    assert totals["in_flight"] >= KILLS // 2
    assert totals["terminated"] >= KILLS
