"""How the cost of browser environments grows with their number, on one browser and on two.

    make bench-browser_growth        (or: .venv/bin/python benchmarks/browser_growth.py)

From 1 to 64 environments, each in a context of its own, play MiniWoB++'s `login-user` by its oracle
at the same time, observing text.

* steps/s: steps over wall time, resets and the oracle's looks at the page included.
* CPU ms: user and system time of the whole process tree (Python, driver, browsers) for each step.
* limit: the steps/s at which that CPU time alone would fill all of the machine's cores, and the
  share of the limit that was reached. On a machine that is busy with something else it is small.
Then 8 and 64 environments without a pool begin their first episodes at once, in the pool that they
share: `start` is the time until the last has its first observation.

* MiB, processes: of the whole tree while all environments are open; MiB counts the memory that is
  shared with no other process. `/context` is what each context more than the first took.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment

TASK = "login-user"
TEXT = ("goal", "url", "axtree", "focused", "last_action", "info")
COUNTS = (1, 2, 4, 8, 16, 32, 64)
LEAST = 60
"""Steps of each environment at least: a page's first episodes cost more than later ones."""


@dataclasses.dataclass
class Growth:
    """The cost of one number of contexts."""

    browsers: int
    contexts: int
    step_ms: float
    steps_per_s: float
    cpu_ms_per_step: float
    memory_mib: float
    processes: int
    solved: float


async def measure(browsers: int, contexts: int, *, steps: int) -> Growth:
    """Plays at least `steps` steps, in `contexts` environments over `browsers` browsers."""
    tree = ProcessTree()
    latencies: list[float] = []
    rewards: list[float] = []

    async def play(environment: MiniwobEnvironment, least: int) -> None:
        taken = 0
        while taken < least:
            timestep = await environment.reset()
            while not timestep.last():
                action = await environment.cheat()
                started = time.perf_counter()
                timestep = await environment.step(action)
                latencies.append(time.perf_counter() - started)
                taken += 1
            rewards.append(timestep.reward)

    each = max(steps // contexts, LEAST)
    async with BrowserPool(browsers, -(-contexts // browsers)) as pool:
        environments = [
            MiniwobEnvironment(TASK, pool=pool, observe=TEXT, seed=1000 * i)
            for i in range(contexts)
        ]
        await asyncio.gather(*(play(environment, 1) for environment in environments))
        latencies.clear()
        rewards.clear()
        cpu, started = tree.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(play(environment, each) for environment in environments))
        wall, cpu = time.perf_counter() - started, tree.cpu_seconds() - cpu
        memory, processes = tree.private_bytes(), tree.count()
        await asyncio.gather(*(environment.close() for environment in environments))
    return Growth(
        browsers=browsers,
        contexts=contexts,
        step_ms=statistics.median(latencies) * 1e3,
        steps_per_s=len(latencies) / wall,
        cpu_ms_per_step=cpu / len(latencies) * 1e3,
        memory_mib=memory / 2**20,
        processes=processes,
        solved=sum(reward == 1 for reward in rewards) / len(rewards),
    )


@dataclasses.dataclass
class Start:
    """The cost of environments that begin at once, without a pool of their own."""

    environments: int
    start_s: float
    memory_mib: float
    processes: int


async def measure_start(number: int) -> Start:
    """Begins an episode in each of so many environments at once."""
    tree = ProcessTree()
    environments = [MiniwobEnvironment("click-button", seed=i) for i in range(number)]
    started = time.perf_counter()
    await asyncio.gather(*(environment.reset() for environment in environments))
    seconds = time.perf_counter() - started
    memory, processes = tree.private_bytes(), tree.count()
    await asyncio.gather(*(environment.close() for environment in environments))
    return Start(number, seconds, memory / 2**20, processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="for each number of contexts")
    parser.add_argument("--contexts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    measured = [
        asyncio.run(measure(browsers, contexts, steps=options.steps))
        for browsers in (1, 2)
        for contexts in options.contexts
        if browsers <= contexts
    ]
    show(measured)
    starts = [asyncio.run(measure_start(n)) for n in (8, 64) if n in options.contexts]
    show_starts(starts)
    if options.json:
        rows = [dataclasses.asdict(row) for row in (*measured, *starts)]
        options.json.write_text(json.dumps(rows, indent=1))


def show_starts(starts: list[Start]) -> None:
    table = Table(title="environments without a pool, begun at once")
    for heading in ("environments", "start s", "MiB", "processes"):
        table.add_column(heading, justify="right")
    for start in starts:
        table.add_row(
            str(start.environments),
            f"{start.start_s:.1f}",
            f"{start.memory_mib:.0f}",
            str(start.processes),
        )
    Console().print(table)


def show(measured: list[Growth]) -> None:
    cores = len(os.sched_getaffinity(0))
    first = {m.browsers: m for m in reversed(measured)}
    title = f"Text steps of {TASK} on {cores} cores ({find_browser().version})"
    table = Table(title=title, caption=f"load of the machine: {os.getloadavg()[0]:.1f}")
    for heading in (
        "browsers",
        "contexts",
        "step ms",
        "steps/s",
        "CPU ms",
        "limit",
        "of limit",
        "MiB",
        "MiB/context",
        "processes",
        "solved",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in measured:
        limit = cores * 1000 / m.cpu_ms_per_step
        more = m.contexts - first[m.browsers].contexts
        extra = (m.memory_mib - first[m.browsers].memory_mib) / more if more else None
        table.add_row(
            str(m.browsers),
            str(m.contexts),
            f"{m.step_ms:.1f}",
            f"{m.steps_per_s:.0f}",
            f"{m.cpu_ms_per_step:.1f}",
            f"{limit:.0f}",
            f"{m.steps_per_s / limit:.0%}",
            f"{m.memory_mib:.0f}",
            "" if extra is None else f"{extra:.1f}",
            str(m.processes),
            f"{m.solved:.0%}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
