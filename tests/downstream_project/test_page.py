"""Tests with a real page."""

from webtraj.testing import assert_ended, assert_valid_trajectory


def test_a_plain_test_gets_a_synchronous_page(page_environment):
    timestep = page_environment.reset()
    assert timestep.first()
    assert "button" in timestep.observation["axtree"].lower()


async def test_an_async_test_can_have_its_page_recorded(
    page_environment, recorded_environment, trajectory_collector
):
    env = recorded_environment(page_environment)
    timestep = await env.reset()
    while not timestep.last():
        timestep = await env.step(await env.cheat())
    assert_ended(trajectory_collector.trajectories[0], "terminated")
    assert_valid_trajectory(trajectory_collector.trajectories[0])
    assert trajectory_collector.trajectories[0].total_reward > 0
