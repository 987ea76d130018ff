"""Which part of a rollout saturates first: 10,000 episodes at once on 100 nodes, simulated.

    make bench-simulate_scale        (or: .venv/bin/python benchmarks/simulate_scale.py)

No machine here has 100 nodes. So the parts are measured where they can be, and a discrete-event
simulation plays them against each other:

* driver: one CPU, which hands out turns and takes results. Measured here on the rollout's own
  scheduler and messages, pickled as Ray does; a remote call itself costs `--rpc`.
* driver's memory: measured here on a real plan of `--rows` tasks, all of its turns, an entry for
  every episode that is out, and a result for every row.
* browsers: the CPUs of a node, each step costing `--browser-cpu`. Measured here, unless it is
  given: MiniWoB++ by the oracle, with everything recorded. Live pages cost more.
* site: what a step waits for its page, and costs nobody here anything (`--page`).
* store: puts of `--put` seconds, for each step one picture, for each episode its file. A node has
  16 under way at once, as the collector has; the bucket takes `--puts-per-second` in all. An
  episode does not wait for its puts; its row does.
* model: `--replicas` servers of `--slots` sequences each; a reply takes `--reply` seconds while
  there is a slot.

The steps of an episode are geometric, with WebGym's mean of 13.2; times are exponential, but for
CPU times and the bucket's rate, which are fixed. Everything follows from `--seed`.

The first table has a line for each number of episodes at once; a part is saturated where it is in
use for 95 % and more of the time. The second says what each part could do if all others were free:
the rate at which it is full, and at how many episodes at once that would be.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import functools
import gc
import heapq
import itertools
import json
import pickle
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from webtraj.rollouts import EpisodeResult, TaskSpec, plan_tasks
from webtraj.rollouts.distributed.node import Played
from webtraj.rollouts.scheduler import Scheduler, Turn
from webtraj.trajectory import EndReason, Outcome

SATURATED = 0.95
PUTS_UNDER_WAY = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What things take, in seconds, and how much there is of what does them."""

    nodes: int
    cores: int
    steps: float
    browser: float
    page: float
    put: float
    puts_per_second: float
    replicas: int
    slots: int
    reply: float
    driver: float
    """CPU of the driver for each episode."""

    @property
    def parts(self) -> dict[str, tuple[float, float]]:
        """For each part: servers of it, and seconds of one for each episode."""
        puts = self.steps + 2
        return {
            "driver": (1, self.driver),
            "browsers": (self.nodes * self.cores, self.steps * self.browser),
            "puts under way": (self.nodes * PUTS_UNDER_WAY, puts * self.put),
            "bucket": (1, puts / self.puts_per_second),
            "model": (self.replicas * self.slots, self.steps * self.reply),
        }

    @property
    def seconds_alone(self) -> float:
        """What an episode takes that waits for nobody."""
        return self.steps * (self.browser + self.page + self.reply) + self.driver


