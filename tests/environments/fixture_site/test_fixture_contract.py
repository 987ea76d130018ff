"""The environment contract, and what a recording of the fixture site keeps."""

import asyncio

import pytest

import webtraj
from webtraj.environments.browser.pool import BrowserPool
from webtraj.testing import EnvironmentContract
from webtraj.testing.site import FixtureEnvironment, FixtureSite
from webtraj.trajectory import EndReason, Outcome

pytestmark = pytest.mark.browser

TEXT = ("goal", "url", "axtree", "last_action", "info")


@pytest.mark.gate
class TestFixtureEnvironment(EnvironmentContract):
    """All its tests share one browser and one site, and therefore one loop."""

    ends = "truncated"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _shared(cls):
        async def start():
            cls.pool = await BrowserPool().__aenter__()
            cls.site = await FixtureSite().__aenter__()

        async def stop():
            await cls.site.close()
            await cls.pool.close()

        with asyncio.Runner() as runner:
            cls.runner = runner
            runner.run(start())
            yield
            runner.run(stop())

    def make_environment(self):
        return FixtureEnvironment(
            "log-out", pool=self.pool, site=self.site, max_steps=3, observe=TEXT
        )

    def make_invalid_action(self, environment):
        return "this is no action"

    def run_async(self, coroutine):
        return self.runner.run(coroutine)


async def test_a_recorded_episode_says_what_was_played_and_how_it_ended():
    collector = webtraj.MemoryTrajectoryCollector()
    async with webtraj.TrajectoryCollectingEnvironment(
        FixtureEnvironment(["log-in", "log-out"], seed=4, observe=TEXT), collector
    ) as env:
        for _ in range(2):
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step(await env.cheat())
    first, second = collector.trajectories
    assert (first.info.task, second.info.task) == ("fixture/log-in", "fixture/log-out")
    assert (first.info.seed, second.info.seed) == (4, 5)
    assert first.info.site == "fixture"
    assert first.info.goal.startswith('Log in as "')
    assert [episode.end.reason for episode in (first, second)] == [EndReason.TERMINATED] * 2
    assert second.total_reward == 1.0
    assert second.end.outcome is Outcome.SUCCESS
