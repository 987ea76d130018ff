"""The driver of a rollout, as a program: `rollout_driver.py OPTIONS`, a JSON object.

It says `ended <episode id>` for each episode, and `done <number of results>` in the end. At a
SIGUSR1 it says what its tasks wait for.
"""

import asyncio
import functools
import json
import logging
import signal
import sys

import dm_env

from webtraj import Decision, registry
from webtraj.cli import signals
from webtraj.rollouts import RunSpec
from webtraj.rollouts.distributed import Cluster, NodeSizing, collect_on_ray

WALKS = 300
STEPS = 8
SLOW = 15
"""Every so many walks there is one that takes 20 s."""


class Walk:
    """An environment without a browser, whose every step takes a while."""

    def __init__(self, tasks):
        (task,) = tasks
        self.left = 0
        self.pace = 0.15 if int(task[1:]) % SLOW else 2.5

    async def reset(self):
        self.left = STEPS
        return dm_env.restart(self.left)

    async def step(self, action):
        await asyncio.sleep(self.pace)
        self.left -= 1
        if self.left:
            return dm_env.transition(0.0, self.left)
        return dm_env.termination(1.0, self.left)

    async def cheat(self):
        return self.left

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        pass


class Walker:
    """Walks, and leaves other tasks to the oracle."""

    name = "walker"

    def __init__(self, closes_in=0.0):
        from webtraj.agents import catalog

        self._closes_in = closes_in
        self._oracle = catalog.make_agent("oracle")

    def begin_episode(self, environment):
        return self._oracle.begin_episode(environment)

    async def act(self, observation):
        return Decision(action=observation)

    async def aclose(self):
        await asyncio.sleep(self._closes_in)


def setup():
    registry.register("walk", Walk, tasks=tuple(f"w{i}" for i in range(WALKS)))


class Teller:
    def rollout_planned(self, plan):
        print(f"planned {len(plan)}", flush=True)

    def episode_ended(self, result):
        print(f"ended {result.episode_id}", flush=True)


def say_what_is_awaited(*_):
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stdout)
    sys.stdout.flush()


def main():
    signal.signal(signal.SIGUSR1, say_what_is_awaited)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    options = json.loads(sys.argv[1])
    setup()
    sizing = NodeSizing(**options.pop("sizing", {}))
    if tasks := options.pop("tasks", None):  # A resumed rollout plays those of its plan.
        options["preset"] = tasks
    settings = {name: options.pop(name) for name in RunSpec.model_fields.keys() & options.keys()}
    beside = {name: options.pop(name) for name in {"resume", "run_id"} & options.keys()}
    summary = signals.run(
        collect_on_ray(
            RunSpec(max_retries=3, retry_pause=0.1, **settings),
            agent=functools.partial(Walker, options.pop("closes_in", 0.0)),
            cluster=Cluster(setup=setup, sizing=sizing, **options),
            observer=Teller(),
            **beside,
        )
    )
    print(f"done {len(summary.results)}", flush=True)


if __name__ == "__main__":
    main()
