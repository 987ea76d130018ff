"""How much of the bare environment's rate a rollout keeps, beside AgentLab in the same run.

    make bench-rollouts        (or: .venv/bin/python benchmarks/rollouts.py)

1. The oracle plays MiniWoB++'s `login-user` and `click-checkboxes` with text and a JPEG at each
   step, 1 to 32 episodes at a time: "bare" by a plain loop over environments, "rollout" by
   `collect`, with the plan written and everything recorded. Both play the same episodes with the
   same seeds from the same pool, in turns; the shares are medians over the repeats. CPU is that of
   the whole process tree. The aim is a share of 95 %.
2. AgentLab on the same tasks, by an agent that reads the solution off the page, 1 and 2 jobs at a
   time, with the smallest delays that it has options for, and with its defaults.
3. The engine alone: an environment that takes no time, so what is left is the runner and the
   record. `--profile` says where that goes.

A new file may cost 5 µs of CPU (tmpfs) or 800 (ext4 in a block group whose inodes are nearly all
taken), so the benchmark prints what it costs in `--folder`.

WebGym's own figure, 13.2 steps/s on 128 CPUs, stands beside these, a core each. The workloads
differ: WebGym's steps are a vision-language model's on live web sites, on 24 H100s; here a script
acts on small local pages. So it bounds what the machine's CPUs are needed for, and no more.

AgentLab runs in `.venv-agentlab`, made on the first run; without a network it is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import dataclasses
import itertools
import json
import math
import os
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dm_env
from rich.console import Console
from rich.table import Table

import peers
import webtraj
from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment, tasks
from webtraj.rollouts import PlannedEpisode, RunSpec, collect, plan_episodes

TASKS = ("login-user", "click-checkboxes")
CHANNELS = ("goal", "url", "axtree", "focused", "last_action", "info", "screenshot")
PARALLEL = (1, 2, 4, 8, 16, 32)
CONTEXTS_PER_BROWSER = 16
"""As many as `collect` itself would put into one."""
AGENTLAB = ("--no-deps", "--requirement=benchmarks/rollouts_agentlab.txt")
WEBGYM_STEPS_PER_SECOND, WEBGYM_CPUS = 13.2, 128
NOTHING = "bench/nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What one run took."""

    episodes: int
    steps: int
    wall: float
    cpu: float
    solved: int
    bytes: int = 0

    @property
    def episodes_per_s(self) -> float:
        return self.episodes / self.wall

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.wall

    @property
    def cpu_ms_per_step(self) -> float:
        return self.cpu / self.steps * 1e3


async def play_bare(
    plan: list[PlannedEpisode], pool: BrowserPool, parallel: int
) -> tuple[int, int]:
    """Returns steps and solved episodes. Each worker keeps its environment, as a rollout's does."""
    left = iter(plan)
    steps = solved = 0

    async def work() -> None:
        nonlocal steps, solved
        task = environment = None
        for planned in left:
            if planned.task != task or environment is None:
                if environment is not None:
                    await environment.close()
                task = planned.task
                environment = MiniwobEnvironment(
                    task.rpartition("/")[2], pool=pool, observe=CHANNELS
                )
            environment.set_seed(planned.seed)
            timestep = await environment.reset()
            while not timestep.last():
                timestep = await environment.step(await environment.cheat())
                steps += 1
            solved += timestep.reward == 1
        if environment is not None:
            await environment.close()

    await asyncio.gather(*(work() for _ in range(parallel)))
    return steps, solved


async def play_rollout(
    plan: list[PlannedEpisode], pool: BrowserPool, parallel: int, out: Path
) -> tuple[int, int]:
    summary = await collect(
        RunSpec(
            agent="oracle", parallel=parallel, out=out, environment_options={"observe": CHANNELS}
        ),
        tasks=plan,
        pool=pool,
    )
    return summary.total.steps, summary.total.successes


