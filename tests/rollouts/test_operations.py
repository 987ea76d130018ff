"""Operation limits and step limits in rollouts: the settings reach the pool and the environment."""

import pytest

from webtraj import Decision, EndReason, MemoryTrajectoryCollector, Outcome, registry
from webtraj.environments.actions import Wait
from webtraj.environments.browser.lease import OperationLimits
from webtraj.environments.browser.pool import BrowserPool
from webtraj.rollouts import RunSpec, TaskSpec, collect, plan_tasks

pytestmark = pytest.mark.browser

OBSERVE = {"observe": ("goal", "axtree", "timings", "info")}


class Idler:
    """An agent that waits for better times."""

    name = "idler"

    def begin_episode(self, environment):
        return self

    async def act(self, observation):
        return Decision(action=Wait(0))


@pytest.fixture(autouse=True)
def click():
    registry.register(
        "click",
        "webtraj.environments.miniwob:MiniwobEnvironment",
        tasks=("click-test",),
        uses_browser=True,
    )


def waits(collector):
    return [
        step.observation["timings"]["waiting"]
        for episode in collector.trajectories
        for step in episode.steps
    ]


@pytest.mark.slow
async def test_a_rollouts_limits_reach_the_pool_and_waiting_is_on_record():
    collector = MemoryTrajectoryCollector()
    limits = {"execute": 1, "ac_tree": 1}
    async with BrowserPool(contexts_per_browser=6) as pool:
        summary = await collect(
            RunSpec(
                preset="click",
                agent="oracle",
                episodes=24,
                parallel=6,
                operation_limits=limits,
                environment_options=OBSERVE,
            ),
            trajectory_collector=collector,
            pool=pool,
        )
        assert pool.operations.limits == OperationLimits(**limits)
    assert [result.outcome for result in summary.results] == [Outcome.SUCCESS] * 24
    assert len(waits(collector)) == 48
    assert max(waits(collector)) > 0


@pytest.mark.slow
async def test_a_tasks_own_limit_outweighs_the_environments_default():
    async with BrowserPool(contexts_per_browser=1) as pool:  # One for all: browsers take long.
        for own, options, steps in (
            (None, {}, 10), (2, {}, 2), (13, {}, 13), (13, {"max_steps": 4}, 4)
        ):  # fmt: skip
            collector = MemoryTrajectoryCollector()
            plan = plan_tasks([TaskSpec(name="click-test", preset="click", max_steps=own)])
            (result,) = (
                await collect(
                    RunSpec(environment_options={**OBSERVE, **options}),
                    tasks=plan,
                    agent=Idler(),
                    trajectory_collector=collector,
                    pool=pool,
                )
            ).results
            assert (result.end_reason, result.num_steps) == (EndReason.TRUNCATED, steps)
            (episode,) = collector.trajectories
            assert episode.steps[-1].last  # By the environment, so that learners see it.
