"""People wrap twice, share one collector, reset in `finally`, and let exceptions fly.

Whatever they do, each episode that was played is on record once for each wrapper, with a typed end,
and the environment's own exceptions arrive as they were raised.
"""

import asyncio
import multiprocessing
import threading

import dm_env
import pytest

import webtraj
from webtraj import errors
from webtraj.trajectory import EndReason


class Counting:
    """Counts to three."""

    def __init__(self, last=3, fails_at=None):
        self.last = last
        self.fails_at = fails_at
        self.count = 0

    async def reset(self):
        self.count = 0
        return dm_env.restart(0)

    async def step(self, action):
        self.count += 1
        if self.count == self.fails_at:
            raise ConnectionResetError("the page is gone")
        if self.count == self.last:
            return dm_env.termination(1.0, self.count)
        return dm_env.transition(0.0, self.count)

    async def close(self):
        pass


class SyncCounting:
    def __init__(self):
        self.threads = set()

    def reset(self):
        self.threads.add(threading.get_ident())
        return dm_env.restart(0)

    def step(self, action):
        self.threads.add(threading.get_ident())
        return dm_env.termination(1.0, 1)

    def close(self):
        pass


async def play(env, action="go"):
    timestep = await env.reset()
    while not timestep.last():
        timestep = await env.step(action)


async def recorded(collector, env, **kw):
    async with webtraj.TrajectoryCollectingEnvironment(env, collector, **kw) as recording:
        await play(recording)


def ends(folder):
    return [episode.end.reason for episode in webtraj.open_dataset(folder)]


async def test_a_decision_reaches_both_records_and_the_environment_its_action(tmp_path):
    decision = webtraj.Decision(action="go", thought="why not")
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Counting(), collector)
        async with webtraj.TrajectoryCollectingEnvironment(env, collector) as twice:
            await play(twice, decision)
    for episode in webtraj.open_dataset(tmp_path):
        assert [step.decision for step in episode.steps] == [None, *[decision] * 3]
        assert [step.action for step in episode.steps] == [None, *["go"] * 3]


def test_threads_share_a_collector(tmp_path):
    collector = webtraj.JsonTrajectoryCollector(tmp_path)
    failures = []

    def work():
        try:
            for _ in range(5):
                asyncio.run(recorded(collector, Counting()))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    asyncio.run(collector.aclose())
    assert not failures
    assert ends(tmp_path) == [EndReason.TERMINATED] * 30


async def test_reset_in_finally_leaves_an_episode_without_steps(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Counting(fails_at=2), collector)

        async def played_and_reset():
            try:
                await play(env)
            finally:
                await env.reset()

        with pytest.raises(ConnectionResetError, match="the page is gone"):
            await played_and_reset()
        await env.close()
    first, second = webtraj.open_dataset(tmp_path)
    assert first.end.reason is EndReason.ERRORED
    assert first.end.error.type == "ConnectionResetError"
    assert (first.end.action_in_flight, first.end.in_flight_action) == (True, "go")
    assert (second.end.reason, len(second.steps)) == (EndReason.CLOSED, 1)


async def test_reset_twice_and_step_after_last_and_close_twice(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Counting(last=1), collector)
        await env.reset()
        await env.reset()
        await env.step("go")
        await env.step("go")  # This environment goes on past its end.
        await env.close()
        await env.close()
    episodes = list(webtraj.open_dataset(tmp_path))
    reasons = [EndReason.INTERRUPTED, EndReason.TERMINATED, EndReason.CLOSED]
    assert [episode.end.reason for episode in episodes] == reasons
    assert "must return FIRST" in " ".join(episodes[2].end.violations)
    assert episodes[2].info.parent_episode_id == episodes[1].episode_id


async def test_a_step_before_any_reset_is_on_record(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Counting(), collector)
        await env.step("go")
        await env.close()
    (episode,) = webtraj.open_dataset(tmp_path)
    assert [step.action for step in episode.steps] == ["go"]
    assert episode.end.violations


async def test_a_collector_that_is_closed_too_early_says_so(tmp_path):
    collector = webtraj.JsonTrajectoryCollector(tmp_path)
    env = webtraj.TrajectoryCollectingEnvironment(Counting(), collector)
    await env.reset()
    await collector.aclose()
    with pytest.raises(errors.CollectorClosedError):
        await env.step("go")
    assert ends(tmp_path) == [EndReason.CLOSED]


async def test_a_synchronous_environment_runs_on_one_thread_of_its_own(tmp_path):
    env = SyncCounting()
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        await recorded(collector, env)
    assert ends(tmp_path) == [EndReason.TERMINATED]
    assert len(env.threads) == 1
    assert threading.get_ident() not in env.threads


def play_alone(folder, number):
    async def main():
        async with webtraj.JsonTrajectoryCollector(folder) as collector:
            info = webtraj.EpisodeInfo(task=f"task-{number}")
            await recorded(collector, Counting(), episode_info=info)

    asyncio.run(main())


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes_record_into_one_folder(tmp_path, method):
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=play_alone, args=(tmp_path, n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    assert [process.exitcode for process in processes] == [0] * 3
    episodes = list(webtraj.open_dataset(tmp_path))
    assert sorted(episode.info.task for episode in episodes) == ["task-0", "task-1", "task-2"]
    assert all(episode.terminated for episode in episodes)


def test_a_fork_cannot_use_the_parent_s_collector(tmp_path):
    async def main():
        collector = webtraj.JsonTrajectoryCollector(tmp_path)
        env = webtraj.TrajectoryCollectingEnvironment(Counting(), collector)
        await env.reset()
        context = multiprocessing.get_context("fork")

        def child(answers):
            try:
                collector.begin_episode(webtraj.EpisodeInfo())
            except errors.CollectorClosedError as error:
                answers.put(str(error))

        answers = context.SimpleQueue()
        process = context.Process(target=child, args=(answers,))
        process.start()
        process.join(120)
        assert process.exitcode == 0
        assert "Make a new one" in answers.get()
        await env.step("go")
        await env.close()
        await collector.aclose()

    asyncio.run(main())
    assert ends(tmp_path) == [EndReason.CLOSED]
