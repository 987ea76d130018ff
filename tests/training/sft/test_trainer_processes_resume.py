"""Several processes that die go on as if nothing had happened, their weights whole or in shards.

accelerate shards weights on GPUs only. What it uses for it, PyTorch's FSDP2 over gloo, works on
CPUs too: the tests say to accelerate that this is such a machine, and all else is as it is there.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import transformers
from training_runs import same, sample, settings, weights, write_rows

from webtraj.training.sft import publish, read_log, train
from webtraj.training.sft.checkpoints import find_latest

SAMPLES = [sample(number, loss_weight=1.0 + number % 2) for number in range(7)]

_PLAIN = """
import sys
from webtraj.cli import main

*words, outputs = sys.argv
for output in outputs.split(","):
    sys.argv = [*words, f"--out={output}"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""

_SHARDING = f"""
import accelerate
from accelerate.state import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

class OnThisMachine(accelerate.Accelerator):
    def __init__(self, **options):
        super().__init__(**options)
        self.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="TRANSFORMER_BASED_WRAP"
        )
        kind = DistributedType.FSDP
        self.state.distributed_type = PartialState._shared_state["distributed_type"] = kind

accelerate.Accelerator = OnThisMachine
{_PLAIN}
"""


@pytest.fixture
def launch():
    """Starts `webtraj train` on two processes: into one folder, then into the next."""
    started = []

    def start(script, *arguments):
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
        process = subprocess.Popen(
            [sys.executable, *torchrun, str(script), "train", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "ACCELERATE_USE_CPU": "1",
            },
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            for pid in [*children(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.communicate()


def children(pid):
    return [
        int(child)
        for tasks in Path(f"/proc/{pid}/task").glob("*/children")
        for child in tasks.read_text().split()
    ]


@pytest.mark.timeout(900)  # Of a busy machine.
@pytest.mark.parametrize(
    ("script", "steps", "options"),
    [
        (_PLAIN, 24, ["method=lora", "lora.rank=4", "lora.dropout=0.2"]),
        (_SHARDING, 9, []),  # Its steps take longer.
    ],
    ids=["whole weights", "sharded weights"],
)
def test_two_processes_killed_and_resumed_end_with_the_same_weights(
    script, steps, options, launch, text_model, tmp_path
):
    (tmp_path / "start.py").write_text(script)
    rows = write_rows(tmp_path / "rows.jsonl", SAMPLES)
    fixed = {"batch_size": 1, "accumulation": 2, "max_steps": steps, "save_steps": 3}
    arguments = [f"--model={text_model}", f"--data={rows}", "learning_rate=0.001", *options]
    arguments += [f"{key}={value}" for key, value in fixed.items()]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process = launch(tmp_path / "start.py", *arguments, f"{whole},{killed}")
    deadline = time.monotonic() + 250
    while len(read_log(killed)) < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    workers = children(process.pid)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate()
    assert len(workers) == 2, err
    assert process.returncode != 0
    left = find_latest(killed)
    assert left is not None, err
    assert 3 <= left.step < steps
    out, err = launch(tmp_path / "start.py", *arguments, str(killed)).communicate()
    assert f"{steps} of {steps} steps done." in out, err
    assert f"Resuming from step {left.step}." in err
    one, other = (find_latest(folder) for folder in (whole, killed))
    assert one.state["world"] == 2
    assert same(weights(one.model), weights(other.model))
    assert same(weights_of_adam(one), weights_of_adam(other))
    losses = [entry["loss"] for entry in read_log(whole)]
    assert losses == [entry["loss"] for entry in read_log(killed)]
    folder = publish(killed, tmp_path / "policy")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder)
    if options:
        return
    found, saved = loaded.state_dict(), weights(other.model)
    assert all(found[name].equal(value) for name, value in saved.items())
    wanted = {**fixed, "batch_size": 2, "max_steps": 2, "save_steps": None}
    wanted |= {"learning_rate": 0.001, "schedule": "constant"}
    train(settings(text_model, tmp_path / "alone", **wanted), SAMPLES)
    alone = [entry["loss"] for entry in read_log(tmp_path / "alone")]
    # By the second step, the rate of the one has sunk a little.
    assert losses[:2] == pytest.approx(alone, rel=1e-3)


def weights_of_adam(checkpoint):
    from safetensors.torch import load_file

    return load_file(checkpoint.path / "optimizer.safetensors")
