"""People write collectors of three methods, and environments with reset, step and close alone."""

import unittest

import dm_env
import pytest

import webtraj
from webtraj.testing import EnvironmentContract


class Corridor:
    """README's first environment, in short."""

    async def reset(self):
        self.cell = 0
        return dm_env.restart({"cell": 0})

    async def step(self, action):
        self.cell += 1
        if self.cell == 3:
            return dm_env.termination(1.0, {"cell": 3})
        return dm_env.transition(0.0, {"cell": self.cell})

    async def close(self):
        pass


class Small:
    """A collector, and its own recorder, of three methods."""

    def __init__(self):
        self.said = []

    def begin_episode(self, info):
        self.said.append("begin")
        return self

    def record_step(self, step):
        self.said.append(step.step_type.name)

    def end_episode(self, end):
        self.said.append(end.reason.name)


@pytest.mark.parametrize("teed", [False, True])
async def test_a_collector_of_three_methods_records(teed):
    small = Small()
    collector = webtraj.TeeTrajectoryCollector(small) if teed else small
    async with webtraj.TrajectoryCollectingEnvironment(Corridor(), collector) as env:
        timestep = await env.reset()
        while not timestep.last():
            timestep = await env.step("right")
    assert small.said == ["begin", "FIRST", "MID", "MID", "LAST", "TERMINATED"]


async def test_an_environment_that_holds_nothing_needs_no_close():
    class Open:
        reset, step = Corridor.reset, Corridor.step

    small = Small()
    async with webtraj.TrajectoryCollectingEnvironment(Open(), small) as env:
        await env.reset()
    await env.close()
    assert small.said == ["begin", "FIRST", "CLOSED"]


def test_a_plain_environment_works_without_a_loop():
    with webtraj.as_sync(Corridor()) as env:
        assert env.reset().first()
        assert env.step("right").mid()


class CorridorContract(EnvironmentContract):
    def make_environment(self):
        return Corridor()


def test_the_contract_does_not_ask_for_async_with():
    with pytest.raises(unittest.SkipTest, match="optional"):
        CorridorContract().test_async_with_returns_an_environment_and_closes_it()
