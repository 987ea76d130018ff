"""Several processes, launched as the documentation says, and weights that are sharded."""

import os
import subprocess
import sys

import torch
from training_runs import sample, settings, start_command, weights, write_rows

from webtraj.training.sft import train
from webtraj.training.sft.checkpoints import find_latest

SAMPLES = [sample(number) for number in range(7)]

_SHARDED = """
import os
import sys
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from webtraj.training.sft.checkpoints import _moments, _set_moments

distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))

def made():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)

def step(model, optimizer, seed):
    torch.manual_seed(seed)
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

one, adam = made()
step(one, adam, 1)
saved = [_moments(one, adam, sharded=True)]
assert bool(saved[0]) == (distributed.get_rank() == 0)
distributed.broadcast_object_list(saved)  # As all processes read one file.
assert saved[0]["0.weight/exp_avg"].shape == (8, 8)
assert saved[0]["0.weight/exp_avg"].any()
other, again = made()
_set_moments(other, again, saved[0], sharded=True)
found = _moments(other, again, sharded=True)  # Gathered again from both.
if distributed.get_rank() == 0:
    assert found.keys() == saved[0].keys()
    assert all(torch.equal(found[name], value) for name, value in saved[0].items())
assert [g["lr"] for g in again.param_groups] == [0.1]
print("the same", flush=True)
distributed.barrier()
os._exit(0)  # On a busy machine, PyTorch's own threads may abort a process that ends in good order.
"""


def test_two_processes_train_as_one(text_model, tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", SAMPLES)
    options = {"learning_rate": 0.001, "max_steps": 1, "max_grad_norm": 0.0}
    alone = train(settings(text_model, tmp_path / "one", **options, batch_size=4), SAMPLES)
    process = start_command(
        f"--model={text_model}",
        f"--data={rows}",
        f"--out={tmp_path / 'two'}",
        "batch_size=2",
        *(f"{key}={value}" for key, value in options.items()),
        launch=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.count("1 of 1 step done.") == 1
    together = find_latest(tmp_path / "two")
    assert together.state["world"] == 2
    one, two = weights(alone.checkpoint / "model"), weights(together.model)
    moved = torch.cat([(one[name] - two[name]).abs().flatten() for name in one])
    assert (moved > 1e-5).float().mean() < 0.02


def test_adams_state_of_sharded_weights_is_put_back(tmp_path):
    script = tmp_path / "sharded.py"
    script.write_text(_SHARDED)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same") == 2
