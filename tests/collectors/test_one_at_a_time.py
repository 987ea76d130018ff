"""Collectors for one episode at a time, with ARES's methods, work as they are."""

import dm_env

import webtraj
from webtraj.testing import fakes
from webtraj.trajectory import EpisodeInfo


class Collector:
    def __init__(self):
        self.told = []

    def begin_episode(self, *, task_name):
        self.told.append(("begin", task_name))

    def record_step(self, step):
        self.told.append((step.step_index, step.step_type, step.action, step.reward))

    def end_episode(self, *, truncated):
        self.told.append(("end", truncated))


class Described(fakes.CatchEnvironment):
    """Knows its task only after `reset`."""

    is_reset = False

    async def reset(self):
        self.is_reset = True
        return await super().reset()

    def describe_episode(self):
        return {"task": "catch/left"} if self.is_reset else {}


async def test_it_gets_each_episode_with_its_task():
    collector, memory = Collector(), webtraj.MemoryTrajectoryCollector()
    both = webtraj.TeeTrajectoryCollector(collector, memory)
    async with webtraj.TrajectoryCollectingEnvironment(Described(), both) as env:
        timestep = await env.reset()
        while not timestep.last():
            timestep = await env.step(1)
        await env.reset()
    done, left = memory.trajectories
    assert collector.told == [
        ("begin", "catch/left"),
        *((step.index, step.step_type, step.action, step.reward) for step in done.steps),
        ("end", False),
        ("begin", "catch/left"),
        (0, dm_env.StepType.FIRST, None, None),
        ("end", True),
    ]
    assert left.end_reason is webtraj.EndReason.CLOSED


async def test_a_reset_that_fails_is_an_episode_too():
    class Failing:
        async def reset(self):
            raise OSError

        async def step(self, action):
            raise AssertionError

    collector = Collector()
    info = EpisodeInfo(task="walk")
    env = webtraj.TrajectoryCollectingEnvironment(Failing(), collector, episode_info=info)
    try:
        await env.reset()
    except OSError:
        await env.close()
    assert collector.told == [("begin", "walk"), ("end", True)]
