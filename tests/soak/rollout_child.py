"""The process that plays, and gets killed: a rollout of a model agent while its browsers fail.

    python rollout_child.py '{"out": ..., "url": ..., "episodes": ...}'

It tells of what happens by JSON lines on stdout: the end of an episode is told when the rollout
tells it to an observer, and not before.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos import Chaos, WatchedPool
from click_policy import TASKS

from webtraj.agents import models
from webtraj.agents.model import ModelAgent
from webtraj.environments.browser.pool import PoolLimits
from webtraj.rollouts import (
    EpisodeResult,
    PlannedEpisode,
    RunSpec,
    collect,
)

RUN_ID = "soak"
KILLS = 5
"""How often the whole process is killed, where it is."""
BROWSERS = 2
PARALLEL = 8

# Deadlines are short so that hangs cost little. Of the first two, either may be the first.
LIMITS = PoolLimits(call=3.0, close=2.0, launch=20.0, lease=60.0)
SETTINGS = {
    "parallel": PARALLEL,
    "max_steps": 8,
    "step_timeout": 4.0,
    "timeout": 60.0,
    "max_retries": 100,
    "retry_pause": 0.2,
    "max_retry_pause": 2.0,
    "max_consecutive_errors": sys.maxsize,
}

SHARES = {"kill a browser": 0.05, "hang a page": 0.015, "stop a renderer": 0.005}
"""How many of each fault there are for each episode; one at least."""


def how_many(fault: str, episodes: int) -> int:
    return max(1, round(SHARES[fault] * episodes))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the child is to do."""

    out: str
    url: str
    episodes: int
    seed: int
    resume: bool
    chaos_seed: int | None
    """Nothing fails without one."""


def tell(kind: str, **fields: Any) -> None:
    print(json.dumps({"kind": kind, **fields}), flush=True)


class Teller:
    """Tells of what happens, and wakes who waits for it."""

    def __init__(self) -> None:
        self.left = 0
        self.ended = 0
        self.changed = asyncio.Event()

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        self.left = len(plan)
        tell("planned", left=self.left)
        self.changed.set()

    def episode_ended(self, result: EpisodeResult) -> None:
        self.ended += 1
        self.changed.set()
        tell("ended", **describe(result))

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()


def describe(result: EpisodeResult) -> dict[str, Any]:
    return {
        "id": result.episode_id,
        "row": result.row,
        "number": result.number,
        "task": result.task,
        "seed": result.seed,
        "end": result.end_reason.name,
        "outcome": result.outcome.name,
        "reward": result.total_reward,
        "steps": result.num_steps,
        "error": result.error,
    }


class RolloutChaos(Chaos):
    """So many of each fault for so many episodes, spread over the rollout at random."""

    @property
    def faults(self) -> Mapping[str, tuple[int, Callable[[], bool]]]:
        mine = {"kill a browser": self._kill_working_browser}
        return {
            name: (weight, mine.get(name, fault))
            for name, (weight, fault) in super().faults.items()
            if name in SHARES
        }

    def _kill_working_browser(self) -> bool:
        # One that has no pages yet costs nobody anything.
        return any(lease.healthy for lease in self._pool.seen) and self._signal(
            "browser", signal.SIGKILL
        )

    async def strike_as_planned(self, teller: Teller) -> None:
        await teller.until(lambda: teller.left > 0)
        due = sorted(
            (self._random.randint(1, max(teller.left - PARALLEL, 1)), name)
            for name in SHARES
            for _ in range(how_many(name, teller.left))
        )
        for moment, name in due:
            await teller.until(lambda moment=moment: teller.ended >= moment)
            while not self.faults[name][1]():
                await teller.until(lambda before=teller.ended: teller.ended > before)
            tell("fault", name=name)


async def play(orders: Orders) -> None:
    teller = Teller()
    client = models.OpenAICompatibleClient(
        "fake-model",
        orders.url,
        retries=models.RetryPolicy(max_retries=3, first_delay=0.02, max_delay=0.1),
        attempt_timeout=1.0,
        timeout=3.5,
    )
    agent = ModelAgent(client=client, name="scripted")
    async with (
        contextlib.aclosing(agent),
        WatchedPool(BROWSERS, PARALLEL // BROWSERS, limits=LIMITS) as pool,
    ):
        chaos = RolloutChaos(pool, random.Random(orders.chaos_seed), gap=(1, 1))
        striking = None
        if orders.chaos_seed is not None:
            striking = asyncio.create_task(chaos.strike_as_planned(teller))
        tell("begun")
        planned = {"preset": TASKS, "episodes": orders.episodes, "seed": orders.seed}
        summary = await collect(
            RunSpec(out=orders.out, **SETTINGS, **({} if orders.resume else planned)),
            agent=agent,
            run_id=None if orders.resume else RUN_ID,
            resume=RUN_ID if orders.resume else False,
            pool=pool,
            observer=teller,
        )
        if striking is not None:
            striking.cancel()
        await chaos.end()
    tell("done", rows=[describe(result) for result in summary.last_tries])


def main() -> None:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # It warns of every pipe that breaks.
    asyncio.run(play(Orders(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    main()
