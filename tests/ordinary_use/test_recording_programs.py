"""People wrap twice, share one collector, reset in `finally`, and let exceptions fly.

Whatever they do, each episode that was played is on record once for each wrapper, with a typed end,
and the environment's own exceptions arrive as they were raised.
"""

import asyncio
import dataclasses
import multiprocessing
import threading

import dm_env
import gymnasium
import numpy as np
import pytest

import webtraj
from webtraj import errors
from webtraj.trajectory import EndReason

GOAL = (
    "Buy the shoes. אני רוצה נעליים \N{RIGHT-TO-LEFT OVERRIDE}abc "
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL} \x00"
)


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


class Gym(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, "f4"), {}

    def step(self, action):
        return np.ones(2, "f4"), 1.0, True, False, {}


async def play(env, action="go"):
    timestep = await env.reset()
    while not timestep.last():
        timestep = await env.step(action)


async def recorded(collector, env, **kw):
    async with webtraj.TrajectoryCollectingEnvironment(env, collector, **kw) as recording:
        await play(recording)


def ends(folder):
    return [episode.end.reason for episode in webtraj.open_dataset(folder)]


async def test_two_wrappers_on_two_folders_record_the_same(tmp_path):
    async with (
        webtraj.JsonTrajectoryCollector(tmp_path / "in") as inner,
        webtraj.JsonTrajectoryCollector(tmp_path / "out") as outer,
    ):
        await recorded(outer, webtraj.TrajectoryCollectingEnvironment(Counting(), inner))
    (one,), (two,) = map(webtraj.open_dataset, (tmp_path / "in", tmp_path / "out"))
    assert one.episode_id != two.episode_id
    assert [s.observation for s in one.steps] == [s.observation for s in two.steps]
    assert one.info.environment == two.info.environment == "Counting"


async def test_two_wrappers_on_one_collector_make_two_episodes(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        await recorded(collector, webtraj.TrajectoryCollectingEnvironment(Counting(), collector))
    assert ends(tmp_path) == [EndReason.TERMINATED] * 2


async def test_a_decision_reaches_both_records_and_the_environment_its_action(tmp_path):
    decision = webtraj.Decision(action="go", thought="why not")
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        env = webtraj.TrajectoryCollectingEnvironment(Counting(), collector)
        async with webtraj.TrajectoryCollectingEnvironment(env, collector) as twice:
            await play(twice, decision)
    for episode in webtraj.open_dataset(tmp_path):
        assert [step.decision for step in episode.steps] == [None, *[decision] * 3]
        assert [step.action for step in episode.steps] == [None, *["go"] * 3]


async def test_a_hundred_environments_share_a_collector(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        await asyncio.gather(*(recorded(collector, Counting(i % 4 + 1)) for i in range(100)))
    episodes = list(webtraj.open_dataset(tmp_path))
    assert len({episode.episode_id for episode in episodes}) == 100
    assert all(episode.terminated for episode in episodes)
    assert sorted(len(episode.steps) for episode in episodes) == sorted([2, 3, 4, 5] * 25)


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


async def test_a_gymnasium_environment_is_recorded_once_wrapped(tmp_path):
    async with (
        webtraj.JsonTrajectoryCollector(tmp_path) as collector,
        webtraj.TrajectoryCollectingEnvironment(webtraj.from_gymnasium(Gym()), collector) as env,
    ):
        await env.reset()
        assert (await env.step(1)).reward == 1.0
    (episode,) = webtraj.open_dataset(tmp_path)
    np.testing.assert_array_equal(episode.steps[1].observation, [1, 1])


async def test_a_gymnasium_environment_that_is_not_wrapped_is_named(tmp_path):
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        with pytest.raises(errors.InvalidInputError, match=r"Use webtraj\.from_gymnasium"):
            webtraj.TrajectoryCollectingEnvironment(Gym(), collector)


@pytest.mark.parametrize("make", ["JsonTrajectoryCollector", "ProtobufTrajectoryCollector"])
async def test_a_goal_of_a_megabyte_in_any_script(tmp_path, make):
    goal = GOAL * (1_000_000 // len(GOAL))
    info = webtraj.EpisodeInfo(
        goal=goal, task=GOAL, site=GOAL, policy=GOAL, group_id=GOAL, environment=GOAL,
        versions={GOAL: GOAL}, metadata={GOAL: [GOAL]},
    )  # fmt: skip
    async with getattr(webtraj, make)(tmp_path) as collector:
        await recorded(collector, Counting(), episode_info=info)
    (episode,) = webtraj.open_dataset(tmp_path)
    assert episode.info == dataclasses.replace(info, episode_id=episode.episode_id)
    assert [row.task for row in webtraj.open_dataset(tmp_path).summaries] == [GOAL]


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
