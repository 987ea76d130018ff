"""webtraj's own contract over webtraj's own environments.

What else the contract finds, and what it does not, stands in tests/testing/test_contract.py.
"""

import asyncio

import gymnasium
import pytest

from webtraj import as_async, as_sync, from_gymnasium
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.testing import EnvironmentContract, fakes


class TestCatch(EnvironmentContract):
    ends = "terminated"

    def make_environment(self):
        return fakes.CatchEnvironment()

    def make_invalid_action(self, environment):
        return 7


class TestSynchronousCatch(TestCatch):
    def make_environment(self):
        return fakes.Catch()


class TestCatchThroughBothBridges(TestCatch):
    def make_environment(self):
        return as_async(as_sync(fakes.CatchEnvironment()))


class TestRecordedCatch(TestCatch):
    def make_environment(self):
        return collecting_environment.TrajectoryCollectingEnvironment(
            fakes.CatchEnvironment(), MemoryTrajectoryCollector()
        )


class TestRecordedTwice(TestRecordedCatch):
    def make_environment(self):
        return collecting_environment.TrajectoryCollectingEnvironment(
            super().make_environment(), MemoryTrajectoryCollector()
        )


class TestCartPole(EnvironmentContract):
    ends = "terminated"

    def make_environment(self):
        return from_gymnasium(gymnasium.make("CartPole-v1"), seed=0)


class TestFrozenLakeTruncatedByItsTimeLimit(EnvironmentContract):
    ends = "truncated"

    def make_environment(self):
        return from_gymnasium(gymnasium.make("FrozenLake-v1", max_episode_steps=4), seed=0)


@pytest.mark.browser
class TestMiniwob(EnvironmentContract):
    """All its tests share one browser, and therefore one loop."""

    ends = "truncated"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _browser(cls):
        from webtraj.environments.browser import pool

        with asyncio.Runner() as runner:
            cls.runner = runner
            cls.pool = pool.BrowserPool()
            runner.run(cls.pool.__aenter__())
            yield
            runner.run(cls.pool.__aexit__(None, None, None))

    def run_async(self, coroutine):
        return self.runner.run(coroutine)

    def make_environment(self):
        from webtraj.environments import miniwob

        return miniwob.MiniwobEnvironment("click-test", max_steps=3, pool=self.pool)

    def make_invalid_action(self, environment):
        return "this is no action"


@pytest.mark.gate
@pytest.mark.browser
class TestRecordedMiniwob(TestMiniwob):
    def make_environment(self):
        return collecting_environment.TrajectoryCollectingEnvironment(
            super().make_environment(), MemoryTrajectoryCollector()
        )
