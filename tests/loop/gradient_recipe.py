"""The recipe for two cores with policy gradient, in small: imitation first, then groups.

    .venv-train/bin/python tests/loop/gradient_recipe.py --out /tmp/gradient   (as `make test-loop`)

Two tasks, two iterations, everything real: a browser, PyTorch, vLLM, which is given the weights
while it runs. What the server sampled must be what the trainer computes: a ratio of 1 and next to
no mismatch in the first step. Exits 1 with what does not hold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
from loop_calls import calls_of

from webtraj import Outcome, open_dataset
from webtraj.loop import load_loop_config, metrics
from webtraj.loop.places import Places, version_name

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "examples/two_cores/two_cores.yaml"
TASKS = "[miniwob/click-button,miniwob/click-test-2]"
SIZE, GROUPS = 8, 12
NEAR = 2e-3
"""How far a log-probability of the trainer may be from the server's, in the mean."""


def overrides(out: Path) -> list[str]:
    """Returns what is otherwise than in the recipe."""
    return [
        f"out={out}", "iterations=2", "train.algorithm=[sft,grpo]", "export.options.copies=12",
        f"rollout.preset={TASKS}", "rollout.iteration.size=100", "rollout.parallel=4",
        "first.rollout.iteration.size=100",
        f"groups.rollout.group_size={SIZE}", f"groups.rollout.iteration.size={GROUPS}",
        "evaluation.every=2", "evaluation.attempts=20", "evaluation.parallel=4",
        "train.schedule=stable", "train.warmup_steps=5", "train.max_steps=null",
        "serve.start_timeout=3600",
    ]  # fmt: skip


def problems(given: list[str]) -> Iterator[str]:
    """Tells what came of it, and yields what should not have."""
    config = load_loop_config(CONFIG, given)
    places = Places(config)
    last = config.iterations
    number = next(n for n in range(1, last + 1) if config.algorithm(n) == "grpo")
    line = metrics.read_lines(places.metrics)[number]
    told = line.get("policy_gradient", {})
    print(f"iteration {number}: {orjson.dumps(told).decode()}")
    played = list(open_dataset(places.rollout_dataset(number)))
    for trajectory in played:
        versions = {call.policy_version for call in calls_of(trajectory)}
        if versions - {version_name(number - 1)}:
            yield f"{trajectory.episode_id} was played by {versions}"
    graded = [one for one in played if one.outcome in (Outcome.SUCCESS, Outcome.FAILURE)]
    groups: dict[str, list[int]] = {}
    for one in graded:
        groups.setdefault(one.info.group_id, []).append(int(one.outcome is Outcome.SUCCESS))
    kept = sum(len(set(rewards)) > 1 for rewards in groups.values())
    if {len(rewards) for rewards in groups.values()} != {SIZE}:
        yield f"The groups have {sorted(map(len, groups.values()))} attempts."
    if (told.get("groups"), told.get("groups_kept")) != (len(groups), kept):
        yield f"{len(groups)} groups were played, {kept} of them with different rewards."
    if kept and not told.get("mismatch", 1.0) < NEAR:
        yield "What was sampled is not what the trainer computes."
    rows = (Path(places.groups(number)) / "train.jsonl").read_bytes().splitlines()
    print(f"{len(graded)} episodes in {len(groups)} groups, {kept} of them kept: {len(rows)} rows")
    if (Path(places.export(number))).exists():
        yield "Imitated rows were exported, too."


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    os.chdir(ROOT)
    given = overrides(options.out.absolute() / "loop")
    command = [sys.executable, "-m", "webtraj", "loop", "--config", str(CONFIG)]
    subprocess.run([*command, *given], check=True)
    found = list(problems(given))
    for problem in found:
        print(f"FAILED: {problem}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
