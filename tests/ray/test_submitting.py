"""`webtraj rollout submit`: a job of Ray's plays, and nobody reads the key."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from webtraj import EndReason, open_dataset

KEY = "sk-very-secret-0123456789"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
MODULE = """
import hashlib, os
import dm_env
from webtraj import registry

class Door:
    def __init__(self, tasks, digest):
        self.digest = digest
    async def reset(self):
        return dm_env.restart(0)
    async def step(self, action):
        key = os.environ["OPENAI_API_KEY"].encode()
        return dm_env.termination(float(hashlib.sha256(key).hexdigest() == self.digest), 1)
    async def cheat(self):
        return "open"
    async def close(self):
        pass
    async def __aenter__(self):
        return self
    async def __aexit__(self, *exc_info):
        pass

registry.register("doors", Door, tasks=("front", "back"))
"""


@pytest.fixture
def machine(network, store):
    machine = network.add()
    machine.start_ray(
        "--head", "--port=6399", "--include-dashboard=true",
        f"--dashboard-host={machine.address}",
    )  # fmt: skip
    return machine


@pytest.mark.timeout(600)
def test_a_job_plays_and_the_key_is_in_no_log_and_on_no_command_line(machine, store, tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "my_doors.py").write_text(MODULE)
    bucket = store.make_bucket()
    environment = {**machine.environment(), "OPENAI_API_KEY": KEY, "SAVE_S3_URI": f"{bucket}/out"}
    environment |= {"SOURCE_S3_URI": "doors", "MAX_TRAJS": "5"}
    options = store.reached_by_machines()
    asked = [f"--option={name}={options[name]}" for name in ("endpoint", "region")]
    done = subprocess.run(
        machine.command(
            sys.executable, "-m", "webtraj", "rollout", "submit",
            f"--address=http://{machine.address}:8265", "--agent=oracle", "--import=my_doors",
            f"--set=digest={DIGEST}", f"--python={sys.executable}", f"--working-dir={modules}",
            *asked, "--option=allow_http=true",
        ),
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "5 rows, 5 finished" in told
    dataset = open_dataset(f"{bucket}/out", storage_options=store.options())
    assert {summary.end_reason for summary in dataset.summaries} == {EndReason.TERMINATED}
    assert len(dataset) == 5
    # Each step had the key.
    assert {summary.total_reward for summary in dataset.summaries} == {1.0}
    assert KEY not in told
    kept = [path for path in Path(machine.network.ray_folder).rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in kept)
    assert [path for path in kept if KEY.encode() in path.read_bytes()] == []
    assert KEY not in machine.log()
