"""What `collect` promises: every episode played, recorded and accounted for."""

import asyncio
import collections

import pytest

from rows import each
from webtraj import EndReason, MemoryTrajectoryCollector, Outcome, errors, open_dataset, registry
from webtraj.agents.base import seed_text
from webtraj.agents.oracle import OracleAgent
from webtraj.collectors.base import NullTrajectoryCollector
from webtraj.rollouts import RunSpec, collect


class Recorder:
    """An observer that keeps what it is told."""

    def __init__(self):
        self.plan = None
        self.results = []

    def rollout_planned(self, plan):
        self.plan = plan

    def episode_ended(self, result):
        self.results.append(result)


@pytest.fixture
def collector():
    return MemoryTrajectoryCollector()


@pytest.mark.parametrize(
    ("task", "end_reason", "outcome", "reward", "steps"),
    [
        ("climb", EndReason.TERMINATED, Outcome.SUCCESS, 2.0, 3),
        ("slip", EndReason.TERMINATED, Outcome.FAILURE, 1.0, 3),
        ("tire", EndReason.TRUNCATED, Outcome.UNKNOWN, 1.0, 3),
        ("crash", EndReason.ERRORED, Outcome.ENV_ERROR, None, 0),
        ("shut", EndReason.ERRORED, Outcome.ENV_ERROR, None, 0),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
async def test_result_says_how_the_episode_ended(
    task, end_reason, outcome, reward, steps, recorded, climber, collector
):
    summary = await collect(
        RunSpec(preset=f"ladder/{task}"),
        agent=climber(),
        trajectory_collector=collector if recorded else None,
    )
    (result,) = summary.results
    assert (result.task, result.attempt) == (f"ladder/{task}", 0)
    assert (result.end_reason, result.outcome) == (end_reason, outcome)
    assert (result.total_reward, result.num_steps) == (reward, steps)
    assert bool(result.error) is (end_reason is EndReason.ERRORED) is result.failed
    assert len(collector.trajectories) == recorded
    for trajectory in collector.trajectories:
        assert trajectory.end_reason is end_reason
        assert trajectory.num_steps == steps
        assert trajectory.info.task == result.task
        assert trajectory.info.seed == result.seed
        assert trajectory.info.policy == "climber-1"
        assert result.episode_id == trajectory.episode_id


async def test_decisions_are_recorded_and_the_environment_gets_the_action(climber, collector):
    await collect(RunSpec(preset="ladder/climb"), agent=climber(), trajectory_collector=collector)
    (trajectory,) = collector.trajectories
    assert [step.action for step in trajectory.steps] == [None, "up", "up", "up"]
    assert trajectory.steps[1].decision.thought == "I am on rung 0."


async def test_agent_error_is_the_agents(climber, collector):
    agent = climber(ZeroDivisionError("lost count"), at=1)
    summary = await collect(
        RunSpec(preset="ladder/climb"), agent=agent, trajectory_collector=collector
    )
    (result,) = summary.results
    assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.AGENT_ERROR)
    assert result.error == "ZeroDivisionError: lost count"
    assert result.total_reward is None
    (trajectory,) = collector.trajectories
    assert trajectory.end_reason is EndReason.ERRORED
    assert trajectory.num_steps == 1
    assert trajectory.end.error.type == "webtraj.errors.AgentError"
    assert trajectory.end.error.message == "ZeroDivisionError: lost count"
    assert "in act" in trajectory.end.error.traceback


async def test_browser_error_is_never_the_agents(climber):
    agent = climber(errors.BrowserCrashedError("gone"))
    (result,) = (await collect(RunSpec(preset="ladder/climb"), agent=agent)).results
    assert result.outcome is Outcome.ENV_ERROR


async def test_rollout_goes_on_after_errors_in_a_fresh_environment(climber, collector, ladder):
    summary = await collect(
        RunSpec(preset="ladder/flaky", episodes=20, seed=1),
        agent=climber(),
        trajectory_collector=collector,
    )
    crashed = [result for result in summary.results if result.seed % 2]
    assert 0 < len(crashed) < 20
    assert all(result.failed is (result in crashed) for result in summary.results)
    assert summary.errors == tuple(crashed)
    assert summary.total.episodes == 20
    assert summary.total.success_rate == 1.0
    assert len(collector.trajectories) == 20
    assert all(made.closed for made in ladder.made)
    assert len(ladder.made) <= len(crashed) + 1


async def test_environment_is_kept_while_the_task_stays(climber, ladder):
    await collect(RunSpec(preset=["ladder/climb", "ladder/slip"], episodes=8), agent=climber())
    assert [(made.task, len(made.seeds), made.closed) for made in ladder.made] == [
        ("climb", 4, True),
        ("slip", 4, True),
    ]


async def test_errors_in_a_row_stop_the_rollout(climber, collector, ladder):
    observer = Recorder()
    with pytest.raises(errors.RolloutStoppedError) as caught:
        await collect(
            RunSpec(preset=["ladder/climb", "ladder/crash"], episodes=40, max_consecutive_errors=4),
            agent=climber(),
            trajectory_collector=collector,
            observer=observer,
        )
    assert "4 in a row ended in an error" in str(caught.value)
    assert "after 24 of 40" in str(caught.value)
    assert "BrowserCrashedError: the ladder broke" in str(caught.value)
    assert len(observer.results) == len(collector.trajectories) == 24
    assert all(made.closed for made in ladder.made)


@pytest.mark.parametrize("parallel", [1, 3, 50])
async def test_same_episodes_however_many_workers(parallel, climber, ladder):
    observer = Recorder()
    summary = await collect(
        RunSpec(preset="ladder/all:0:3", episodes=30, parallel=parallel, seed=7),
        agent=climber(),
        observer=observer,
    )
    expected = {(f"ladder/{p.task}", p.attempt, p.seed) for p in observer.plan}
    played = {(result.task, result.attempt, result.seed) for result in summary.results}
    assert played == expected
    assert len(summary.results) == 30
    assert ladder.most_playing == min(parallel, 30)
    assert tuple(observer.results) == summary.results


async def test_a_group_has_one_seed_and_its_attempts_sample_anew(climber, collector):
    chances = []

    class Sampler(climber):
        def begin_episode(self, environment):
            chances.append(seed_text(0, environment))
            return super().begin_episode(environment)

    spec = RunSpec(preset="ladder/all:0:2", episodes=8, group_size=2, seed=3)
    await collect(spec, agent=Sampler(), trajectory_collector=collector)
    groups = collections.defaultdict(list)
    for trajectory in collector.trajectories:
        groups[trajectory.info.group_id].append(trajectory.info)
    assert len(groups) == 4
    assert all(sorted(info.attempt for info in group) == [0, 1] for group in groups.values())
    assert all(len({info.seed for info in group}) == 1 for group in groups.values())
    assert len({group[0].seed for group in groups.values()}) == 4
    assert len(set(chances)) == 8


async def test_an_agent_is_told_its_own_seed_after_an_episode_that_was_cut_off(
    climber, ladder, monkeypatch
):
    # As a browser environment, it describes its last episode until it is reset.
    monkeypatch.setattr(
        ladder,
        "describe_episode",
        lambda self: {"task": self.task, "seed": self.seeds[-1] if self.seeds else self.seed},
    )
    chances = []

    class Sampler(climber):
        def begin_episode(self, environment):
            chances.append(environment.describe_episode()["seed"])
            return super().begin_episode(environment)

    observer = Recorder()
    await collect(
        RunSpec(preset="ladder/climb", episodes=4, max_steps=2), agent=Sampler(), observer=observer
    )
    assert chances == [planned.seed for planned in observer.plan]


async def test_a_retried_attempt_stays_in_its_group(climber, tmp_path):
    settings = {"max_retries": 1, "retry_pause": 0}
    await collect(
        RunSpec(preset="ladder/crash", group_size=2, out=tmp_path, **settings), agent=climber()
    )
    infos = [episode.info for episode in open_dataset(tmp_path)]
    assert sorted((info.attempt, bool(info.retry_of)) for info in infos) == [
        (0, False), (0, True), (1, False), (1, True),
    ]  # fmt: skip
    assert len({(info.group_id, info.seed) for info in infos}) == 1


async def test_rollouts_limit_of_steps_truncates(climber, collector, ladder):
    summary = await collect(
        RunSpec(preset="ladder/climb", episodes=2, max_steps=2),
        agent=climber(),
        trajectory_collector=collector,
    )
    for result, trajectory in zip(summary.results, collector.trajectories, strict=True):
        assert result.end_reason is trajectory.end_reason is EndReason.TRUNCATED
        assert result.num_steps == trajectory.num_steps == 2
        assert trajectory.end.detail == "the rollout's limit of 2 steps"
    assert len(ladder.made) == 1


async def test_limit_that_the_episode_just_reaches_is_no_truncation(climber):
    (result,) = (
        await collect(RunSpec(preset="ladder/climb", max_steps=3), agent=climber())
    ).results
    assert result.end_reason is EndReason.TERMINATED


async def test_cancellation_seals_what_is_open_and_closes_all(climber, ladder, tmp_path):
    observer = Recorder()
    task = asyncio.create_task(
        collect(
            RunSpec(
                preset=["ladder/climb", "ladder/hang"],
                episodes=8,
                parallel=4,
                out=tmp_path / "data",
            ),
            agent=climber(),
            observer=observer,
        )
    )
    while sum(made.task == "hang" and made.rung == 1 for made in ladder.made) < 4:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(made.closed for made in ladder.made)
    reasons = collections.Counter(result.end_reason for result in observer.results)
    assert reasons == {EndReason.TERMINATED: 4, EndReason.CANCELLED: 4}
    dataset = open_dataset(tmp_path / "data")
    assert collections.Counter(trajectory.end_reason for trajectory in dataset) == reasons
    for trajectory in dataset:
        if trajectory.end_reason is EndReason.CANCELLED:
            assert trajectory.num_steps == 1
            assert trajectory.end.in_flight_action == "up"


async def test_cancelled_while_the_agent_thinks_is_cancelled_too(climber, collector):
    thinking = asyncio.Event()

    class Thinker(climber):
        async def act(self, observation):
            thinking.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(
        collect(RunSpec(preset="ladder/climb"), agent=Thinker(), trajectory_collector=collector)
    )
    await thinking.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (trajectory,) = collector.trajectories
    assert trajectory.end_reason is EndReason.CANCELLED


async def test_collector_failure_stops_the_rollout_and_is_raised_as_itself(climber, ladder):
    class FullDisk(NullTrajectoryCollector):
        async def drain(self):
            if any(made.rung == 2 for made in ladder.made):
                raise errors.CollectorError("no space left on device")

    with pytest.raises(errors.CollectorError, match="no space left"):
        await collect(
            RunSpec(preset="ladder/climb", episodes=6, parallel=2),
            agent=climber(),
            trajectory_collector=FullDisk(),
        )
    assert all(made.closed for made in ladder.made)


async def test_agent_that_does_not_fit_stops_the_rollout_with_nothing_recorded(collector):
    registry.register("deaf", lambda: object.__new__(Mute))
    with pytest.raises(errors.InvalidInputError, match="oracle agent has no solution"):
        await collect(RunSpec(preset="deaf", agent="oracle"), trajectory_collector=collector)
    assert collector.trajectories == ()


class Mute:
    async def reset(self): ...

    async def step(self, action): ...

    async def close(self): ...

    async def __aenter__(self): ...

    async def __aexit__(self, *exc_info): ...


async def test_collector_that_was_given_is_left_open_and_out_is_closed(climber, tmp_path):
    collector = MemoryTrajectoryCollector()
    await collect(RunSpec(preset="ladder/climb"), agent=climber(), trajectory_collector=collector)
    await collect(RunSpec(preset="ladder/climb"), agent=climber(), trajectory_collector=collector)
    assert len(collector.trajectories) == 2
    await collect(RunSpec(preset="ladder/climb", out=tmp_path / "data"), agent=climber())
    await collect(RunSpec(preset="ladder/slip", out=tmp_path / "data"), agent=climber())
    assert len(open_dataset(tmp_path / "data")) == 2


@each(
    ("settings", "arguments", "words"),
    [
        ({"out": "x"}, {"trajectory_collector": NullTrajectoryCollector()}, "give only one of"),
        ({"environment_options": {"depth": 1}}, {}, "depth"),
        ({"agent": "orakle"}, {}, "Did you mean 'oracle'"),
        ({}, {"agent": object()}, "needs begin_episode.*got <object"),
        ({}, {"agent": OracleAgent}, "Pass an instance"),
        ({"preset": []}, {"tasks": ["ladder/climb"]}, "Presets are named in the RunSpec"),
        ({}, {"tasks": []}, "cannot be given beside tasks"),
        ({}, {"run_id": "a"}, "run_id works only with out"),
        ({}, {"resume": True}, "resume works only with out"),
        ({"format": "pb"}, {}, "format works only with out"),
        ({"judge": "environment"}, {}, "judge works only with out"),
    ],
)
async def test_wrong_argument_is_a_clear_error(settings, arguments, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        await collect(RunSpec(**{"preset": "ladder/climb", **settings}), **arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth": 1}, "depth"),
        ({"height": "high"}, "height='high': TypeError: .* high"),
    ],
    ids=["unknown", "of a wrong type"],
)
async def test_wrong_option_of_an_environment_leaves_nothing_that_would_fail_again(
    options, words, ladder, monkeypatch, tmp_path
):
    def made(tasks, *, height):
        if not isinstance(height, int):
            raise TypeError(f"nobody climbs {height}")
        return ladder(tasks, height=height)

    registry.register("ladder/strict", made, tasks=("climb",))
    with pytest.raises(errors.InvalidInputError, match=words):
        await collect(
            RunSpec(
                preset="ladder/strict",
                agent="oracle",
                out=tmp_path / "data",
                environment_options=options,
            )
        )
    assert list(tmp_path.iterdir()) == []
