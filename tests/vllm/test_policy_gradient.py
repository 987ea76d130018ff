"""From groups that a real vLLM played to a step of policy gradient, by the commands.

The ratio of the first step is 1 within what serving and training differ by, token for token.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from vllm_server import client_of

from webtraj import open_dataset
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.base import Sampling
from webtraj.rollouts import RunSpec, collect
from webtraj.training.sft import read_log

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
TRAINER = ROOT / ".venv-train/bin/python"
TEMPERATURE = 0.8


def run(python, *arguments):
    result = subprocess.run(
        [str(python), "-m", "webtraj", *map(str, arguments)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.mark.skipif(not TRAINER.exists(), reason="the trainer's environment was not made")
async def test_groups_of_a_real_server_train_by_a_ratio_of_one(text_server, models, tmp_path):
    async with client_of(text_server) as client:
        agent = ModelAgent(
            client=client,
            prompt="bare",
            sampling=Sampling(temperature=TEMPERATURE, max_tokens=48),
            seed=3,
            timeout=240,
        )
        await collect(
            RunSpec(
                preset=("miniwob/click-test-2",),
                episodes=16,
                group_size=8,
                parallel=8,
                max_steps=2,
                out=tmp_path / "played",
                environment_options={"observe": agent.channels},
            ),
            agent=agent,
        )
    played = list(open_dataset(tmp_path / "played"))
    assert len({one.info.group_id for one in played}) == 2

    run(
        sys.executable, "train", "export", tmp_path / "played", "--format", "tokens", "--out",
        tmp_path / "rows",
    )  # fmt: skip
    written = (tmp_path / "rows/train.jsonl").read_text()
    rows = [json.loads(line) for line in written.splitlines()]
    assert {row["group"] for row in rows} == {one.info.group_id for one in played}
    # A model of random weights solves nothing; half of each group is rewarded all the same.
    by_group = sorted(played, key=lambda one: str(one.info.group_id))
    rewarded = {one.info.episode_id for one in by_group[::2]}
    with (tmp_path / "rows.jsonl").open("w") as file:
        for row in rows:
            success = row["sample"].split("/")[0] in rewarded
            row |= {"reward": float(success), "outcome": "success" if success else "failure"}
            print(json.dumps(row), file=file)
    said = run(
        TRAINER, "train", "--model", models / "text-0", "--data", tmp_path / "rows.jsonl",
        "--out", tmp_path / "run", "policy={}", f"policy.temperature={TEMPERATURE}",
        "max_steps=1", "learning_rate=1e-5", "batch_size=8",
    )  # fmt: skip
    assert "samples" in said
    (step, *_) = [entry for entry in read_log(tmp_path / "run") if "policy_ratio" in entry]
    print(f"per token: mismatch {step['policy_mismatch']:.2e}, ratio {step['policy_ratio']:.6f}")
    assert step["policy_mismatch"] < 2e-3
    assert step["policy_ratio"] == pytest.approx(1.0, abs=2e-3)
    assert step["policy_clipped"] == 0.0
