"""How a rollout grows with the machines of a Ray cluster.

    make bench-ray_scaling        (or: .venv/bin/python benchmarks/ray_scaling.py)

Clusters of one node, of two, ... are started on this machine, all nodes recording into one folder,
and the same kind of rollout is played on each. A step waits for 50 ms, as for a site's answer, and
costs no processor: what is measured is how well rows are handed out, not how fast this machine's
cores are, which the nodes share. Shown are steps a second, the share of what all lanes could do at
that pace, and the driver's memory.

`measure(nodes)` is the same as a function.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dm_env
from rich.console import Console
from rich.table import Table

from webtraj import Decision, registry
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed import Cluster, NodeSizing, collect_on_ray

STEPS, PAUSE, LANES = 20, 0.05, 16


class Site:
    """A site that takes its time."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self._left = 0

    async def reset(self) -> dm_env.TimeStep:
        self._left = STEPS
        return dm_env.restart(self._left)

    async def step(self, action: Any) -> dm_env.TimeStep:
        await asyncio.sleep(PAUSE)
        self._left -= 1
        if self._left:
            return dm_env.transition(0.0, self._left)
        return dm_env.termination(1.0, self._left)

    async def close(self) -> None: ...

    async def __aenter__(self) -> Site:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...


class Visitor:
    name = "visitor"

    def begin_episode(self, environment: Any) -> Visitor:
        return self

    async def act(self, observation: Any) -> Decision:
        return Decision(action=observation)


def setup() -> None:
    registry.register("site", Site, tasks=("visit",))


class Clock:
    """Notes when episodes ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def rollout_planned(self, plan: object) -> None: ...

    def episode_ended(self, result: object) -> None:
        self.ends.append(time.perf_counter())


@dataclasses.dataclass(frozen=True)
class Measured:
    nodes: int
    episodes: int
    seconds: float
    """All of it: nodes start and end in it."""
    steps_per_second: float
    """Once all lanes play: between the first episode's end and the last one's."""
    memory: int
    """The driver's peak so far, in bytes."""

    @property
    def share(self) -> float:
        return self.steps_per_second * PAUSE / (self.nodes * LANES)


def measure(nodes: int, *, episodes_per_lane: int = 20) -> Measured:
    """Plays on so many nodes, each with `LANES` lanes."""
    episodes = nodes * LANES * episodes_per_lane
    clock = Clock()
    with cluster(nodes) as address, tempfile.TemporaryDirectory() as folder:
        summary = asyncio.run(
            collect_on_ray(
                RunSpec(preset="site", out=folder, episodes=episodes),
                agent=Visitor,
                cluster=Cluster(
                    address=address,
                    setup=setup,
                    sizing=NodeSizing(cpus_per_episode=4 / LANES, memory_per_episode=1 << 20),
                ),
                observer=clock,
            )
        )
    assert len({result.row for result in summary.results if result.finished}) == episodes
    first_wave = nodes * LANES
    played = (episodes - first_wave) * STEPS
    rate = played / (clock.ends[-1] - clock.ends[first_wave - 1])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Measured(nodes, episodes, summary.seconds, rate, memory)


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Starts a cluster, and gives its address."""
    from ray import cluster_utils

    started = cluster_utils.Cluster()
    try:
        for _ in range(nodes):
            started.add_node(num_cpus=4, memory=1 << 30, object_store_memory=100 << 20)
        yield started.address
    finally:
        started.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    setup()
    table = Table("nodes", "lanes", "episodes", "steps/s", "of the lanes", "s in all", "driver MB")
    for nodes in arguments.nodes:
        found = measure(nodes)
        table.add_row(
            f"{nodes}",
            f"{nodes * LANES}",
            f"{found.episodes}",
            f"{found.steps_per_second:.0f}",
            f"{found.share:.0%}",
            f"{found.seconds:.1f}",
            f"{found.memory / 1e6:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