class Clock:
    """Simulated time: what was put off is called in the order of its times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._calls: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._calls, (self.now + seconds, next(self._order), call))

    def run_until(self, end: float) -> None:
        while self._calls and self._calls[0][0] <= end:
            self.now, _, call = heapq.heappop(self._calls)
            call()
        self.now = end


class Part:
    """Servers with one queue: who comes first is served first."""

    def __init__(self, clock: Clock, servers: int) -> None:
        self.servers = servers
        self.busy_seconds = self.wait_seconds = 0.0
        self.served = 0
        self._clock = clock
        self._free = servers
        self._since = 0.0
        self._queue: collections.deque[tuple[float, float, Callable[[], None]]] = (
            collections.deque()
        )

    def serve(self, seconds: float, then: Callable[[], None]) -> None:
        self._account()
        if self._free:
            self._begin(self._clock.now, seconds, then)
        else:
            self._queue.append((self._clock.now, seconds, then))

    def forget(self) -> None:
        """Begins to count anew."""
        self._account()
        self.busy_seconds = self.wait_seconds = 0.0
        self.served = 0

    def utilization(self, seconds: float) -> float:
        self._account()
        return self.busy_seconds / (self.servers * seconds)

    def _begin(self, came: float, seconds: float, then: Callable[[], None]) -> None:
        self._free -= 1
        self.served += 1
        self.wait_seconds += self._clock.now - came
        self._clock.after(seconds, functools.partial(self._done, then))

    def _done(self, then: Callable[[], None]) -> None:
        self._account()
        self._free += 1
        if self._queue:
            self._begin(*self._queue.popleft())
        then()

    def _account(self) -> None:
        """Counts busy time as it passes, so that a window's is the window's own."""
        self.busy_seconds += (self._clock.now - self._since) * (self.servers - self._free)
        self._since = self._clock.now


class Simulation:
    """So many episodes at once; whoever ends is followed by another."""

    def __init__(self, costs: Costs, episodes: int, *, seed: int) -> None:
        self.costs = costs
        self.steps = self.ended = 0
        self.open_rows = 0
        self.clock = Clock()
        self._random = random.Random(seed)
        part = functools.partial(Part, self.clock)
        self.driver = part(1)
        self.bucket = part(1)
        self.model = part(costs.replicas * costs.slots)
        self.browsers = [part(costs.cores) for _ in range(costs.nodes)]
        self.uploads = [part(PUTS_UNDER_WAY) for _ in range(costs.nodes)]
        for number in range(episodes):
            # Not all at the same moment, nor all at their beginning.
            node = number % costs.nodes
            begin = functools.partial(self._step, node, self._length())
            self.clock.after(self._random.uniform(0, costs.seconds_alone / costs.steps), begin)
        self.open_rows = episodes

    def run(self, warm_up: float, seconds: float) -> None:
        self.clock.run_until(warm_up)
        for part in self._all_parts:
            part.forget()
        self.steps = self.ended = 0
        self.clock.run_until(warm_up + seconds)

    def utilizations(self, seconds: float) -> dict[str, tuple[float, float]]:
        """For each part: how much of it was in use, and how long was waited for it on average."""
        groups = {
            "driver": [self.driver],
            "browsers": self.browsers,
            "puts under way": self.uploads,
            "bucket": [self.bucket],
            "model": [self.model],
        }
        return {
            name: (
                sum(part.utilization(seconds) for part in parts) / len(parts),
                sum(part.wait_seconds for part in parts)
                / max(sum(part.served for part in parts), 1),
            )
            for name, parts in groups.items()
        }

    @property
    def _all_parts(self) -> list[Part]:
        return [self.driver, self.bucket, self.model, *self.browsers, *self.uploads]

    def _length(self) -> int:
        steps = 1
        while self._random.random() > 1 / self.costs.steps:
            steps += 1
        return steps

    def _drawn(self, mean: float) -> float:
        return self._random.expovariate(1 / mean) if mean else 0.0

    def _step(self, node: int, left: int) -> None:
        acted = functools.partial(self._acted, node, left)
        self.model.serve(self._drawn(self.costs.reply), acted)

    def _acted(self, node: int, left: int) -> None:
        loaded = functools.partial(self._loaded, node, left)
        self.browsers[node].serve(
            self.costs.browser, lambda: self.clock.after(self._drawn(self.costs.page), loaded)
        )

    def _loaded(self, node: int, left: int) -> None:
        self.steps += 1
        self._put(node, lambda: None)
        if left > 1:
            self._step(node, left - 1)
            return
        self.ended += 1
        # Its file and its share of an index; then the driver may forget the row.
        self._put(node, lambda: self._put(node, lambda: self._close_row()))
        begin = functools.partial(self._step, node, self._length())
        self.open_rows += 1
        self.driver.serve(self.costs.driver / 2, begin)

    def _close_row(self) -> None:
        def closed() -> None:
            self.open_rows -= 1

        self.driver.serve(self.costs.driver / 2, closed)

    def _put(self, node: int, then: Callable[[], None]) -> None:
        def admitted() -> None:
            self.uploads[node].serve(self._drawn(self.costs.put), then)

        self.bucket.serve(1 / self.costs.puts_per_second, admitted)


def turns_of(rows: int) -> list[Turn]:
    """Returns turns as of WebGym's tasks: a web task each, with a goal and a site."""
    specs = (
        TaskSpec(
            name=f"task-{row:06d}",
            goal=f"Find the {row}th of the things that this site has, and say what it costs.",
            start_url=f"https://www.site-{row % 127_645}.example/",
            site=f"site-{row % 127_645}.example",
            domain="shopping",
            difficulty=row % 9 + 1,
        )
        for row in range(rows)
    )
    return [Turn(planned=planned) for planned in plan_tasks(specs)]


