"""SIGKILL at named moments of collecting into a bucket: all that was recorded is there in the end.

The server keeps running; what happens when it is the one that goes is tested with the collector.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

KILLS = int(os.environ.get("WEBTRAJ_KILLS", "20"))
SCRIPT = Path(__file__).with_name("kill_uploads.py")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: a kill spares what the kernel has."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
@pytest.mark.parametrize(("format_name", "seed"), [("json", 0), ("pb.zst", 5000)])
def test_nothing_is_lost_in_so_many_killed_collections(
    format_name: str, seed: int, folder: Path, bucket_url: str, bucket_options: dict
) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(KILLS), str(seed), str(folder), bucket_url, format_name],
        # The ids are new, so nothing is lost by not looking for what has the same key.
        input=json.dumps({**bucket_options, "conditional_writes": True}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    totals = json.loads(result.stdout)
    assert totals["runs"] == KILLS
    # The kills must have hit something at every stage.
    assert totals["crashed"] >= KILLS
    assert totals["in_flight"] >= KILLS // 2
    for stage in ("in_the_spool", "not_in_the_index", "in_the_bucket", "pushes_killed"):
        assert totals[stage] > 0, stage
