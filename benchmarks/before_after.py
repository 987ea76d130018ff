"""What recording, storage, the browser and rollouts cost in two trees, by turns in one sitting.

    python benchmarks/before_after.py COMMIT [--rounds 5] [--only WORK ...]

The same small work is done in a copy of the commit and in this checkout, in a process of its own
each time, with this environment's packages and each tree's own `benchmarks/`. A cost is processor
time, for browsers and rollouts of the whole process tree, so that a busy machine changes a ratio
less than it changes seconds. The table shows the medians, and the median ratio of the pairs with
its range: below 1 the checkout costs less.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROWS = (
    "wrapper, a step", "record a web step", "scan, JSON", "scan, .pb", "open an index",
    "convert to .pb.zst", "fill a replay buffer",
)  # fmt: skip
"""Rows of `ratios`; of each only webtraj's own way is done."""
EPISODES = 6


def of_row(name: str, place: Path) -> dict[str, float]:
    """Return the CPU ms to do a row's work, and to prepare it, which writes a dataset."""
    import ratios

    began = time.process_time()
    ours, _ = ratios.ROWS[name](place)
    costs = {f"{name}: prepare": time.process_time() - began}
    ours()  # Imports and caches.
    turns = []
    for _ in range(2):
        gc.collect()
        began = time.process_time()
        ours()
        turns.append(time.process_time() - began)
    return {name: 1e3 * min(turns), **{key: 1e3 * value for key, value in costs.items()}}


async def of_browser(channels: tuple[str, ...]) -> dict[str, float]:
    """Return the CPU ms of a step and a reset of click-checkboxes, played by its oracle."""
    from process_tree import ProcessTree
    from webtraj.environments.browser.pool import BrowserPool
    from webtraj.environments.miniwob import MiniwobEnvironment

    tree = ProcessTree()
    async with BrowserPool(contexts_per_browser=1) as pool:
        env = MiniwobEnvironment("click-checkboxes", pool=pool, observe=channels)
        for _ in range(2):  # The first time for imports and caches.
            steps, in_steps, in_resets = 0, 0.0, 0.0
            for seed in range(100, 100 + EPISODES):
                env.set_seed(seed)
                began = tree.cpu_seconds()
                timestep = await env.reset()
                reset = tree.cpu_seconds()
                in_resets += reset - began
                while not timestep.last():
                    timestep = await env.step(await env.cheat())
                    steps += 1
                in_steps += tree.cpu_seconds() - reset
        await env.close()
    name = "picture" if len(channels) > 1 else "text"
    return {
        f"browser, {name}: step": 1e3 * in_steps / steps,
        f"browser, {name}: reset": 1e3 * in_resets / EPISODES,
    }


def of_rollouts(place: Path) -> dict[str, float]:
    """Return the CPU ms of a step of four episodes at once, and of episodes that take no time."""
    import rollouts

    figures = asyncio.run(rollouts.compare(4, 8, 1, place))
    alone = asyncio.run(rollouts.engine_alone(200, place, recorded=True))
    return {
        "rollout, 4 at once: step": figures["rollout"][0].cpu_ms_per_step,
        "rollout, the engine alone: episode": 1e3 * alone.cpu / alone.episodes,
    }


WORK: dict[str, Callable[[Path], dict[str, float]]] = {
    **{name: (lambda place, name=name: of_row(name, place)) for name in ROWS},
    "browser": lambda _: {
        **asyncio.run(of_browser(("axtree",))),
        **asyncio.run(of_browser(("axtree", "screenshot"))),
    },
    "rollouts": of_rollouts,
}


def measure(tree: str, names: list[str]) -> dict[str, float]:
    """Do the work in this process, with a tree."""
    sys.path[:0] = [f"{tree}/benchmarks", f"{tree}/tests/support"]
    costs: dict[str, float] = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            costs |= WORK[name](Path(folder))
    return costs


def measure_in(tree: Path, names: list[str]) -> dict[str, float]:
    """Do the work in a process of its own, in a tree."""
    sources = [tree / "src", *tree.glob("packages/*/src")]
    with tempfile.TemporaryDirectory() as folder:  # Some rows write where they are.
        result = subprocess.run(
            [sys.executable, __file__, "--tree", str(tree), "--only", *names],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    costs: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", help="the tree to compare this one with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", metavar="WORK", choices=WORK, default=list(WORK))
    parser.add_argument("--tree", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tree:
        print(json.dumps(measure(options.tree, options.only)))
        return
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder)
        packed = subprocess.run(
            ["git", "archive", options.commit], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        for _ in range(options.rounds):
            pairs.append((measure_in(before, options.only), measure_in(ROOT, options.only)))
            loads.append(os.getloadavg()[0])
    print(f"{os.cpu_count()} cores, load {min(loads):.0f} to {max(loads):.0f}\n")
    print(f"| CPU ms | {options.commit} | now | ratio |\n|---|---|---|---|")
    for name in pairs[0][0]:
        ratios = [after[name] / before[name] for before, after in pairs]
        columns: list[Any] = [
            statistics.median(pair[side][name] for pair in pairs) for side in (0, 1)
        ]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {name} | {columns[0]:.3g} | {columns[1]:.3g} | {spread} |")


if __name__ == "__main__":
    main()
