"""What the recorder keeps of episodes that a bridge had to cut short."""

import _thread
import asyncio
import random as random_lib
import signal
import threading

import dm_env
import pytest

from webtraj import EndReason, as_sync
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.testing import assert_ended, assert_no_open_episode, assert_valid_trajectory, fakes


class _Slow(fakes.Catch):
    """Its steps wait for the test; its episodes are numbered in their observations."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.episode = -1

    def reset(self):
        self.episode += 1
        return dm_env.restart(self.episode)

    def step(self, action):
        episode = self.episode
        self.entered.set()
        assert self.gate.wait(60)
        return dm_env.transition(0.0, episode)


async def test_the_late_timestep_of_a_cancelled_call_is_in_no_episode():
    inner, collector = _Slow(), MemoryTrajectoryCollector()
    env = collecting_environment.TrajectoryCollectingEnvironment(inner, collector)
    await env.reset()
    step = asyncio.create_task(env.step("cancelled"))
    await asyncio.to_thread(inner.entered.wait, 60)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    inner.gate.set()
    assert (await env.step("ignored")).first()
    await env.step("seen")
    await env.close()

    cut, whole = collector.trajectories
    assert_ended(cut, "cancelled", phase="step")
    assert (cut.end.action_in_flight, cut.end.in_flight_action) == (True, "cancelled")
    assert [step.observation for step in cut.steps] == [0]
    assert_ended(whole, "closed")
    assert [step.observation for step in whole.steps] == [1, 1]
    assert whole.steps[0].ignored_action == "ignored"
    assert whole.steps[1].action == "seen"
    for trajectory in collector.trajectories:
        assert_valid_trajectory(trajectory)
    assert_no_open_episode(collector)


def send():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


class _Interrupting(fakes.ScriptedEnvironment):
    def __init__(self, script, interrupt):
        super().__init__(script)
        self.interrupt = interrupt

    async def step(self, action):
        # By then the caller waits; if not, the interrupt is seen in any case.
        asyncio.get_running_loop().call_later(0.2, self.interrupt)
        return await super().step(action)


@pytest.mark.parametrize(
    "interrupt",
    [
        pytest.param(send, id="that-ends-a-wait"),
        # As one that comes just before a thread begins to wait: it ends no wait.
        pytest.param(_thread.interrupt_main, id="that-ends-no-wait"),
    ],
)
def test_an_interrupt_of_a_synchronous_caller_ends_the_episode_before_it_is_raised(interrupt):
    collector = MemoryTrajectoryCollector()
    inner = _Interrupting([dm_env.restart(0.0), fakes.HANG], interrupt)
    env = as_sync(collecting_environment.TrajectoryCollectingEnvironment(inner, collector))
    env.reset()
    with pytest.raises(KeyboardInterrupt):
        env.step("in flight")
    (trajectory,) = collector.trajectories
    assert_ended(trajectory, EndReason.CANCELLED, phase="step")
    assert trajectory.end.in_flight_action == "in flight"
    env.close()


def test_the_record_names_the_environment_and_not_the_bridge():
    collector = MemoryTrajectoryCollector()
    recorded = collecting_environment.TrajectoryCollectingEnvironment(fakes.Catch(), collector)
    with as_sync(recorded) as env:
        env.reset()
    assert collector.trajectories[0].info.environment == "Catch"


class _Numbered:
    """Observations are (number of the episode, number of the step); calls take a moment."""

    def __init__(self, random):
        self.random = random
        self.episode, self.taken = -1, 0

    def reset(self):
        threading.Event().wait(self.random.random() * 1e-3)
        self.episode, self.taken = self.episode + 1, 0
        return dm_env.restart((self.episode, 0))

    def step(self, action):
        if self.episode < 0:
            return self.reset()
        threading.Event().wait(self.random.random() * 1e-3)
        self.taken += 1
        return dm_env.transition(0.0, (self.episode, self.taken))

    def close(self):
        pass


async def test_wherever_a_cancellation_strikes_each_record_is_of_one_episode_without_gaps():
    random = random_lib.Random(0)
    collector = MemoryTrajectoryCollector()
    env = collecting_environment.TrajectoryCollectingEnvironment(_Numbered(random), collector)
    cancelled = 0
    for number in range(500):
        call = asyncio.create_task(env.step(number) if random.random() < 0.9 else env.reset())
        for _ in range(random.choice([0, 1, 2, 3, 10, 1000])):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        cancelled += call.cancelled()
    await env.close()
    assert cancelled > 50
    seen = set()
    for trajectory in collector.trajectories:
        assert_valid_trajectory(trajectory)
        episodes = {step.observation[0] for step in trajectory.steps}
        assert len(episodes) <= 1
        assert not episodes & seen
        seen |= episodes
        assert [step.observation[1] for step in trajectory.steps] == [
            step.index for step in trajectory.steps
        ]
