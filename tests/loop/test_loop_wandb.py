"""A loop's metrics in Weights & Biases, as W&B itself keeps them offline."""

from pathlib import Path

import orjson

from wandb_support import needs_wandb, offline_runs, run_with_wandb
from webtraj.loop import metrics
from webtraj.metrics.live import flat

pytestmark = needs_wandb


def test_each_iteration_is_a_point_of_one_run_also_of_a_loop_that_was_gone_on_with(small_loop):
    script = Path(__file__).with_name("play_loop.py")
    wandb = {"project": "loops", "run_name": "small", "mode": "offline"}
    # The phases' Python is W&B's, which finds no webtraj by itself.
    publish = {"command": ["{python}", "-c", "pass"]}
    data = small_loop.data(wandb=wandb, publish=publish)
    small_loop.config_file.write_bytes(orjson.dumps(data))
    home = small_loop.folder / "home"
    home.mkdir()
    told = (script, small_loop.config_file)
    for more in (["iterations=1"], ["--resume"]):
        assert run_with_wandb(home, *told, *more).endswith("finished\n")

    runs = offline_runs(home, small_loop.out / "wandb")
    assert [(run["project"], run["name"]) for run in runs] == [("loops", "small")] * 2
    assert len({run["id"] for run in runs}) == 1
    lines = metrics.read_lines(small_loop.out / "metrics.jsonl")
    assert [line["iteration"] for line in lines] == [0, 1, 2]
    begun, gone_on = ([point["iteration"] for point in run["points"]] for run in runs)
    # The last iteration is told again, since it may not have been.
    assert (begun, gone_on) == ([0, 1], [1, 2])
    told_of = {point["iteration"]: point for run in runs for point in run["points"]}
    assert list(told_of.values()) == [flat(line) for line in lines]
