"""What recording costs, beside Minari's DataCollector and a pickle for each step.

    make bench-recording        (or: .venv/bin/python benchmarks/recording.py)

Three tables:

1. The wrapper alone: nanoseconds a step over the bare environment, with the null collector.
2. A web step (a 100 KB screenshot and 20 KB of text, new at each step, 30 steps an episode): all
   ways of keeping it, in the same run. "call" is what a step takes longer, "all" includes waiting
   until everything is in its final place; "CPU" is process time, all threads.
3. Many episodes: memory while 10,000 episodes are recorded, and the time to open their index.

The order of the ways is shuffled and each is run several times; the best is shown, since all else
on the machine can only make a run slower.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import pickle
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import dm_env
from rich.console import Console
from rich.table import Table

import peers
import webtraj

SCREENSHOT, TEXT, LENGTH = 100_000, 20_000, 30
MINARI = ("minari[hdf5,arrow,create]==0.5.4", "pillow")


class BareEnvironment:
    """Takes no time at all."""

    def __init__(self, observations: list[Any], length: int | None) -> None:
        self._observations = observations
        self._length = length
        self._t = 0

    async def reset(self) -> dm_env.TimeStep:
        self._t = 0
        return dm_env.restart(self._observations[0])

    async def step(self, action: Any) -> dm_env.TimeStep:
        self._t += 1
        observation = self._observations[self._t % len(self._observations)]
        if self._t == self._length:
            return dm_env.termination(1.0, observation)
        return dm_env.transition(0.0, observation)

    async def close(self) -> None:
        pass


class PickleEnvironment(BareEnvironment):
    """Writes a pickle for each step, as plain scripts do."""

    def __init__(self, folder: Path, observations: list[Any], length: int) -> None:
        super().__init__(observations, length)
        self._folder = folder
        self._written = 0

    async def step(self, action: Any) -> dm_env.TimeStep:
        timestep = await super().step(action)
        with (self._folder / f"step_{self._written}.pkl").open("wb") as file:
            pickle.dump((action, tuple(timestep)), file)
        self._written += 1
        return timestep


async def play(env: Any, steps: int) -> None:
    timestep = await env.reset()
    for action in range(steps):
        timestep = await (env.reset() if timestep.last() else env.step(action))


async def wrapper_overhead(steps: int, repeats: int) -> dict[str, float]:
    """Seconds a step, best of `repeats`."""
    envs = {
        "bare": BareEnvironment([{"x": 1}], None),
        "null": webtraj.TrajectoryCollectingEnvironment(
            BareEnvironment([{"x": 1}], None), webtraj.NullTrajectoryCollector()
        ),
    }
    best = dict.fromkeys(envs, float("inf"))
    for env in envs.values():
        await env.reset()
    for _ in range(repeats):
        for name, env in envs.items():
            start = time.perf_counter()
            for action in range(steps):
                await env.step(action)
            best[name] = min(best[name], (time.perf_counter() - start) / steps)
    return best


def observations(count: int) -> list[dict[str, Any]]:
    rng = random.Random(0)
    return [
        {"screenshot": rng.randbytes(SCREENSHOT), "axtree": rng.randbytes(TEXT // 2).hex()}
        for _ in range(count)
    ]


async def web_step(make: Callable[[Path], tuple[Any, Callable[[], Awaitable[None]]]], steps: int):
    """Returns (call, all, CPU) in seconds a step."""
    with tempfile.TemporaryDirectory(dir=".") as name:
        env, finish = make(Path(name))
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        await play(env, steps)
        called = time.perf_counter()
        await finish()
        done = time.perf_counter()
        used = time.process_time() - cpu
    return (called - wall) / steps, (done - wall) / steps, used / steps


def ways(seen: list[Any]) -> dict[str, Callable[[Path], Any]]:
    def collected(**options: Any) -> Callable[[Path], Any]:
        def make(folder: Path) -> Any:
            collector = webtraj.JsonTrajectoryCollector(folder / "dataset", **options)
            env = webtraj.TrajectoryCollectingEnvironment(BareEnvironment(seen, LENGTH), collector)

            async def finish() -> None:
                await env.close()
                await collector.aclose()

            return env, finish

        return make

    async def nothing() -> None:
        pass

    return {
        "bare environment": lambda folder: (BareEnvironment(seen, LENGTH), nothing),
        "webtraj JSON, fsync never": collected(fsync="never"),
        "webtraj JSON, fsync episode": collected(fsync="episode"),
        "webtraj JSON, fsync step": collected(fsync="step"),
        "pickle a step, no fsync": lambda folder: (
            PickleEnvironment(folder, seen, LENGTH),
            nothing,
        ),
    }


def minari(steps: int) -> dict[str, Any]:
    python = peers.make_venv("minari", MINARI)
    script = Path(__file__).with_name("recording_minari.py")
    return peers.run_peer(python, script, *map(str, (steps, LENGTH, SCREENSHOT, TEXT)))


async def many_episodes(count: int) -> dict[str, float]:
    small = [{"x": i} for i in range(4)]
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name) / "dataset"
        rss = []
        async with webtraj.JsonTrajectoryCollector(folder, fsync="never") as collector:
            env = webtraj.TrajectoryCollectingEnvironment(BareEnvironment(small, 3), collector)
            start = time.perf_counter()
            for episode in range(count):
                await play(env, 3)
                if episode % (count // 10) == count // 10 - 1:
                    await collector.flush()
                    rss.append(_rss_mib())
            await env.close()
        recorded = time.perf_counter() - start
        start, cpu = time.perf_counter(), time.process_time()
        assert len(webtraj.open_dataset(folder)) == count
        opened, opened_cpu = time.perf_counter() - start, time.process_time() - cpu
    return {
        "episodes/s": count / recorded,
        "MiB after the first tenth": rss[0],
        "MiB at the end": rss[-1],
        "index opened in s": opened,
        "index opened in s of CPU": opened_cpu,
    }


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--without-peers", action="store_true")
    args = parser.parse_args()
    console = Console()
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")

    overhead = asyncio.run(wrapper_overhead(20_000, args.repeats))
    over = (overhead["null"] - overhead["bare"]) * 1e6
    console.print(f"wrapper + null collector: {over:.2f} µs a step over the bare environment's "
                  f"{overhead['bare'] * 1e6:.2f} µs (aim: 2)\n")  # fmt: skip

    seen = observations(args.steps)
    figures: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(args.repeats):
        shuffled = list(ways(seen).items())
        random.shuffle(shuffled)
        for name, make in shuffled:
            figures.setdefault(name, []).append(asyncio.run(web_step(make, args.steps)))
        if not args.without_peers:
            for data_format, used in minari(args.steps).items():
                if isinstance(used, dict):
                    row = (float("nan"), used["wall"], used["cpu"])
                    figures.setdefault(f"Minari, {data_format}", []).append(row)
    table = Table("a web step (ms)", "call", "all", "CPU", "all, median")
    for name, rows in figures.items():
        best = [min(column) * 1e3 for column in zip(*rows, strict=True)]
        median = statistics.median(row[1] for row in rows) * 1e3
        table.add_row(name, *(f"{value:.3f}" for value in best), f"{median:.3f}")
    console.print(table)

    table = Table(f"{args.episodes:,} episodes of 3 steps", "")
    for name, value in asyncio.run(many_episodes(args.episodes)).items():
        table.add_row(name, f"{value:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
