"""The benchmark for GPUs runs on two cores, with a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "gpu.py"


def test_it_measures_trainers_that_do_the_same(tmp_path):
    arguments = [
        *("--out", str(tmp_path), "--size", "tiny", "--samples", "16", "--methods", "lora"),
        *("--trainers", "webtraj", "subclass"),
    ]
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    ours, subclass = json.loads((tmp_path / "gpu.json").read_text())["training"]
    assert ours["trainer"] == "webtraj"
    assert subclass["trainer"] == "subclass"
    assert ours["steps"] == subclass["steps"] == 2
    assert ours["tokens_per_second"] > 0
    # The same batches, weights and loss, whoever drives the steps.
    assert abs(ours["loss"] - subclass["loss"]) < 1e-3
    assert "| lora |" in (tmp_path / "gpu.md").read_text()
