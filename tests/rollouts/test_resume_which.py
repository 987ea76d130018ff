"""Which run `--resume` resumes when a dataset has several, and that rows of two runs are two."""

import pytest

from webtraj import EndReason, Outcome
from webtraj.datasets.writer import DatasetWriter
from webtraj.rollouts import plan_episodes
from webtraj.rollouts.configuration.selection import last_successes
from webtraj.runs.iterations import Iterations
from webtraj.runs.run import Run, Turn, run_of
from webtraj.store.places import open_storage
from webtraj.trajectory import (
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)

SUCCESS = EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS)
BROKE = EpisodeEnd(reason=EndReason.ERRORED, outcome=Outcome.ENV_ERROR)
CANCELLED = EpisodeEnd(reason=EndReason.CANCELLED, outcome=Outcome.CANCELLED)


@pytest.fixture
def played(tmp_path):
    """Records runs: their ids with the ends of their rows; None for one without an episode."""

    def play(retries=0, given=None, **runs):
        plan = plan_episodes("ladder/climb", episodes=2)
        with DatasetWriter(tmp_path / "d") as writer:
            storage = open_storage(tmp_path / "d")
            for run_id, ends in runs.items():
                run = Run(storage, run_id)
                run.write_plan(plan, seed=0, settings={"max_retries": retries})
                for planned, end in zip(plan, ends, strict=True):
                    if end is not None:
                        info = EpisodeInfo(episode_id=run.episode_id(Turn(planned=planned)))
                        steps = (
                            StepRecord(0, StepType.FIRST, "a"),
                            StepRecord(1, StepType.LAST, "b"),
                        )
                        writer.add(EpisodeTrajectory(info, steps, end, start_time=1.0))
        return run_of(storage, resume=True, max_retries=given).run_id

    return play


@pytest.mark.parametrize(
    ("runs", "options", "expected"),
    [
        ({"a": (SUCCESS, SUCCESS), "b": (SUCCESS, SUCCESS)}, {}, "b"),
        ({"a": (SUCCESS, None), "b": (SUCCESS, SUCCESS)}, {}, "a"),
        ({"a": (SUCCESS, CANCELLED), "b": (SUCCESS, SUCCESS)}, {}, "a"),
        ({"a": (SUCCESS, BROKE), "b": (SUCCESS, SUCCESS)}, {}, "b"),
        ({"a": (SUCCESS, BROKE), "b": (SUCCESS, SUCCESS)}, {"retries": 1}, "a"),
        ({"a": (SUCCESS, BROKE), "b": (SUCCESS, SUCCESS)}, {"given": 1}, "a"),
        ({"a": (SUCCESS, BROKE), "b": (SUCCESS, SUCCESS)}, {"retries": 1, "given": 0}, "b"),
        ({"a": (None, None), "b": (SUCCESS, None)}, {}, "b"),
    ],
    ids=[
        "all done",
        "an earlier one open",
        "cut off",
        "retries used up",
        "a retry left",
        "a retry given",
        "no retry given",
        "latest",
    ],
)
def test_the_latest_run_that_is_not_done_is_resumed(played, runs, options, expected):
    times = {name: f"2026112{n}T000000-000-{name}" for n, name in enumerate(runs)}
    found = played(**options, **{times[name]: ends for name, ends in runs.items()})
    assert found == times[expected]


def test_a_run_with_a_damaged_plan_is_passed_over(played, tmp_path):
    first, second = "20261120T000000-000-a", "20261121T000000-000-b"
    assert played(**{first: (SUCCESS, None), second: (SUCCESS, SUCCESS)}) == first
    (tmp_path / "d" / "runs" / first / "plan.jsonl").write_bytes(b"damaged")
    assert run_of(open_storage(tmp_path / "d"), resume=True).run_id == second


def test_rows_of_two_runs_of_an_iteration_are_not_tries_of_each_other(tmp_path):
    iterations = Iterations(str(tmp_path), "train")
    place = iterations.dataset(iterations.claim())
    plan = plan_episodes("ladder/climb", episodes=2)
    with DatasetWriter(place) as writer:
        for run_id in ("20261120T000000-000-a", "20261121T000000-000-b"):
            run = Run(open_storage(place), run_id)
            run.write_plan(plan, seed=0, settings={})
            for planned in plan:
                info = EpisodeInfo(episode_id=run.episode_id(Turn(planned=planned)))
                steps = (StepRecord(0, StepType.FIRST, "a"), StepRecord(1, StepType.LAST, "b"))
                writer.add(EpisodeTrajectory(info, steps, SUCCESS, start_time=1.0))
    assert last_successes(iterations, before=2) == {plan[0].spec.name: (4, 4)}
