"""A rollout in a process of its own, each of whose episodes is held where its task says.

    python held_rollout.py OUT GATES TASK... [--parallel N] [--options JSON]

Tasks: `climb` (success), `slip` (failure), `crash` (step raises), `flaky` (raises at the first try
of its row), `hold-reset`, `hold-ask` and `hold-act` (wait there until the file GATES/<task> is
there, then a success), `hold-crash` (waits likewise, then raises).
"""

import argparse
import asyncio
import contextlib
import json
from pathlib import Path

import dm_env

from webtraj import Decision, Outcome, errors, registry
from webtraj.rollouts import RunSpec, TaskSpec, collect

HEIGHT = 3
SITES = {"climb": "up.example", "slip": "up.example", "crash": "down.example"}


class Held:
    def __init__(self, tasks, *, gates):
        (self.task,) = tasks
        self.gates = Path(gates)
        self.rung = 0
        self.resets = 0

    def set_seed(self, seed):
        self.seed = seed

    def describe_episode(self):
        return {"task": self.task, "goal": f"<b>{self.task}</b>", "seed": self.seed}

    def episode_outcome(self):
        return Outcome.FAILURE if self.task == "slip" else Outcome.SUCCESS

    async def reset(self):
        await self.pass_gate("hold-reset")
        self.rung = 0
        return dm_env.restart({"rung": 0, "task": self.task})

    async def step(self, action):
        await self.pass_gate("hold-act")
        await self.pass_gate("hold-crash")
        if self.task.endswith("crash"):
            raise errors.BrowserCrashedError("the <i>ladder</i> broke\nin two")
        if self.task == "flaky" and not (self.gates / "flaky").exists():
            (self.gates / "flaky").touch()
            raise errors.BrowserTimeoutError("the ladder stuck")
        self.rung += 1
        observation = {"rung": self.rung, "task": self.task}
        if self.rung < HEIGHT:
            return dm_env.transition(0.0, observation)
        return dm_env.termination(float(self.task != "slip"), observation)

    async def cheat(self):
        return "up"

    async def pass_gate(self, name):
        await pass_gate(self.gates, self.task, name)

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        pass


class Climber:
    name = "climber"

    def __init__(self, gates):
        self.gates = Path(gates)

    def begin_episode(self, environment):
        return self

    async def act(self, observation):
        if observation["rung"] == 1:
            await pass_gate(self.gates, observation["task"], "hold-ask")
        return Decision(action="up")


async def pass_gate(gates, task, name):
    while task == name and not (gates / name).exists():
        await asyncio.sleep(0.02)


def preset_of(task):
    return f"held/{task.encode().hex()}"


async def play(out, gates, tasks, *, parallel=4, options=None, **more):
    for task in sorted(set(tasks)):
        with contextlib.suppress(errors.InvalidInputError):  # It is registered already.
            registry.register(preset_of(task), Held, tasks=(task,))
    specs = [
        TaskSpec(
            name=task, preset=preset_of(task), site=SITES.get(task, ""), difficulty=1 + row % 9
        )
        for row, task in enumerate(tasks)
    ]
    return await collect(
        RunSpec(
            out=out,
            storage_options=options or {},
            environment_options={"gates": str(gates)},
            parallel=parallel,
            max_retries=1,
            retry_pause=0.01,
            max_consecutive_errors=100,
        ),
        tasks=specs,
        agent=Climber(gates),
        **more,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("gates")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--options", type=json.loads, default=None)
    given = parser.parse_args()
    asyncio.run(
        play(given.out, given.gates, given.tasks, parallel=given.parallel, options=given.options)
    )


if __name__ == "__main__":
    main()