def seconds_for_a_file(place: Path, files: int = 500) -> float:
    """Returns the CPU time to make one empty file, spread over folders as a dataset's blobs are."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        for k in range(100):
            Path(folder, str(k)).mkdir()
        started = time.process_time()
        for k in range(files):
            os.close(os.open(f"{folder}/{k % 100}/{k}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        return (time.process_time() - started) / files


async def compare(
    parallel: int, episodes: int, repeats: int, place: Path
) -> dict[str, list[Figures]]:
    """Plays both ways in turns, in random order."""
    tree = ProcessTree()
    figures: dict[str, list[Figures]] = {"bare": [], "rollout": []}
    browsers = math.ceil(parallel / CONTEXTS_PER_BROWSER)
    async with BrowserPool(browsers, math.ceil(parallel / browsers)) as pool:
        # Pages, imports and caches that the first would otherwise pay for.
        warm_up = planned(2 * parallel, seed=0)
        await play_bare(warm_up, pool, parallel)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            await play_rollout(warm_up, pool, parallel, Path(folder) / "dataset")
        for repeat in range(repeats):
            plan = planned(episodes, seed=1 + repeat)
            for way in random.sample(list(figures), len(figures)):
                with tempfile.TemporaryDirectory(dir=place) as folder:
                    out = Path(folder) / "dataset"
                    cpu, started = tree.cpu_seconds(), time.perf_counter()
                    if way == "bare":
                        steps, solved = await play_bare(plan, pool, parallel)
                    else:
                        steps, solved = await play_rollout(plan, pool, parallel, out)
                    wall, cpu = time.perf_counter() - started, tree.cpu_seconds() - cpu
                    figures[way].append(
                        Figures(episodes, steps, wall, cpu, solved, folder_size(out))
                    )
    return figures


def planned(episodes: int, *, seed: int) -> list[PlannedEpisode]:
    return list(plan_episodes([f"miniwob/{task}" for task in TASKS], episodes=episodes, seed=seed))


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class NothingEnvironment:
    """Takes no time: three steps, each with a kilobyte of text."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._step = 0

    async def reset(self) -> dm_env.TimeStep:
        self._step = 0
        return dm_env.restart(self._observation())

    async def step(self, action: Any) -> dm_env.TimeStep:
        self._step += 1
        if self._step == 3:
            return dm_env.termination(1.0, self._observation())
        return dm_env.transition(0.0, self._observation())

    async def cheat(self) -> str:
        return "click('1')"

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> NothingEnvironment:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        pass

    def _observation(self) -> dict[str, str]:
        return {"axtree": f"{next(self._numbers):1024}"}


async def engine_alone(
    episodes: int, place: Path, *, recorded: bool, profile: bool = False
) -> Figures:
    """Plays episodes that take no time themselves, 32 at a time."""
    webtraj.register(NOTHING, NothingEnvironment)
    profiler = cProfile.Profile()
    try:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            out = Path(folder) / "dataset"
            cpu, started = time.process_time(), time.perf_counter()
            if profile:
                profiler.enable()
            summary = await collect(
                RunSpec(
                    preset=NOTHING,
                    agent="oracle",
                    episodes=episodes,
                    parallel=32,
                    out=out if recorded else None,
                )
            )
            profiler.disable()
            wall, cpu = time.perf_counter() - started, time.process_time() - cpu
            size = folder_size(out)
    finally:
        webtraj.unregister(NOTHING)
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    return Figures(episodes, summary.total.steps, wall, cpu, episodes, size)


def agentlab(episodes: int, jobs: int, *, defaults: bool) -> Figures:
    python = peers.make_venv("agentlab", AGENTLAB)
    with tempfile.TemporaryDirectory() as folder:
        browser = find_browser().path or ""
        variables = peers.browsergym_variables(
            python, Path(folder), browser, tasks.html_folder() / "miniwob"
        )
        told = peers.run_peer(
            python,
            Path(__file__).with_name("rollouts_agentlab.py"),
            *(str(episodes), str(jobs), str(int(defaults)), *TASKS),
            env={**variables, "AGENTLAB_EXP_ROOT": folder},
        )
    return Figures(**told)


