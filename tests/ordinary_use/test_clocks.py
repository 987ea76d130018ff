"""Clocks jump: a laptop wakes up, NTP corrects, a container starts in 1970.

Nothing is lost, and no duration is negative.
"""

import shutil
import time

import dm_env
import pytest

import webtraj
from webtraj.agents.models.accounting import account_for
from webtraj.datasets.recovery import recover
from webtraj.trajectory import EndReason
from webtraj.view.episode import episode_data

YEAR = 365 * 86400


class Jumping:
    """Sets the clock in each step."""

    def __init__(self, clock, jump):
        self.clock = clock
        self.jump = jump
        self.count = 0

    async def reset(self):
        self.count = 0
        return dm_env.restart(0)

    async def step(self, action):
        self.clock.shift += self.jump
        self.count += 1
        if self.count == 4:
            return dm_env.termination(1.0, 4)
        return dm_env.transition(0.0, self.count)

    async def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    real = time.time

    class Clock:
        shift = 0.0

    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: real() + clock.shift)
    return clock


JUMPS = {
    "back an hour": -3600.0,
    "on an hour": 3600.0,
    "to before 1970": -80.0 * YEAR,
    "to after 9999": 9000.0 * YEAR,
}


async def play(env, steps=4):
    await env.reset()
    for _ in range(steps):
        await env.step("go")


@pytest.mark.parametrize("make", ["JsonTrajectoryCollector", "ProtobufTrajectoryCollector"])
@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_a_jump_in_an_episode_loses_nothing(tmp_path, clock, make, jump):
    async with getattr(webtraj, make)(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Jumping(clock, jump), collector)
        await play(env)
        await play(env)
        await env.close()
    dataset = webtraj.open_dataset(tmp_path)
    assert len(dataset.summaries) == len(set(dataset.episode_ids)) == 2
    for episode in dataset:
        assert [step.observation for step in episode.steps] == [0, 1, 2, 3, 4]
        assert episode.terminated
        assert account_for(episode).environment_seconds >= 0.0
        assert episode_data(episode, lambda data: "")["seconds"] >= 0.0


async def test_a_jump_before_recovery_loses_nothing(tmp_path, clock):
    collector = webtraj.JsonTrajectoryCollector(tmp_path)
    env = webtraj.TrajectoryCollectingEnvironment(Jumping(clock, -3600.0), collector)
    await play(env, steps=2)
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)  # What a killed process leaves.
    await env.close()
    await collector.aclose()
    clock.shift -= 30 * 365 * 86400
    assert len(recover(copy).sealed) == 1
    (episode,) = webtraj.open_dataset(copy)
    assert (episode.end.reason, len(episode.steps)) == (EndReason.CRASHED, 3)
