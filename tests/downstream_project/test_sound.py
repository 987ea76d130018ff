"""Tests that pass."""

import counter

from webtraj.testing import EnvironmentContract, assert_ended, assert_valid_trajectory


class TestCounter(EnvironmentContract):
    ends = "terminated"

    def make_environment(self):
        return counter.CounterEnvironment()


def test_a_plain_test_gets_a_synchronous_environment(recorded_environment, trajectory_collector):
    env = recorded_environment(counter.CounterEnvironment())
    timestep = env.reset()
    while not timestep.last():
        timestep = env.step(2)
    (trajectory,) = trajectory_collector.trajectories
    assert_ended(trajectory, "terminated")
    assert_valid_trajectory(trajectory)
    assert trajectory.total_reward == 1.0


async def test_an_async_test_gets_an_asynchronous_one(recorded_environment, trajectory_collector):
    env = recorded_environment(counter.CounterEnvironment())
    await env.reset()
    await env.step(1)
    await env.reset()
    assert_ended(trajectory_collector.trajectories[0], "interrupted")
    assert trajectory_collector.open_episodes  # Closed for us when the test is over.


def test_each_test_has_a_collector_of_its_own(trajectory_collector):
    assert trajectory_collector.trajectories == ()
