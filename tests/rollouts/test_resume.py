"""Runs: tried again, cut short, and gone on with after any death, exactly."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from rows import each
from webtraj import EndReason, Outcome, errors, open_dataset
from webtraj.rollouts import (
    RunSpec,
    collect,
    plan_episodes,
)
from webtraj.runs.run import Run
from webtraj.store.places import open_storage

QUICK = {"max_retries": 2, "retry_pause": 0}


def places(dataset):
    """Returns row, try, outcome of each episode on record."""
    return sorted(
        (*map(int, summary.episode_id.rsplit("-", 2)[1:]), summary.outcome)
        for summary in dataset.summaries
    )


async def test_plan_is_there_before_the_first_episode(climber, tmp_path):
    class Looker(climber):
        def begin_episode(self, environment):
            assert Run.last(open_storage(tmp_path)).read_plan() == plan
            return super().begin_episode(environment)

    plan = plan_episodes("ladder/climb", episodes=3, seed=4)
    await collect(RunSpec(preset="ladder/climb", episodes=3, seed=4, out=tmp_path), agent=Looker())
    assert places(open_dataset(tmp_path)) == [(row, 0, Outcome.SUCCESS) for row in range(3)]


async def test_a_run_that_is_being_played_is_not_resumed(climber, tmp_path):
    refused = []

    async def resume(observation):
        with pytest.raises(errors.StorageConflictError, match="Another process plays the run"):
            await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)
        refused.append(observation)
        return "up"

    await collect(RunSpec(preset="ladder/climb", episodes=1, out=tmp_path), agent=resume)
    assert refused
    summary = await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)
    assert len(summary.results) == 1


async def test_every_try_is_kept_and_linked_to_the_one_before(climber, tmp_path):
    summary = await collect(RunSpec(preset="ladder/crash", out=tmp_path, **QUICK), agent=climber())
    assert [result.number for result in summary.results] == [0, 1, 2]
    dataset = open_dataset(tmp_path)
    assert places(dataset) == [(0, number, Outcome.ENV_ERROR) for number in range(3)]
    links = [episode.info.retry_of for episode in dataset]
    assert links == ["", *dataset.episode_ids[:2]]
    assert summary.last_tries == summary.results[2:]


@each(
    ("error", "tries", "outcome"),
    [
        (errors.ModelUnavailableError("away"), 3, Outcome.MODEL_ERROR),
        (errors.ModelRefusedError("no"), 1, Outcome.MODEL_ERROR),
        (errors.ContextOverflowError("too long"), 1, Outcome.AGENT_ERROR),
        (errors.AgentError("no idea"), 1, Outcome.AGENT_ERROR),
        (ConnectionRefusedError("an OSError of its own"), 1, Outcome.AGENT_ERROR),
        (ValueError("a bug"), 1, Outcome.AGENT_ERROR),
    ],
)
async def test_only_failures_of_the_models_server_are_tried_again(error, tries, outcome, climber):
    summary = await collect(RunSpec(preset="ladder/climb", **QUICK), agent=climber(error))
    assert len(summary.results) == tries
    assert {result.outcome for result in summary.results} == {outcome}


async def test_success_and_failure_are_never_tried_again(climber):
    summary = await collect(
        RunSpec(preset=["ladder/climb", "ladder/slip", "ladder/tire"], **QUICK), agent=climber()
    )
    assert len(summary.results) == 3


async def test_a_step_that_hangs_is_a_timeout_with_its_action_in_flight(climber, tmp_path):
    summary = await collect(
        RunSpec(preset="ladder/hang", out=tmp_path, step_timeout=0.05), agent=climber()
    )
    (result,) = summary.results
    assert (result.end_reason, result.outcome) == (EndReason.ERRORED, Outcome.TIMEOUT)
    assert result.total_reward is None
    (episode,) = open_dataset(tmp_path)
    assert episode.outcome is Outcome.TIMEOUT
    assert episode.end.in_flight_action == "up"
    assert "0.05 s" in episode.end.error.message
    assert episode.info.environment == "Ladder"


@pytest.mark.parametrize("limit", ["step_timeout", "timeout"])
async def test_an_agent_that_thinks_too_long_is_a_timeout(limit, climber, tmp_path):
    class Thinker(climber):
        async def act(self, observation):
            await asyncio.Event().wait()

    summary = await collect(
        RunSpec(preset="ladder/climb", out=tmp_path, **{limit: 0.05}), agent=Thinker()
    )
    assert [result.outcome for result in summary.results] == [Outcome.TIMEOUT]
    (episode,) = open_dataset(tmp_path)
    assert episode.outcome is Outcome.TIMEOUT


async def test_a_timeout_of_the_environments_own_is_its_error(climber, ladder, monkeypatch):
    async def step(self, action):
        raise TimeoutError("of its own")

    monkeypatch.setattr(ladder, "step", step)
    settings = {"step_timeout": 30}
    summary = await collect(RunSpec(preset="ladder/climb", **settings), agent=climber())
    assert [result.outcome for result in summary.results] == [Outcome.ENV_ERROR]


async def test_an_agent_that_repeats_itself_is_truncated(climber, tmp_path):
    summary = await collect(
        RunSpec(
            preset="ladder/climb",
            out=tmp_path,
            environment_options={"height": 50},
            max_repetitive_actions=4,
        ),
        agent=climber(),
    )
    (result,) = summary.results
    assert (result.end_reason, result.num_steps) == (EndReason.TRUNCATED, 4)
    (episode,) = open_dataset(tmp_path)
    assert "4 times" in episode.end.detail
    assert episode.end.in_flight_decision.action == "up"


async def test_the_runs_deadline_keeps_what_was_done_and_resume_does_the_rest(
    climber, ladder, tmp_path
):
    tasks = ["ladder/climb", "ladder/hang", "ladder/slip"]
    summary = await collect(RunSpec(preset=tasks, out=tmp_path, run_timeout=0.3), agent=climber())
    assert [result.outcome for result in summary.results] == [Outcome.SUCCESS, Outcome.CANCELLED]
    partial = open_dataset(tmp_path)[1]
    assert partial.num_steps == 1
    assert all(made.closed for made in ladder.made)

    await asyncio.wait_for(_resume_and_cancel(tmp_path, climber), 30)
    assert places(open_dataset(tmp_path)) == [
        (0, 0, Outcome.SUCCESS),
        (1, 0, Outcome.CANCELLED),
        (1, 1, Outcome.TIMEOUT),
        (2, 0, Outcome.FAILURE),
    ]
    retried = open_dataset(tmp_path).filter(lambda summary: summary.episode_id.endswith("1-01"))
    assert retried[0].info.retry_of == partial.episode_id


async def _resume_and_cancel(path, climber):
    settings = {"step_timeout": 0.05, "run_timeout": None}
    summary = await collect(RunSpec(out=path, **settings), agent=climber(), resume=True)
    assert len(summary.results) == 4
    assert [result.outcome for result in summary.last_tries] == [
        Outcome.SUCCESS,
        Outcome.TIMEOUT,
        Outcome.FAILURE,
    ]
    again = await collect(RunSpec(out=path, **settings), agent=climber(), resume=True)
    assert len(again.results) == 4


async def test_slow_ones_get_some_grace_and_keep_what_they_did(climber, tmp_path):
    summary = await collect(
        RunSpec(
            preset=["ladder/hang", "ladder/climb", "ladder/slip", "ladder/tire"],
            parallel=2,
            out=tmp_path,
            completion_threshold=0.7,
            completion_grace_period=0,
        ),
        agent=climber(),
    )
    outcomes = {result.task: result.outcome for result in summary.results}
    assert outcomes["ladder/hang"] is Outcome.CANCELLED
    assert len(outcomes) == 4
    (hung,) = open_dataset(tmp_path).filter(task="ladder/hang")
    assert hung.num_steps == 1


async def test_every_cancellation_reaches_an_episode_that_will_not_close(
    climber, ladder, monkeypatch
):
    closing = asyncio.Queue()

    async def close(self):
        closing.put_nowait(self)
        await asyncio.Event().wait()

    monkeypatch.setattr(ladder, "close", close)
    rollout = asyncio.ensure_future(collect(RunSpec(preset="ladder/hang"), agent=climber()))
    while not any(made.rung for made in ladder.made):
        await asyncio.sleep(0)
    rollout.cancel()
    for _ in range(2):  # It is closed as a part of its episode, and by its worker.
        await closing.get()
        rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout


async def test_one_run_cannot_be_begun_twice(climber, tmp_path):
    await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id="one")
    with pytest.raises(errors.StorageConflictError):
        await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id="one")
    await collect(RunSpec(preset="ladder/slip", out=tmp_path), agent=climber(), run_id="two")
    assert [summary.episode_id for summary in open_dataset(tmp_path).summaries] == [
        "one-000000-00",
        "two-000000-00",
    ]


async def test_a_run_in_a_bucket_is_gone_on_with_too(climber, ladder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    url = "memory://test-resume/rollouts"
    tasks = ["ladder/climb", "ladder/hang", "ladder/slip"]
    cut = {"run_timeout": 0.3}
    await collect(RunSpec(preset=tasks, out=url, **cut), agent=climber())
    dataset = open_dataset(url)
    assert places(dataset) == [(0, 0, Outcome.SUCCESS), (1, 0, Outcome.CANCELLED)]
    await _resume_and_cancel(url, climber)
    assert len(places(open_dataset(url))) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"resume": True}, "No run to resume"),
        ({"resume": "nobody"}, "nobody"),
        ({"run_id": "../up"}, "Invalid run id"),
    ],
    ids=["nothing yet", "no such run", "hostile"],
)
async def test_what_cannot_be_gone_on_with(arguments, words, climber, tmp_path):
    with pytest.raises(errors.InvalidInputError, match=words):
        await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), **arguments)


async def test_the_run_that_run_id_names_is_gone_on_with(climber, tmp_path):
    for run_id in ("one", "two"):
        await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id=run_id)
    summary = await collect(
        RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id="one", resume=True
    )
    assert {one.episode_id.partition("-")[0] for one in summary.results} == {"one"}
    with pytest.raises(errors.InvalidInputError, match="'two' and run_id the run 'one'"):
        await collect(
            RunSpec(preset="ladder/climb", out=tmp_path),
            agent=climber(),
            run_id="one",
            resume="two",
        )


ROLLOUT = """
    import asyncio, sys, time
    import dm_env
    from webtraj import Decision, registry
    from webtraj.rollouts import RunSpec, collect

    class Walk:
        def __init__(self, tasks):
            self.left = 0
        async def reset(self):
            self.left = 5
            return dm_env.restart(self.left)
        async def step(self, action):
            await asyncio.sleep(0.002)
            self.left -= 1
            if self.left:
                return dm_env.transition(0.0, self.left)
            return dm_env.termination(1.0, self.left)
        async def close(self): pass
        async def __aenter__(self): return self
        async def __aexit__(self, *exc): pass

    class Walker:
        name = "walker"
        def begin_episode(self, environment): return self
        async def act(self, observation): return Decision(action=observation)

    registry.register("walk", Walk, tasks=tuple(f"w{i}" for i in range(120)))
    print("begins", flush=True)
    resume = sys.argv[2] == "resume"
    spec = RunSpec(preset="walk", parallel=6, out=sys.argv[1])
    asyncio.run(collect(spec, agent=Walker(), resume=resume))
