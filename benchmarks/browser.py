"""What a step in the browser costs, beside BrowserGym on the same tasks in the same run.

    make bench-browser        (or: .venv/bin/python benchmarks/browser.py)

Both play MiniWoB++'s `login-user` and `click-checkboxes` by an oracle, from the same pages in the
same browser: webtraj with text alone and with a JPEG, 1 and 8 environments at a time; BrowserGym
with its default delays, and with all its delays off (it has no way to leave out the screenshot).

* step: median latency of `step`, with the observation that it returns.
* steps/s: steps over wall time, resets and the oracle's own looks at the page included.
* CPU: user and system time of the whole process tree (Python, driver, browser) for each step. For
  webtraj resets and the oracle's looks count too; for BrowserGym only what `step` itself takes.
* reset: median latency of `reset` to the same task.

BrowserGym runs in `.venv-browsergym`, made on the first run (it pins an old Playwright); without a
network its lines are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import peers
from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment, tasks

TASKS = ("login-user", "click-checkboxes")
TEXT = ("goal", "url", "axtree", "focused", "last_action", "info")


@dataclasses.dataclass
class Report:
    step_ms: float
    step_ms_min: float
    steps_per_s: float
    cpu_ms_per_step: float
    reset_ms: float
    solved: float
    processes: int
    memory_mib: float


async def measure(task: str, *, channels: tuple[str, ...], parallel: int, episodes: int) -> Report:
    """Plays `episodes` episodes in each of `parallel` environments on one browser."""
    tree = ProcessTree()
    resets: list[float] = []
    steps: list[float] = []
    solved = 0

    async def play(environment: MiniwobEnvironment, count: int) -> None:
        nonlocal solved
        for _ in range(count):
            started = time.perf_counter()
            timestep = await environment.reset()
            resets.append(time.perf_counter() - started)
            while not timestep.last():
                action = await environment.cheat()
                started = time.perf_counter()
                timestep = await environment.step(action)
                steps.append(time.perf_counter() - started)
            solved += timestep.reward == 1

    async with BrowserPool(contexts_per_browser=parallel) as pool:
        environments = [
            MiniwobEnvironment(task, pool=pool, observe=channels, seed=i * episodes)
            for i in range(parallel)
        ]
        await asyncio.gather(*(play(environment, 2) for environment in environments))
        resets.clear()
        steps.clear()
        solved = 0
        cpu, started = tree.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(play(environment, episodes) for environment in environments))
        wall, cpu = time.perf_counter() - started, tree.cpu_seconds() - cpu
        processes, memory = tree.count(), tree.private_bytes()
        await asyncio.gather(*(environment.close() for environment in environments))
    return Report(
        step_ms=statistics.median(steps) * 1e3,
        step_ms_min=min(steps) * 1e3,
        steps_per_s=len(steps) / wall,
        cpu_ms_per_step=cpu / len(steps) * 1e3,
        reset_ms=statistics.median(resets) * 1e3,
        solved=solved / (episodes * parallel),
        processes=processes,
        memory_mib=memory / 2**20,
    )


def measure_browsergym(task: str, *, episodes: int, defaults: bool) -> Report:
    """Plays episodes in one BrowserGym environment."""
    python = peers.browsergym_venv()
    with tempfile.TemporaryDirectory() as folder:
        told = peers.run_peer(
            python,
            Path(__file__).with_name("browser_browsergym.py"),
            task,
            str(episodes),
            str(int(defaults)),
            env=peers.browsergym_variables(
                python, Path(folder), find_browser().path or "", tasks.html_folder() / "miniwob"
            ),
        )
    return Report(**told)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=40, help="for each webtraj environment")
    parser.add_argument("--peer-episodes", type=int, default=5, help="for BrowserGym")
    parser.add_argument("--no-peer", action="store_true", help="leave BrowserGym out")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    reports: dict[tuple[str, str], Report] = {}
    for task in TASKS:
        for parallel in (1, 8):
            for label, channels in (("text", TEXT), ("text + JPEG", (*TEXT, "screenshot"))):
                reports[task, f"webtraj, {label}, x{parallel}"] = asyncio.run(
                    measure(task, channels=channels, parallel=parallel, episodes=options.episodes)
                )
        if options.no_peer:
            continue
        for label, defaults in (("no delays", False), ("defaults", True)):
            try:
                reports[task, f"BrowserGym, {label}, x1"] = measure_browsergym(
                    task, episodes=options.peer_episodes, defaults=defaults
                )
            except subprocess.CalledProcessError as error:
                print(f"BrowserGym left out: {error}", file=sys.stderr)
    show(reports)
    if options.json:
        told = {f"{task}: {way}": dataclasses.asdict(r) for (task, way), r in reports.items()}
        options.json.write_text(json.dumps(told, indent=1))


def show(reports: dict[tuple[str, str], Report]) -> None:
    table = Table(title=f"A browser step on MiniWoB++ ({find_browser().version})")
    for heading in ("task", "way"):
        table.add_column(heading, no_wrap=True)
    columns = {
        "step ms": "step_ms",
        "min": "step_ms_min",
        "steps/s": "steps_per_s",
        "CPU ms": "cpu_ms_per_step",
        "reset ms": "reset_ms",
        "solved": "solved",
        "processes": "processes",
        "MiB": "memory_mib",
    }
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for (task, way), report in reports.items():
        cells = [f"{getattr(report, field):.4g}" for field in columns.values()]
        table.add_row(task, way, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
