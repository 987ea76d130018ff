"""No record of an episode holds a secret of its environment, whatever happens in it."""

import asyncio
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dm_env
import pytest

import webtraj
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments.redacting_collector import RedactingCollector, with_redaction
from webtraj.redaction import RedactionRules, Redactor
from webtraj.testing.fakes import CatchEnvironment
from whole import whole

SECRET = "s3cret-value"
HIDDEN = "<secret:key>"


class Leaky(CatchEnvironment):
    """Tells its secret in everything that it says."""

    def __init__(self, *, fails: BaseException | None = None) -> None:
        super().__init__()
        self.redactor = Redactor({"key": SECRET})
        self.fails = fails

    def describe_episode(self) -> Mapping[str, Any]:
        return {"goal": f"log in with {SECRET}", "metadata": {"note": SECRET}}

    async def reset(self) -> dm_env.TimeStep:
        return (await super().reset())._replace(observation={"axtree": f"text {SECRET!r}"})

    async def step(self, action: Any) -> dm_env.TimeStep:
        if self.fails is not None:
            raise self.fails
        return (await super().step(1))._replace(observation={"axtree": f"text {SECRET!r}"})

    def redact_action(self, action: Any) -> Any:
        return self.redactor.redact(action)

    def redact(self, value: Any) -> Any:
        return self.redactor.redact(value)

    def take_redactions(self) -> Mapping[str, int]:
        return self.redactor.take_counts()


def decision() -> webtraj.Decision:
    call = webtraj.ModelCall(messages=({"content": SECRET},), text=SECRET)
    return webtraj.Decision(action=f"fill('1', '{SECRET}')", thought=SECRET, model_calls=(call,))


async def play(environment: Leaky, collector: Any, *, steps: int = 9) -> list[dm_env.TimeStep]:
    seen = []
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as recorded:
        seen.append(await recorded.reset())
        while not seen[-1].last() and len(seen) < steps:
            seen.append(await recorded.step(decision()))
    return seen


async def test_a_recorded_episode_is_redacted_throughout() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    await play(Leaky(), collector)
    (episode,) = collector.trajectories
    assert SECRET not in whole(episode)
    assert episode.info.goal == f"log in with {HIDDEN}"
    assert [step.observation for step in episode.steps] == [{"axtree": f"text '{HIDDEN}'"}] * 5
    assert episode.steps[1].action == f"fill('1', '{HIDDEN}')"
    assert episode.steps[1].decision.thought == HIDDEN
    assert episode.steps[1].decision.action == episode.steps[1].action
    assert episode.steps[1].decision.model_calls[0].text == HIDDEN
    assert episode.total_reward in (-1.0, 1.0)


async def test_no_file_of_a_dataset_holds_a_secret(tmp_path: Path) -> None:
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        await play(Leaky(), collector)
        await play(Leaky(), collector, steps=2)
        with pytest.raises(ValueError, match=SECRET):
            await play(Leaky(fails=ValueError(f"bad {SECRET}")), collector)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 5
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in path.name
    for episode in webtraj.open_dataset(tmp_path):
        assert episode.info.goal == f"log in with {HIDDEN}"


async def test_a_journal_of_an_open_episode_holds_no_secret(tmp_path: Path) -> None:
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        recorded = webtraj.TrajectoryCollectingEnvironment(Leaky(), collector)
        await recorded.reset()
        await recorded.step(decision())
        (journal,) = (tmp_path / "journal").iterdir()
        assert HIDDEN.encode() in journal.read_bytes()
        assert SECRET.encode() not in journal.read_bytes()
        await recorded.close()


async def test_an_error_s_message_and_traceback_are_redacted() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    with pytest.raises(ValueError, match=SECRET):
        await play(Leaky(fails=ValueError(f"bad {SECRET}")), collector)
    (episode,) = collector.trajectories
    assert episode.end.error.message == f"bad {HIDDEN}"
    assert SECRET not in episode.end.error.traceback
    assert episode.end.in_flight_action == f"fill('1', '{HIDDEN}')"
    assert SECRET not in whole(episode.end)


async def test_a_cancelled_action_is_redacted() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    with pytest.raises(asyncio.CancelledError):
        await play(Leaky(fails=asyncio.CancelledError()), collector)
    (episode,) = collector.trajectories
    assert episode.end.reason is webtraj.EndReason.CANCELLED
    assert episode.end.action_in_flight
    assert SECRET not in whole(episode)


