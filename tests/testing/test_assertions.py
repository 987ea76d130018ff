"""What the assertions about trajectories accept and refuse."""

import asyncio
import dataclasses

import pytest

from rows import each
from webtraj import EndReason, EpisodeEnd, EpisodeInfo, EpisodeTrajectory, StepRecord
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.environments import collecting_environment
from webtraj.testing import (
    assert_ended,
    assert_no_open_episode,
    assert_valid_trajectory,
    fakes,
)
from webtraj.trajectory import ErrorInfo, Phase, StepType

_FIRST = StepRecord(0, StepType.FIRST, "start", start_time=1.0, end_time=2.0)
_MID = StepRecord(1, StepType.MID, "middle", "go", 0.0, 1.0, start_time=3.0, end_time=4.0)
_LAST = StepRecord(2, StepType.LAST, "end", "go", 1.0, 0.0, start_time=5.0, end_time=6.0)
_TERMINATED = EpisodeEnd(reason=EndReason.TERMINATED, phase=Phase.STEP)
_SOUND = EpisodeTrajectory(
    EpisodeInfo(episode_id="one"), (_FIRST, _MID, _LAST), _TERMINATED, start_time=1.0, end_time=7.0
)
_ERRORED = EpisodeEnd(
    reason=EndReason.ERRORED,
    phase=Phase.STEP,
    error=ErrorInfo(type="ValueError", message="no such button", traceback="Traceback: here"),
)


def _with(**changes):
    return dataclasses.replace(_SOUND, **changes)


def _step(step, **changes):
    return dataclasses.replace(step, **changes)


@pytest.mark.parametrize("reason", [EndReason.TERMINATED, "terminated", "TERMINATED"])
def test_the_right_end_is_accepted(reason):
    assert_ended(_SOUND, reason)
    assert_ended(_SOUND, reason, phase="step")


@each(
    ("trajectory", "reason", "expected", "message"),
    [
        (_SOUND, "truncated", {}, r"ended TERMINATED in step; expected TRUNCATED\.$"),
        (
            _SOUND,
            "terminated",
            {"phase": "reset"},
            "ended TERMINATED in step; expected it in reset",
        ),
        (_SOUND, "terminated", {"error": ValueError}, "expected ValueError"),
        (_with(end=None), "terminated", {}, "is open after 3 timesteps; expected .* TERMINATED"),
        (
            _with(end=_ERRORED),
            "terminated",
            {},
            r"(?s)by ValueError: no such button; expected TERMINATED\..*Traceback: here",
        ),
        (_with(end=_ERRORED), "errored", {"error": KeyError}, "expected KeyError"),
    ],
)
def test_another_end_is_refused_with_what_was_found(trajectory, reason, expected, message):
    with pytest.raises(AssertionError, match=message):
        assert_ended(trajectory, reason, **expected)


def test_open_episodes_are_named():
    collector = MemoryTrajectoryCollector()
    assert_no_open_episode(collector)
    recorder = collector.begin_episode(EpisodeInfo(episode_id="still-open"))
    with pytest.raises(AssertionError, match=r"1 episode\(s\) .* still-open"):
        assert_no_open_episode(collector)
    recorder.end_episode(_TERMINATED)
    assert_no_open_episode(collector)


_TRUNCATED_BY_HAND = EpisodeEnd(reason=EndReason.TRUNCATED, detail="60 s")


@pytest.mark.parametrize(
    "trajectory",
    [
        _SOUND,
        _with(steps=(), end=_ERRORED),
        _with(steps=(_FIRST, _MID), end=None),
        _with(steps=(_FIRST, _MID), end=_TRUNCATED_BY_HAND),
        _with(
            steps=(_FIRST, _step(_LAST, index=1, discount=0.5)),
            end=EpisodeEnd(reason=EndReason.TRUNCATED),
        ),
    ],
    ids=["sound", "failed to begin", "open", "truncated by hand", "truncated"],
)
def test_a_consistent_trajectory_is_accepted(trajectory):
    assert_valid_trajectory(trajectory)


@each(
    ("trajectory", "message"),
    [
        (_with(steps=(_FIRST, _LAST)), r"numbered 0, 1, 2, \.\.\.; they are numbered \[0, 2\]"),
        (_with(steps=(_FIRST, _step(_MID, end_time=2.5), _LAST)), "end of step 1 .* before"),
        (_with(end_time=5.5), "the episode's end .* before the end of step 2"),
        (_with(end=None), "an episode that returned LAST must have ended"),
        (_with(end=EpisodeEnd(reason=EndReason.UNKNOWN)), "an end must have a reason"),
        (_with(steps=(_FIRST, _MID)), "TERMINATED must have a LAST step"),
        (_with(end=_TRUNCATED_BY_HAND), "means TERMINATED; it ended TRUNCATED"),
        (_with(end=dataclasses.replace(_TERMINATED, action_in_flight=True)), "no action in flight"),
        (
            _with(end=dataclasses.replace(_TERMINATED, recording_errors=("disk full",))),
            "not recorded: disk full",
        ),
        (_with(steps=(_step(_MID, index=0), _step(_LAST, index=1))), "FIRST must come first"),
        (_with(steps=(_FIRST, _step(_LAST, index=1), _LAST)), "step 1 is LAST, and 1 follow it"),
        (_with(steps=(_step(_FIRST, reward=0.0), _MID, _LAST)), "FIRST must have reward None"),
        (_with(steps=(_FIRST, _step(_MID, reward=None), _LAST)), "must have a reward"),
        (_with(steps=(_step(_FIRST, action="go"), _MID, _LAST)), "FIRST must have no action"),
        (
            _with(end=dataclasses.replace(_TERMINATED, violations=("it lies",))),
            "the environment: it lies",
        ),
    ],
)
def test_an_inconsistent_trajectory_is_refused_with_every_reason(trajectory, message):
    with pytest.raises(AssertionError, match=message):
        assert_valid_trajectory(trajectory)


def test_what_breaks_the_contract_can_be_allowed():
    collector = MemoryTrajectoryCollector()

    async def play():
        env = collecting_environment.TrajectoryCollectingEnvironment(
            fakes.AresEnvironment(), collector
        )
        async with env:
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step("answer")

    asyncio.run(play())
    (trajectory,) = collector.trajectories
    with pytest.raises(AssertionError, match="FIRST must have reward None"):
        assert_valid_trajectory(trajectory)
    assert_valid_trajectory(trajectory, allow_violations=True)