"""


@pytest.mark.slow
@pytest.mark.gate
def test_killed_five_times_and_resumed_every_row_is_there_once(tmp_path):
    out = tmp_path / "out"
    program = [sys.executable, "-c", textwrap.dedent(ROLLOUT), str(out)]
    for kill in range(5):
        mode = "resume" if kill else "new"
        with subprocess.Popen([*program, mode], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"begins\n"
            # Each life seals some episodes of its own before it is killed.
            wanted = 8 * (kill + 1)
            while process.poll() is None and _num_files(out / "episodes") < wanted:
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    subprocess.run([*program, "resume"], check=True, timeout=120, capture_output=True)
    dataset = open_dataset(out)
    finished = [place for *place, end in ends(dataset) if end is EndReason.TERMINATED]
    assert sorted(row for row, _ in finished) == list(range(120))
    cut_short = [end for *_, end in ends(dataset) if end is not EndReason.TERMINATED]
    assert set(cut_short) <= {EndReason.CRASHED}
    assert cut_short  # Five kills in the middle of six episodes each.
    assert all(s.total_reward == 1.0 for s in dataset.filter(end_reason="terminated").summaries)


def ends(dataset):
    return [
        (*map(int, summary.episode_id.rsplit("-", 2)[1:]), summary.end_reason)
        for summary in dataset.summaries
    ]


def _num_files(folder):
    return sum(1 for _ in folder.glob("[!.]*")) if folder.exists() else 0


async def test_the_latest_run_is_the_one_begun_last_whatever_its_name(climber, tmp_path):
    await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id="zeta")
    assert (await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)).results[
        0
    ].episode_id == ("zeta-000000-00")
    await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber())
    later = await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)
    assert not later.results[0].episode_id.startswith("zeta")
    await collect(RunSpec(preset="ladder/climb", out=tmp_path), agent=climber(), run_id="alpha")
    last = await collect(RunSpec(out=tmp_path), agent=climber(), resume=True)
    assert last.results[0].episode_id == "alpha-000000-00"
