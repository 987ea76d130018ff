"""Where an episode's time went follows from its record alone."""

import pytest

from webtraj.agents.timing import TimeSplit, time_split, total_time_split
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    StepRecord,
    StepType,
)


def step(index, start, end, *latencies):
    calls = tuple(ModelCall(latency=latency) for latency in latencies)
    kind = StepType.FIRST if index == 0 else StepType.MID
    return StepRecord(
        index, kind, None, start_time=start, end_time=end, decision=Decision(model_calls=calls)
    )


EPISODE = EpisodeTrajectory(
    EpisodeInfo(),
    (step(0, 100.0, 101.0), step(1, 103.5, 104.0, 2.0), step(2, 107.5, 108.0, 1.0, 2.0)),
    EpisodeEnd(
        reason=EndReason.ERRORED,
        in_flight_decision=Decision(model_calls=(ModelCall(latency=0.5, error="away"),)),
    ),
    start_time=100.0,
    end_time=110.0,
)


def test_time_goes_to_model_environment_or_neither():
    split = time_split(EPISODE)
    assert split == TimeSplit(model=5.5, environment=2.0, other=2.5)
    assert (split.total, split.other_share) == (10.0, 0.25)


def test_times_that_were_not_recorded_are_no_time():
    bare = EpisodeTrajectory(EpisodeInfo(), (StepRecord(0, StepType.FIRST, None),))
    assert time_split(bare) == TimeSplit()
    assert time_split(bare).other_share == 0
    calls = EpisodeTrajectory(EpisodeInfo(), (step(1, None, None, None, 2.0),))
    assert time_split(calls) == TimeSplit(model=2.0)


def test_clock_that_was_set_back_makes_no_time_negative():
    back = EpisodeTrajectory(
        EpisodeInfo(), (step(0, 100.0, 90.0),), start_time=100.0, end_time=90.0
    )
    assert time_split(back) == TimeSplit()


def test_episodes_add_up():
    both = total_time_split([EPISODE, EPISODE])
    assert both == TimeSplit(model=11.0, environment=4.0, other=5.0)
    assert total_time_split([]).total == 0
    assert both.other_share == pytest.approx(0.25)
