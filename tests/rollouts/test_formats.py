"""What episodes are written as: one format a dataset, whoever adds to it, and whoever goes on."""

import asyncio
import itertools

import pytest

from webtraj import Outcome, errors, open_dataset
from webtraj.datasets.verification import verify
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.recording import settle_format
from webtraj.runs.run import Run
from webtraj.store.places import open_storage

FORMATS = ["json", "pb", "pb.zst"]
_NUMBERS = itertools.count()


@pytest.fixture(params=["folder", "bucket"])
def out(request, tmp_path, monkeypatch):
    """A place to record to."""
    if request.param == "folder":
        return str(tmp_path / "data")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return f"memory://test-formats/{next(_NUMBERS)}"


def formats_in(out):
    storage = open_storage(out)
    return {entry.key.partition(".")[2] for entry in storage.list("episodes/")}


@pytest.mark.parametrize("name", FORMATS)
async def test_episodes_are_written_as_it_says(climber, out, name):
    await collect(RunSpec(preset="ladder/climb", episodes=3, out=out, format=name), agent=climber())
    assert formats_in(out) == {name}
    dataset = open_dataset(out)
    assert [trajectory.total_reward for trajectory in dataset] == [2.0] * 3
    assert not verify(out).problems


@pytest.mark.parametrize("name", FORMATS)
async def test_who_adds_to_a_dataset_takes_its_format(climber, out, name):
    await collect(RunSpec(preset="ladder/climb", out=out, format=name), agent=climber())
    await collect(RunSpec(preset="ladder/slip", out=out), agent=climber())
    assert formats_in(out) == {name}
    assert len(open_dataset(out)) == 2


@pytest.mark.parametrize("resume", [False, True], ids=["added", "resumed"])
async def test_another_format_is_refused_and_changes_nothing(climber, out, resume):
    await collect(RunSpec(preset="ladder/climb", out=out, format="pb"), agent=climber())
    before = {entry.key for entry in open_storage(out).list()}
    with pytest.raises(errors.InvalidInputError, match="has format 'pb', but 'json'"):
        await collect(
            RunSpec(preset="ladder/climb", out=out, format="json"), agent=climber(), resume=resume
        )
    assert {entry.key for entry in open_storage(out).list()} == before


async def test_a_run_that_died_goes_on_in_its_format(climber, out):
    flaky = {"max_retries": 0}
    rollout = asyncio.ensure_future(
        collect(
            RunSpec(preset=["ladder/climb", "ladder/hang"], out=out, format="pb.zst"),
            agent=climber(),
        )
    )
    while not any(rollout_over(out)):
        await asyncio.sleep(0.01)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    settings = {"max_steps": 1, **flaky}
    summary = await collect(RunSpec(out=out, **settings), agent=climber(), resume=True)
    assert formats_in(out) == {"pb.zst"}
    assert [result.row for result in summary.last_tries] == [0, 1]
    assert summary.last_tries[0].outcome is Outcome.SUCCESS


def rollout_over(out):
    try:
        yield len(open_dataset(out)) > 0
    except errors.NotADatasetError:
        yield False


def test_before_the_first_episode_a_bucket_knows_the_format_by_the_run():
    storage = open_storage("memory://test-formats/begun")
    run = Run(storage, "one")
    run.write_plan((), seed=0, settings={"format": "pb"})
    assert settle_format(None, "memory://test-formats/begun", None, run=run) == "pb"
    with pytest.raises(errors.InvalidInputError, match="has format 'pb'"):
        settle_format("json", "memory://test-formats/begun", None, run=run)
    assert settle_format(None, "memory://test-formats/new", None) == "json"
