"""Where a browser step and reset spend CPU and time: by process, by message, by part of the wait.

    make bench-breakdown        (or: .venv/bin/python benchmarks/breakdown.py)

1 and 8 environments play MiniWoB++'s `login-user` and `click-checkboxes` by their oracle, with text
alone and with a JPEG. All environments reset together, look for the oracle together, and step
together, so that what was used between two moments belongs to one of the three.

* CPU ms: user and system time of each kind of process for each step, look or reset. `Node` is
  Playwright's driver; `browser` is Chromium's main process, the others are told apart by `--type`.
* to Node: messages that Python sent to Playwright's driver for each.
* wall ms: median of the call, and for steps of its parts as the observation's `timings` says:
  acting, settling and looking inside the page, pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import statistics
import time
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment

TASKS = ("login-user", "click-checkboxes")
TEXT = ("goal", "url", "axtree", "focused", "last_action", "info", "timings")
KINDS = ("Python", "Node", "browser", "renderer", "gpu-process", "utility")
PARTS = ("act", "settle", "observe", "pictures")

Row = dict[str, float]


class Phase:
    """What one kind of call used, and how long it took."""

    def __init__(self) -> None:
        self.cpu: collections.Counter[str] = collections.Counter()
        self.messages = 0
        self.walls: list[float] = []
        self.parts: dict[str, list[float]] = {part: [] for part in PARTS}

    def row(self) -> Row:
        """Returns the figures for one call, in milliseconds."""
        calls = len(self.walls)
        row = {kind: self.cpu[kind] / calls * 1e3 for kind in KINDS}
        row["CPU"] = sum(self.cpu.values()) / calls * 1e3
        row["to Node"] = self.messages / calls
        row["wall"] = statistics.median(self.walls) * 1e3
        for part, seconds in self.parts.items():
            row[part] = statistics.median(seconds) * 1e3 if seconds else 0.0
        return row


class Meter:
    """Splits what the processes of this tree use among phases."""

    def __init__(self) -> None:
        self._tree = ProcessTree()
        self._kinds = {pid: kind_of(pid) for pid in self._tree.pids()}
        self._last, self._sent = self._used(), Sent.count
        self.phases: dict[str, Phase] = collections.defaultdict(Phase)

    async def run(self, name: str, calls: Iterable[Awaitable[Any]]) -> list[Any]:
        """Awaits calls together, and counts what was used since the last ones to their phase."""
        phase = self.phases[name]
        results = await asyncio.gather(*(self._timed(phase, call) for call in calls))
        used, sent = self._used(), Sent.count
        for pid, seconds in used.items():
            phase.cpu[self._kinds[pid]] += seconds - self._last[pid]
        phase.messages += sent - self._sent
        self._last, self._sent = used, sent
        return results

    async def _timed(self, phase: Phase, call: Awaitable[Any]) -> Any:
        started = time.perf_counter()
        result = await call
        phase.walls.append(time.perf_counter() - started)
        return result

    def _used(self) -> dict[int, float]:
        used = {pid: self._tree.cpu_seconds_of(pid) for pid in self._kinds}
        used[os.getpid()] = time.process_time()  # Finer than the kernel's ticks.
        return used


def kind_of(pid: int) -> str:
    """Returns the kind of a process of the tree."""
    if pid == os.getpid():
        return "Python"
    command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    if "--type=" in command:
        return command.partition("--type=")[2].split()[0]
    return "Node" if "run-driver" in command else "browser"


class Sent:
    """Counts the messages to Playwright's driver."""

    count = 0

    @classmethod
    def watch(cls) -> None:
        """Counts from now on."""
        from playwright._impl import transport

        send = transport.PipeTransport.send

        def counting(self: Any, message: Any) -> None:
            cls.count += 1
            send(self, message)

        transport.PipeTransport.send = counting  # type: ignore[method-assign]


async def measure(
    task: str, *, channels: Sequence[str], parallel: int, episodes: int
) -> dict[str, Row]:
    """Plays episodes in lockstep in `parallel` environments on one browser."""
    async with BrowserPool(contexts_per_browser=parallel) as pool:
        environments = [
            MiniwobEnvironment(task, pool=pool, observe=channels, seed=i * episodes)
            for i in range(parallel)
        ]
        await _play(environments, 2)
        meter = await _play(environments, episodes)
        await asyncio.gather(*(environment.close() for environment in environments))
    return {name: phase.row() for name, phase in meter.phases.items()}


async def _play(environments: Sequence[MiniwobEnvironment], episodes: int) -> Meter:
    await asyncio.gather(*(environment.reset() for environment in environments))
    meter = Meter()
    for _ in range(episodes):
        await meter.run("reset", [environment.reset() for environment in environments])
        playing = list(environments)
        while playing:
            actions = await meter.run("oracle", [env.cheat() for env in playing])
            results = await meter.run(
                "step",
                [env.step(action) for env, action in zip(playing, actions, strict=True)],
            )
            for result in results:
                for part, seconds in meter.phases["step"].parts.items():
                    seconds.append(result.observation["timings"][part])
            pairs = zip(playing, results, strict=True)
            playing = [environment for environment, result in pairs if not result.last()]
    return meter


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=60, help="for each environment")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    Sent.watch()
    rows: dict[tuple[str, str, str], Row] = {}
    for task in TASKS:
        for parallel in (1, 8):
            for way, channels in (("text", TEXT), ("JPEG", (*TEXT, "screenshot"))):
                measured = asyncio.run(
                    measure(task, channels=channels, parallel=parallel, episodes=options.episodes)
                )
                for phase, row in measured.items():
                    rows[task, f"{way}, x{parallel}", phase] = row
    show(rows)
    if options.json:
        told = {"; ".join(key): row for key, row in rows.items()}
        options.json.write_text(json.dumps(told, indent=1))


def show(rows: dict[tuple[str, str, str], Row]) -> None:
    table = Table(
        title=f"CPU ms and wall ms of one call ({find_browser().version})",
        caption=f"load of the machine: {os.getloadavg()[0]:.1f}",
    )
    for heading in ("task", "way", "call"):
        table.add_column(heading, no_wrap=True)
    columns = (*KINDS, "CPU", "to Node", "wall", *PARTS)
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for key, row in rows.items():
        table.add_row(*key, *(f"{row[column]:.1f}" for column in columns))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
