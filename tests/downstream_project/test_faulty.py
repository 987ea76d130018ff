"""Tests that fail, each for a reason of its own."""

import counter

from webtraj import EpisodeInfo
from webtraj.testing import EnvironmentContract, assert_ended


class TestForgetful(EnvironmentContract):
    def make_environment(self):
        return counter.ForgetfulEnvironment()


def test_it_ended_otherwise(recorded_environment, trajectory_collector):
    env = recorded_environment(counter.CounterEnvironment())
    env.reset()
    env.reset()
    assert_ended(trajectory_collector.trajectories[0], "terminated")


def test_it_leaves_an_episode_open(recorded_environment, trajectory_collector):
    recorded_environment(counter.CounterEnvironment()).reset()
    trajectory_collector.begin_episode(EpisodeInfo(episode_id="left-open"))


class _UnclosableEnvironment(counter.CounterEnvironment):
    async def close(self):
        raise OSError("the calculator is stuck")


async def test_it_cannot_be_closed(recorded_environment):
    env = recorded_environment(_UnclosableEnvironment())
    await env.reset()
