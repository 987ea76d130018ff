"""Tries on many machines: numbers that never collide, and one of each row that counts."""

import dataclasses

import pytest

from rows import each
from webtraj import EndReason, Outcome
from webtraj.rollouts import plan_episodes
from webtraj.runs.run import TRIES_A_SESSION, EpisodeResult, RetryPolicy, Run, progress_of
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import open_storage
from webtraj.store.tries import pick_counting


@pytest.fixture
def run(tmp_path):
    return Run(open_storage(tmp_path), "one")


def summary(run, row, number, end):
    outcomes = {
        EndReason.TERMINATED: Outcome.SUCCESS,
        EndReason.ERRORED: Outcome.ENV_ERROR,
        EndReason.CANCELLED: Outcome.CANCELLED,
    }
    values = dict.fromkeys(EpisodeSummary.__struct_fields__)
    values |= {
        "episode_id": f"one-{row:06d}-{number:02d}", "task": "climb", "end_reason": end,
        "outcome": outcomes.get(end, Outcome.UNKNOWN), "num_steps": 3, "total_reward": 1.0,
    }  # fmt: skip
    return EpisodeSummary(**values)


def progress(run, *tries, retries=0):
    plan = plan_episodes("ladder/climb")
    found = [summary(run, 0, number, end) for number, end in tries]
    return progress_of(run, plan, found, RetryPolicy(max_retries=retries))


def test_sessions_have_numbers_of_their_own(run):
    assert run.sessions() == 0
    assert run.begin_session(resumed=False) == 0
    assert run.begin_session(resumed=True) == 2 * TRIES_A_SESSION
    assert run.begin_session(resumed=True) == 4 * TRIES_A_SESSION
    assert run.sessions() == 5


def test_a_session_uses_no_number_of_one_machine_alone_before_it(run):
    run.begin_session(resumed=False)
    (alone,) = progress(run, (0, EndReason.CANCELLED)).left
    assert run.begin_session(resumed=True) > alone.number


def test_what_one_machine_alone_began_may_be_out_of_sight_too(run):
    assert run.begin_session(resumed=True) == TRIES_A_SESSION


@each(
    ("tries", "counts"),
    [
        ([(0, EndReason.TERMINATED)], 0),
        ([(0, EndReason.TERMINATED), (1, EndReason.TERMINATED)], 1),
        ([(0, EndReason.TERMINATED), (1, EndReason.CANCELLED)], 0),
        ([(0, EndReason.CRASHED), (1, EndReason.TRUNCATED), (2, EndReason.ERRORED)], 1),
        ([(3, EndReason.TERMINATED), (1000, EndReason.TERMINATED), (7, EndReason.CRASHED)], 1000),
    ],
)
def test_of_tries_that_ended_by_themselves_the_last_one_counts(tries, counts, run):
    found = progress(run, *tries)
    assert [result.number for result in found.counting] == [counts]
    assert found.left == ()
    assert len(found.done) == len(tries)


def test_where_none_ended_by_itself_the_last_one_counts_and_the_row_is_open(run):
    run.begin_session(resumed=False)
    found = progress(run, (0, EndReason.CRASHED), (1, EndReason.CANCELLED))
    assert [result.number for result in found.counting] == [1]
    (turn,) = found.left
    assert (turn.number, turn.retry_of) == (TRIES_A_SESSION, "one-000000-01")


def test_an_error_of_a_try_that_comes_to_light_late_counts_as_a_try(run):
    tries = [(0, EndReason.ERRORED), (1, EndReason.ERRORED)]
    assert progress(run, *tries, retries=1).left == ()
    assert len(progress(run, *tries, retries=2).left) == 1


def test_rows_without_a_record_begin_above_what_sessions_may_have_used(run):
    run.begin_session(resumed=False)
    (turn,) = progress(run).left
    assert (turn.number, turn.retry_of) == (TRIES_A_SESSION, "")


def test_results_count_in_any_order():
    result = EpisodeResult(
        task="a", seed=0, attempt=0, episode_id="", end_reason=EndReason.TERMINATED,
        outcome=Outcome.SUCCESS, num_steps=1, total_reward=1.0, seconds=1.0, row=4,
    )  # fmt: skip
    results = [dataclasses.replace(result, number=number) for number in (2, 0, 1)]
    assert pick_counting(results) == (results[0],)