async def test_the_record_says_how_many_redactions_there_were() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    await play(Leaky(), collector, steps=1)
    await play(Leaky(), collector)
    first, second = collector.trajectories
    # The goal, a note, the observation.
    assert first.info.metadata["redactions"] == {"key": 3}
    assert second.info.metadata["redactions"]["key"] > 3


async def test_a_field_of_numbers_whose_number_is_secret_is_left_empty(tmp_path: Path) -> None:
    number = 48151623
    call = webtraj.ModelCall(
        usage={"prompt_tokens": 7, "total_tokens": number},
        start_time=number,
        failed_attempts=(trajectory_lib.FailedAttempt(latency=number),),
    )
    info = webtraj.EpisodeInfo(seed=number, metadata=None)
    async with webtraj.JsonTrajectoryCollector(tmp_path) as kept:
        collector = RedactingCollector(kept, RedactionRules(), secrets={"pin": str(number)})
        env = webtraj.TrajectoryCollectingEnvironment(
            CatchEnvironment(), collector, episode_info=info
        )
        async with env:
            await env.reset()
            await env.step(webtraj.Decision(action=1, model_calls=(call,)))
    (episode,) = webtraj.open_dataset(tmp_path)
    assert str(number) not in whole(episode)
    assert (episode.info.seed, episode.info.metadata) == (None, {"redactions": {"pin": 4}})
    recorded = episode.steps[1].decision
    assert recorded is not None
    (made,) = recorded.model_calls
    assert (made.usage, made.start_time) == ({"prompt_tokens": 7}, None)
    assert made.failed_attempts == (trajectory_lib.FailedAttempt(),)


async def test_an_environment_without_secrets_is_recorded_as_it_is() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    environment = CatchEnvironment()
    assert with_redaction(collector, environment) is collector
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as recorded:
        first = await recorded.reset()
    kept = collector.trajectories[0].steps[0].observation
    assert kept.tolist() == first.observation.tolist()
    assert "redactions" not in collector.trajectories[0].info.metadata


async def test_a_synchronous_environment_s_secrets_are_kept_too() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    with webtraj.as_sync(Leaky()) as environment:
        recorded = webtraj.TrajectoryCollectingEnvironment(environment, collector)
        await recorded.reset()
        await recorded.step(f"{SECRET}")
        await recorded.close()
    assert SECRET not in whole(collector.trajectories)


class Broken(Leaky):
    """Whose redaction fails from the n-th call on, with an error that tells the secret."""

    def __init__(self, works: int, *, fails: BaseException | None = None) -> None:
        super().__init__(fails=fails)
        self.works = works

    def redact(self, value: Any) -> Any:
        self.works -= 1
        if self.works < 0:
            raise RuntimeError(f"cannot redact {SECRET}")
        return super().redact(value)

    def redact_action(self, action: Any) -> Any:
        return self.redact(action)


_CALLS = 6
"""Of a redaction, in an episode of one step: description, FIRST, action, decision, step, end."""


@pytest.mark.parametrize("works", range(_CALLS + 1))
async def test_what_cannot_be_redacted_is_left_out_and_that_is_said(
    works: int, caplog: pytest.LogCaptureFixture
) -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    recorded = webtraj.TrajectoryCollectingEnvironment(
        Broken(works), collector, on_collector_error="warn"
    )
    for call in (recorded.reset, lambda: recorded.step(decision()), recorded.close):
        await call()
    failures = [e for t in collector.trajectories for e in t.end.recording_errors]
    assert SECRET not in whole(collector.trajectories)
    said = any("redacting it raised RuntimeError" in failure for failure in failures)
    assert said == (works < _CALLS - 1)
    assert ("redacting it raised RuntimeError" in caplog.text) == (works < _CALLS)


async def test_a_failed_redaction_is_an_error_of_the_collector() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    recorded = webtraj.TrajectoryCollectingEnvironment(Broken(1), collector)
    with pytest.raises(errors.UnwritableValueError, match="was left out of the record") as caught:
        await recorded.reset()
    assert SECRET not in str(caught.value)


async def test_an_ignored_action_is_redacted() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    recorder = RedactingCollector(collector, Leaky()).begin_episode(trajectory_lib.EpisodeInfo())
    recorder.record_intent(SECRET)
    step = trajectory_lib.StepRecord(0, trajectory_lib.StepType.FIRST, None, ignored_action=SECRET)
    recorder.record_step(step)
    recorder.end_episode(trajectory_lib.EpisodeEnd(reason=webtraj.EndReason.CLOSED))
    (episode,) = collector.trajectories
    assert episode.steps[0] == dataclasses.replace(step, ignored_action=HIDDEN)