def share(figures: dict[str, list[Figures]], of: str) -> float:
    """Returns the rollout's rate as a share of the bare environment's, median of the repeats."""
    return statistics.median(
        (bare.wall / rollout.wall) if of == "wall" else (bare.cpu / rollout.cpu)
        for bare, rollout in zip(figures["bare"], figures["rollout"], strict=True)
    )


def best(figures: list[Figures]) -> Figures:
    return min(figures, key=lambda one: one.wall)


def peer_rows(options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    for jobs, defaults in ((1, False), (2, False), (2, True)):
        delays = "defaults" if defaults else "slow_mo 0"
        try:
            yield (
                f"AgentLab, {delays}, x{jobs}",
                agentlab(options.peer_episodes, jobs, defaults=defaults),
            )
        except subprocess.CalledProcessError as error:
            print(f"AgentLab left out: {error}", file=sys.stderr)


def add_row(table: Table, name: str, one: Figures, *shares: str) -> None:
    table.add_row(
        name,
        f"{one.episodes_per_s:.2f}",
        f"{one.steps_per_s:.1f}",
        f"{one.cpu_ms_per_step:.1f}",
        f"{1e3 / one.cpu_ms_per_step:.1f}",
        f"{one.solved}/{one.episodes}",
        *shares,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parallel", type=int, nargs="*", default=PARALLEL)
    parser.add_argument("--episodes", type=int, default=96, help="for each way and repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine-episodes", type=int, default=2000)
    parser.add_argument("--peer-episodes", type=int, default=12, help="for AgentLab")
    parser.add_argument("--no-peer", action="store_true", help="leave AgentLab out")
    parser.add_argument("--profile", action="store_true", help="say where the engine's time goes")
    parser.add_argument("--folder", type=Path, default=Path(), help="where rollouts record")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    console = Console(width=120)
    a_file = seconds_for_a_file(options.folder)
    console.print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; a new file here takes "
        f"{a_file * 1e6:.0f} µs of CPU, and an episode with k pictures makes about k + 2"
    )
    told: dict[str, Any] = {"cores": os.cpu_count(), "seconds for a file": a_file}

    headings = ("episodes/s", "steps/s", "CPU ms/step", "steps/s a core", "solved")
    table = Table(title="MiniWoB++ by an oracle, text and JPEG at each step")
    table.add_column("way", no_wrap=True)
    for heading in (*headings, "share of bare", "by CPU"):
        table.add_column(heading, justify="right")
    for parallel in options.parallel:
        figures = asyncio.run(compare(parallel, options.episodes, options.repeats, options.folder))
        wall, cpu = share(figures, "wall"), share(figures, "cpu")
        add_row(table, f"bare, x{parallel}", best(figures["bare"]))
        add_row(
            table, f"rollout, x{parallel}", best(figures["rollout"]), f"{wall:.1%}", f"{cpu:.1%}"
        )
        for way, runs in figures.items():
            told[f"{way} x{parallel}"] = dataclasses.asdict(best(runs))
        told[f"share x{parallel}"] = {"wall": wall, "cpu": cpu}
    if not options.no_peer:
        for name, one in peer_rows(options):
            add_row(table, name, one)
            told[name] = dataclasses.asdict(one)
    table.add_row(
        "WebGym, as published (see above)", "1.0", f"{WEBGYM_STEPS_PER_SECOND}", "",
        f"{WEBGYM_STEPS_PER_SECOND / WEBGYM_CPUS:.2f}", "",
    )  # fmt: skip
    console.print(table)

    table = Table("the engine alone, x32", "episodes/s", "CPU µs an episode", "bytes an episode")
    for name, recorded in (("runner", False), ("runner and record", True)):
        one = asyncio.run(
            engine_alone(
                options.engine_episodes,
                options.folder,
                recorded=recorded,
                profile=options.profile and recorded,
            )
        )
        table.add_row(
            name,
            f"{one.episodes_per_s:.0f}",
            f"{one.cpu / one.episodes * 1e6:.0f}",
            f"{one.bytes / one.episodes:.0f}",
        )
        told[name] = dataclasses.asdict(one)
    console.print(table)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
