"""A soak: a long rollout while browsers, pages, the driver and tasks fail at random moments.

    make test-soak                       (2,000 episodes)
    make test-soak EPISODES=200 SEED=7

Three phases on one pool of two browsers, recorded to one dataset: a warm-up without faults, a storm
of them, and a calm at the end. Sixteen episodes run at a time: half by the oracle, half by the
random agent, some of them in rollouts that get cancelled. What must hold is in `audit`; the figures
are printed. Exits 1 if anything does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import audit as audit_lib
import psutil
from census import Census
from chaos import Chaos, WatchedPool
from seeds import seed_of

import webtraj
from webtraj.environments.browser.pool import PoolLimits
from webtraj.rollouts import EpisodeResult, RunSpec, collect
from webtraj.runs.plan import PlannedEpisode

ORACLE_TASKS = [
    f"miniwob/{name}"
    for name in (
        "click-test",
        "click-button",
        "click-checkboxes",
        "enter-text",
        "focus-text",
        "login-user",
        "use-slider",  # Loads its page anew for each episode.
        "choose-date-easy",
    )
]
RANDOM_TASKS = [
    f"miniwob/{name}"
    for name in ("click-test", "click-link", "enter-text", "search-engine", "click-tab-2")
]
CHANNELS = ("goal", "url", "axtree", "last_action", "info")

BROWSERS = 2
PARALLEL = {"oracle": 8, "random": 6, "cancelled": 2}

# Deadlines are short so that hangs cost little, and lives so that browsers get replaced.
LIMITS = PoolLimits(
    call=5.0, close=2.0, launch=20.0, lease=120.0, contexts_per_life=150, memory=2 << 30
)
# A page that floods its memory dies at this size, and not of the machine's.
BROWSER_ARGUMENTS = ("--js-flags=--max-old-space-size=256",)

STALLED = 120.0
"""Seconds without any episode ending, after which the soak has hung."""


class Tally:
    """Counts what is planned and what ends, over several rollouts."""

    def __init__(self) -> None:
        self.planned: list[PlannedEpisode] = []
        self.results: list[EpisodeResult] = []
        self.progress = asyncio.Condition()
        self._notices: set[asyncio.Task[None]] = set()

    def rollout_planned(self, plan: Any) -> None:
        self.planned += plan

    def episode_ended(self, result: EpisodeResult) -> None:
        self.results.append(result)
        notice = asyncio.ensure_future(self._notify())
        self._notices.add(notice)
        notice.add_done_callback(self._notices.discard)

    async def _notify(self) -> None:
        async with self.progress:
            self.progress.notify_all()


@dataclasses.dataclass
class Soak:
    """One soak, and what it saw."""

    folder: Path
    episodes: int
    seed: int
    phases: dict[str, Tally] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    censuses: dict[str, Census] = dataclasses.field(default_factory=dict)
    faults: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    complaints: list[str] = dataclasses.field(default_factory=list)
    pool_stats: Any = None
    left_over: list[str] = dataclasses.field(default_factory=list)

    async def run(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._complain)
        warm = calm = max(self.episodes // 10, 20)
        async with (
            webtraj.JsonTrajectoryCollector(self.folder, fsync="episode") as self.collector,
            WatchedPool(
                BROWSERS,
                sum(PARALLEL.values()) // BROWSERS,
                limits=LIMITS,
                arguments=BROWSER_ARGUMENTS,
            ) as self.pool,
        ):
            with self._phase("warm-up") as tally:
                await self._collect("oracle", warm, sum(PARALLEL.values()), seed=1, tally=tally)
            self.censuses["warm-up"] = Census.take()
            with self._phase("storm") as tally:
                await self._storm(self.episodes - warm - calm, tally)
            with self._phase("calm") as tally:
                await self._collect("oracle", calm, sum(PARALLEL.values()), seed=2, tally=tally)
            self.censuses["calm"] = Census.take()
            self.pool_stats = self.pool.stats
        self.left_over = [repr(p) for p in psutil.Process().children(recursive=True)]

    async def _collect(
        self, agent: str, episodes: int, parallel: int, *, seed: int, tally: Tally
    ) -> None:
        oracle = agent == "oracle"
        await collect(
            RunSpec(
                preset=ORACLE_TASKS if oracle else RANDOM_TASKS,
                agent=agent,
                episodes=episodes,
                parallel=parallel,
                seed=self.seed + seed,
                environment_options={
                    "observe": (*CHANNELS, "screenshot") if oracle else CHANNELS,
                    "max_steps": 30 if oracle else 5,
                },
                max_consecutive_errors=sys.maxsize,
            ),
            trajectory_collector=self.collector,
            pool=self.pool,
            observer=tally,
        )

    async def _storm(self, episodes: int, tally: Tally) -> None:
        chaos = Chaos(self.pool, random.Random(self.seed), gap=(2, 16))
        each = {lane: episodes * parallel // 16 for lane, parallel in PARALLEL.items()}
        async with asyncio.TaskGroup() as group:
            striking = group.create_task(chaos.strike(lambda: len(tally.results), tally.progress))
            watching = group.create_task(self._watch(tally))
            async with asyncio.TaskGroup() as lanes:
                for seed, lane in ((3, "oracle"), (4, "random")):
                    lanes.create_task(
                        self._collect(lane, each[lane], PARALLEL[lane], seed=seed, tally=tally)
                    )
                for number in range(PARALLEL["cancelled"]):
                    lanes.create_task(
                        self._cancelled_lane(number, each["cancelled"] // 2, chaos, tally)
                    )
            striking.cancel()
            watching.cancel()
        await chaos.end()
        self.faults = chaos.done

    async def _cancelled_lane(self, number: int, episodes: int, chaos: Chaos, tally: Tally) -> None:
        """Plays short rollouts one after the other, any of which may be cancelled."""
        ended = rollouts = 0
        while ended < episodes:
            before = Tally()
            seed = 1000 * (number + 1) + rollouts
            agent = ("oracle", "random")[rollouts % 2]
            task = asyncio.create_task(self._collect(agent, 10, 1, seed=seed, tally=before))
            chaos.cancellable.add(task)
            with contextlib.suppress(asyncio.CancelledError):
                await task
            chaos.cancellable.discard(task)
            for result in before.results:
                tally.episode_ended(result)
            # What a cancelled rollout had planned and not begun has no end.
            tally.planned += before.planned[: len(before.results)]
            ended += len(before.results)
            rollouts += 1

    async def _watch(self, tally: Tally) -> None:
        """Raises if nothing ends any more."""
        while True:
            count = len(tally.results)
            try:
                async with asyncio.timeout(STALLED), tally.progress:
                    await tally.progress.wait_for(lambda count=count: len(tally.results) > count)
            except TimeoutError:
                for task in asyncio.all_tasks():
                    task.print_stack(limit=6)
                raise AssertionError(f"No episode ended for {STALLED:g} s.") from None

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[Tally]:
        tally = self.phases[name] = Tally()
        started = time.perf_counter()
        yield tally
        self.seconds[name] = time.perf_counter() - started

    def _complain(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        source = context.get("task") or context.get("future") or context.get("handle") or ""
        self.complaints.append(f"{context['message']}: {type(error).__name__}: {error} {source}")


def show(soak: Soak) -> None:
    for name, tally in soak.phases.items():
        seconds = soak.seconds.get(name, 0.0)
        print(
            f"{name}: {len(tally.results)} episodes in {seconds:.1f} s "
            f"({len(tally.results) / max(seconds, 0.001):.1f}/s)"
        )
        ends = collections.Counter(
            f"{r.end_reason.name.lower()}/{r.outcome.name.lower()}" for r in tally.results
        )
        print("   ", ", ".join(f"{end} {count}" for end, count in ends.most_common()))
        errors = collections.Counter(
            f"{r.error.partition(':')[0]}: {r.error.partition(':')[2][:90]}"
            for r in tally.results
            if r.error
        )
        for error, count in errors.most_common():
            print(f"    {count:4} {error}")
    print("faults:", ", ".join(f"{name} {count}" for name, count in sorted(soak.faults.items())))
    print("pool:", soak.pool_stats)
    for name, census in soak.censuses.items():
        print(f"after the {name}: {json.dumps(dataclasses.asdict(census))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seed", type=seed_of, default=0, help="a number, or draw")
    parser.add_argument("--keep", type=Path, help="record to this folder, and leave it there")
    options = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # It warns of every pipe that breaks.
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options.keep or Path(folder, "dataset"), options.episodes, options.seed)
        sys.unraisablehook = lambda raised: soak.complaints.append(
            f"{raised.err_msg} {raised.object!r}: {raised.exc_value!r}"
        )
        try:
            asyncio.run(soak.run())
        finally:
            show(soak)
        problems = list(audit_lib.audit(soak))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