def result_of(turn: Turn, episode_id: str) -> EpisodeResult:
    return EpisodeResult(
        task=turn.planned.task,
        seed=turn.planned.seed,
        attempt=turn.planned.attempt,
        episode_id=episode_id,
        end_reason=EndReason.TERMINATED,
        outcome=Outcome.SUCCESS,
        num_steps=13,
        total_reward=1.0,
        seconds=60.0 + turn.planned.row,
        row=turn.planned.row,
        site=turn.planned.spec.site,
        level=turn.planned.spec.level,
    )


def episode_id_of(turn: Turn) -> str:
    return f"20261120T130405-9f86d081-{turn.planned.row:06d}-{turn.number:02d}"


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What the driver holds, in bytes."""

    plan: int
    scheduler: int
    out: int
    results: int


def driver_memory(rows: int, out: int) -> Memory:
    """Measures the driver's own objects, at the moment when it has most of each."""
    gc.collect()
    tracemalloc.start()
    try:
        sizes = [tracemalloc.get_traced_memory()[0]]

        def measured(made: Any) -> Any:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
            return made

        turns = measured(turns_of(rows))
        scheduler = measured(Scheduler(turns))
        gone = measured({episode_id_of(turn): turn for turn in turns[:out]})
        results = measured(
            {(episode := episode_id_of(turn)): result_of(turn, episode) for turn in turns}
        )
        del scheduler, gone, results
    finally:
        tracemalloc.stop()
    return Memory(*(after - before for before, after in itertools.pairwise(sizes)))


async def driver_seconds(rows: int, rpc: float) -> float:
    """Measures CPU seconds for each episode: a turn out, and its end back in, in one call."""
    scheduler = Scheduler(turns_of(rows))
    results: dict[str, EpisodeResult] = {}
    used = 0.0
    for _ in range(rows):
        started = time.process_time()
        turn = await scheduler.take()
        assert turn is not None
        episode = episode_id_of(turn)
        out = {episode: turn}
        sent = pickle.dumps(turn)
        used += time.process_time() - started
        data = pickle.dumps(Played(result_of(pickle.loads(sent), episode), False, True))
        started = time.process_time()
        played: Played = pickle.loads(data)
        results[episode] = played.result
        scheduler.finish(out.pop(episode))
        used += time.process_time() - started
    return used / rows + rpc


def browser_seconds() -> float:
    """Measures CPU seconds for each step of a rollout that records everything."""
    import rollouts

    figures = asyncio.run(rollouts.compare(8, 48, 2, Path(tempfile.gettempdir())))
    return min(one.cpu_ms_per_step for one in figures["rollout"]) / 1e3


def costs_of(options: argparse.Namespace) -> Costs:
    browser = options.browser_cpu if options.browser_cpu is not None else browser_seconds()
    return Costs(
        nodes=options.nodes,
        cores=options.cores,
        steps=options.steps,
        browser=browser,
        page=options.page,
        put=options.put,
        puts_per_second=options.puts_per_second,
        replicas=options.replicas,
        slots=options.slots,
        reply=options.reply,
        driver=asyncio.run(driver_seconds(options.driver_rows, options.rpc)),
    )


