"""What a rollout shows: counts while it runs, and in the end how to go on."""

import contextlib
import itertools

import pytest

from webtraj import EndReason, Outcome
from webtraj.cli.progress import RolloutProgress
from webtraj.rollouts import EpisodeResult, RolloutSummary, plan_episodes

GO_ON = "webtraj rollout --out runs/x --resume"


def result(row, outcome, *, number=0, steps=5):
    ends = {Outcome.SUCCESS: EndReason.TERMINATED, Outcome.FAILURE: EndReason.TERMINATED,
            Outcome.CANCELLED: EndReason.CANCELLED}  # fmt: skip
    return EpisodeResult(
        task="climb", seed=0, attempt=row, episode_id=f"e{row}-{number}",
        end_reason=ends.get(outcome, EndReason.ERRORED), outcome=outcome, num_steps=steps,
        total_reward=None, seconds=1.0, row=row, number=number,
        error="" if outcome in ends else "the ladder broke",
    )  # fmt: skip


@pytest.fixture
def show(capsys):
    """Shows a rollout of some rows; returns what was printed in the end."""

    def show(planned, *results, error=None, earlier=()):
        clock = itertools.count(0.0, 2.0)
        progress = RolloutProgress("runs/x", go_on=GO_ON, clock=lambda: next(clock))
        with contextlib.suppress(OSError), progress:
            progress.rollout_planned(plan_episodes("ladder/climb", episodes=planned))
            for one in results:
                progress.episode_ended(one)
            if error is not None:
                raise error
            progress.rollout_ended(RolloutSummary(results=(*earlier, *results), seconds=1.0))
        return capsys.readouterr().out

    return show


def test_counts_outcomes_success_and_speed():
    clock = iter([10.0, 11.0, 12.0, 14.0, 20.0])
    progress = RolloutProgress("runs/x", clock=lambda: next(clock))
    progress.rollout_planned(plan_episodes("ladder/climb", episodes=4))
    for one in (
        result(0, Outcome.SUCCESS), result(1, Outcome.FAILURE), result(2, Outcome.ENV_ERROR),
    ):  # fmt: skip
        progress.episode_ended(one)
    assert progress.counts == "success 1, failure 1, env_error 1, 50% solved, 1.5 steps/s"


def test_tries_at_one_row_count_once(show):
    told = show(1, result(0, Outcome.ENV_ERROR), result(0, Outcome.SUCCESS, number=1))
    assert "1 of 1 episode is in runs/x (2 tries in all)." in told
    assert GO_ON not in told


def test_only_episodes_that_count_are_told_as_played(show):
    told = show(
        5, result(0, Outcome.SUCCESS), result(1, Outcome.AGENT_ERROR),
        result(2, Outcome.CANCELLED), result(3, Outcome.MODEL_ERROR),
    )  # fmt: skip
    assert "2 of 5 episodes are in runs/x (1 failed by the machinery, 1 cut off)." in told


def test_a_resumed_run_counts_its_earlier_episodes_too(show):
    earlier = (
        result(7, Outcome.SUCCESS), result(8, Outcome.FAILURE), result(0, Outcome.CANCELLED),
    )  # fmt: skip
    new = (result(0, Outcome.SUCCESS, number=1), result(1, Outcome.SUCCESS))
    told = show(2, *new, earlier=earlier)
    assert "Recorded earlier: 3 episodes; these are new:" in told
    assert "4 of 4 episodes are in runs/x (5 tries in all)." in told
    assert GO_ON not in told


def test_rollout_that_was_cut_off_tells_how_to_go_on(show):
    told = show(2, result(0, Outcome.SUCCESS), result(1, Outcome.CANCELLED))
    assert f"To resume: {GO_ON}\n" in told


@pytest.mark.parametrize("results", [(), (result(0, Outcome.SUCCESS),)], ids=["none", "one"])
def test_rollout_that_broke_off_tells_why_and_how_to_go_on(results, show):
    told = show(2, *results, error=OSError("the disk is full\nand more"))
    assert f"To resume: {GO_ON}\n" in told
    assert ("The rollout ended early (the disk is full)." in told) == bool(results)
