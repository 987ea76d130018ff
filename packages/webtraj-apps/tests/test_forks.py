"""Forks that start from copies of worlds see, and get, what those that repeat their record do.

Applications that are not installed are skipped: `make test-apps` installs them.
"""

import pytest

from webtraj import open_dataset
from webtraj.agents.oracle import OracleAgent
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.forks import ForkAgent, _Repetition, difference, plan_forks
from webtraj.runs.plan import ForkPoint
from webtraj.trajectory import Outcome
from webtraj_apps import AppEnvironment
from webtraj_apps.app import find_app

pytestmark = pytest.mark.browser


class AsOnRecord:
    """Takes the recorded actions after a step, too."""

    name = "as-on-record"

    def __init__(self, parent, step):
        self.parent, self.step = parent, step

    def begin_episode(self, environment):
        end = ForkPoint(self.parent.episode_id, len(self.parent.steps) - 1)
        repetition = _Repetition(self.parent, end, None, environment)
        repetition._done = self.step

        async def nothing(observation):
            raise AssertionError("The record is over.")

        return repetition.then(nothing)


def differences(episode, parent):
    assert len(episode.steps) == len(parent.steps), episode.end
    pairs = zip(parent.steps, episode.steps, strict=True)
    found = [difference(then.observation, now.observation) for then, now in pairs]
    return {number: differs for number, differs in enumerate(found) if differs}


async def played(out, parent, step, *, copies):
    dataset = open_dataset(out)
    agent = ForkAgent(AsOnRecord(parent, step), dataset, copies=copies)
    plan = plan_forks(dataset, [ForkPoint(parent.episode_id, step)], group_size=2)
    summary = await collect(RunSpec(out=out, parallel=1), agent=agent, tasks=plan)
    episodes = [dataset.refresh()[result.episode_id] for result in summary.results]
    assert {episode.info.parent_episode_id for episode in episodes} == {parent.episode_id}
    return episodes


async def check(task, out, monkeypatch):
    """Fork a task's episode half way and before its end; return how many copies were used."""
    await collect(RunSpec(preset=[f"apps/{task}"], out=out), agent=OracleAgent())
    (parent,) = open_dataset(out)
    assert parent.outcome is Outcome.SUCCESS
    restored = []
    restore = AppEnvironment.restore

    async def noting(self, snapshot):
        timestep = await restore(self, snapshot)
        restored.append(timestep is not None)
        return timestep

    monkeypatch.setattr(AppEnvironment, "restore", noting)
    steps = len(parent.steps) - 1
    for step in {steps // 2, steps - 1}:
        for copies in (True, False):
            for episode in await played(out, parent, step, copies=copies):
                assert differences(episode, parent) == {}, f"{step=} {copies=}"
                assert episode.outcome is Outcome.SUCCESS
                assert [step.reward for step in episode.steps] == [
                    step.reward for step in parent.steps
                ]
    return sum(restored)


async def test_copies_of_errands(errands, tmp_path, monkeypatch):
    assert await check("errands/finish-all-of-a-kind", tmp_path / "d", monkeypatch) == 2


@pytest.mark.slow
@pytest.mark.parametrize("task", ["shop/add-address", "forum/reply", "helpdesk/set-priority"])
async def test_copies_of_applications(task, tmp_path, monkeypatch):
    if not find_app(task.partition("/")[0]).installed:
        pytest.skip("the application is not installed")
    # A page that looks different when it loads again is not used.
    assert await check(task, tmp_path / "d", monkeypatch) > 0
