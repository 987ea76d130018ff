"""Where the time of an episode goes, phase by phase."""

import dataclasses
import math

import pytest
from hypothesis import given
from measured_episodes import make_trajectory, patient, reply

from webtraj import EndReason, Outcome
from webtraj.metrics.facts import PhaseTimes, phase_times
from webtraj.testing.strategies import trajectories
from webtraj.trajectory import EpisodeTrajectory


def timings(**seconds):
    return {"timings": {"act": 0.0, "settle": 0.0, "observe": 0.0, "pictures": 0.0, **seconds}}


def test_a_step_is_taken_apart_by_its_timings():
    seen = timings(act=0.25, settle=0.25, observe=0.125, pictures=0.125, total=0.75)
    times = phase_times(make_trajectory(["a", "b"], observations=[seen, {}], seconds=4.0))
    assert times == PhaseTimes(
        reset=1.0, act=0.25, settle=0.25, observe=0.25, environment=0.25 + 1.0, other=1.0
    )


def test_a_page_whose_clock_runs_wild_takes_no_more_than_the_step():
    seen = timings(act=0.5, settle=99.0, observe=math.nan, pictures=-1.0)
    times = phase_times(make_trajectory(["a"], observations=[seen], seconds=2.0))
    assert times == PhaseTimes(reset=1.0, act=0.5, settle=0.5)


def test_model_calls_and_the_waits_before_them():
    # The reset ends at 1001; each step takes a second, and begins when the one before has ended.
    one = reply("a", "x", start_time=1001.25, latency=0.5)
    two = reply("b", "x", start_time=1002.0, latency=1.0)
    decision = dataclasses.replace(one, model_calls=(*one.model_calls, *two.model_calls))
    times = phase_times(make_trajectory(["x"], decisions=[decision], seconds=6.0))
    assert times == PhaseTimes(
        reset=1.0, model=1.5, waiting=0.25 + 0.25, environment=1.0, other=2.0
    )


def test_calls_without_a_time_of_their_own_have_no_wait():
    decision = reply("a", "x", latency=0.5)
    times = phase_times(make_trajectory(["x"], decisions=[decision], seconds=3.0))
    assert times == PhaseTimes(reset=1.0, model=0.5, environment=1.0, other=0.5)


def test_time_of_an_action_that_never_came_back_is_the_environments():
    made = make_trajectory(
        ["x"],
        outcome=Outcome.TIMEOUT,
        reason=EndReason.ERRORED,
        seconds=32.0,
        in_flight=reply("a", "y"),
    )
    hung = dataclasses.replace(made, end=dataclasses.replace(made.end, action_in_flight=True))
    assert phase_times(hung).environment == 1.0 + 30.0
    assert phase_times(made).other == 30.0


def test_nothing_is_known_without_times():
    made = make_trajectory(["x"])
    steps = tuple(dataclasses.replace(s, start_time=None, end_time=None) for s in made.steps)
    assert phase_times(EpisodeTrajectory(made.info, steps, made.end)) == PhaseTimes()


@patient
@given(trajectories())
def test_phases_are_never_negative_and_cover_the_episode(episode):
    times = phase_times(episode)
    assert all(seconds >= 0 for seconds in dataclasses.astuple(times))
    if episode.start_time is not None and episode.end_time is not None:
        length = episode.end_time - episode.start_time
        assert times.total >= length or times.total == pytest.approx(length)


def test_times_add_up():
    one, two = PhaseTimes(model=1.0, act=2.0), PhaseTimes(act=3.0, other=4.0)
    assert one + two == PhaseTimes(model=1.0, act=5.0, other=4.0)
    assert (one + two).total == one.total + two.total