def simulated(costs: Costs, episodes: int, options: argparse.Namespace) -> dict[str, Any]:
    simulation = Simulation(costs, episodes, seed=options.seed)
    simulation.run(options.warm_up, options.seconds)
    return {
        "episodes": episodes,
        "steps/s": simulation.steps / options.seconds,
        "episodes/s": simulation.ended / options.seconds,
        "rows out": simulation.open_rows,
        "parts": simulation.utilizations(options.seconds),
    }


def show(costs: Costs, lines: list[dict[str, Any]], memory: Memory, rows: int) -> None:
    console = Console(width=130)
    console.print(
        f"{costs.nodes} nodes of {costs.cores} CPUs, {costs.replicas} x {costs.slots} sequences; "
        f"a step: {costs.browser * 1e3:.1f} ms of CPU, {costs.page:g} s for its page, "
        f"{costs.reply:g} s for its reply; a put: {costs.put * 1e3:g} ms; "
        f"an episode: {costs.steps:g} steps, {costs.driver * 1e6:.0f} µs of the driver"
    )
    table = Table(title="In use, and mean wait")
    for heading in ("at once", "steps/s", "episodes/s", "rows out", *costs.parts, "saturated"):
        table.add_column(heading, justify="right")
    for line in lines:
        full = [name for name, (used, _) in line["parts"].items() if used >= SATURATED]
        table.add_row(
            f"{line['episodes']:,}",
            f"{line['steps/s']:,.0f}",
            f"{line['episodes/s']:,.1f}",
            f"{line['rows out']:,}",
            *(f"{used:.0%}, {wait:.2f} s" for used, wait in line["parts"].values()),
            ", ".join(full) or "none",
        )
    console.print(table)
    table = Table("each part alone", "full at episodes/s", "at steps/s", "with episodes at once")
    for name, (servers, seconds) in sorted(
        costs.parts.items(), key=lambda item: item[1][0] / item[1][1]
    ):
        rate = servers / seconds
        table.add_row(
            name,
            f"{rate:,.1f}",
            f"{rate * costs.steps:,.0f}",
            f"{rate * costs.seconds_alone:,.0f}",
        )
    console.print(table)
    table = Table(f"driver's memory, {rows:,} rows", "MiB", "bytes a row")
    for name, size in dataclasses.asdict(memory).items():
        table.add_row(name, f"{size / 2**20:.1f}", f"{size / rows:.0f}")
    console.print(table)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cores", type=int, default=16, help="of each node")
    parser.add_argument(
        "--episodes", type=int, nargs="*", default=(1000, 3000, 10_000, 30_000), help="at once"
    )
    parser.add_argument("--steps", type=float, default=13.2, help="of an episode, on average")
    parser.add_argument("--browser-cpu", type=float, help="seconds a step; measured if not given")
    parser.add_argument("--page", type=float, default=1.0, help="seconds that a page takes")
    parser.add_argument("--put", type=float, default=0.05, help="seconds of a put")
    parser.add_argument("--puts-per-second", type=float, default=3500.0, help="of the bucket")
    parser.add_argument("--replicas", type=int, default=24, help="model servers")
    parser.add_argument("--slots", type=int, default=256, help="sequences at once, of each server")
    parser.add_argument("--reply", type=float, default=5.0, help="seconds of a model's reply")
    parser.add_argument("--rpc", type=float, default=0.0005, help="CPU seconds of a remote call")
    parser.add_argument("--rows", type=int, default=300_000, help="of the plan, for memory")
    parser.add_argument("--driver-rows", type=int, default=20_000, help="to measure the driver by")
    parser.add_argument("--warm-up", type=float, default=120.0, help="simulated seconds")
    parser.add_argument("--seconds", type=float, default=120.0, help="simulated and counted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    costs = costs_of(options)
    lines = [simulated(costs, episodes, options) for episodes in options.episodes]
    memory = driver_memory(options.rows, max(options.episodes))
    show(costs, lines, memory, options.rows)
    if options.json:
        told = {"costs": dataclasses.asdict(costs), "lines": lines,
                "memory": dataclasses.asdict(memory)}  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
