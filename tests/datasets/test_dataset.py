"""Reading a dataset: sequence, filters, lazy blobs, and reading while it is written."""

import dataclasses
import tempfile

import pytest
from hypothesis import given, settings

from rows import each
from webtraj import JsonTrajectoryCollector, Outcome, errors, open_dataset
from webtraj import trajectory as trajectory_lib
from webtraj.store.blobs import LazyBlob
from webtraj.testing.strategies import same, trajectories
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, StepType

SHOT = b"\xff\xd8\xff" + bytes(range(256)) * 20


def record(collector, episode_id, *, reward=1.0, end=None, **info):
    recorder = collector.begin_episode(EpisodeInfo(episode_id=episode_id, **info))
    recorder.record_step(StepRecord(0, StepType.FIRST, {"shot": SHOT}))
    recorder.record_step(StepRecord(1, StepType.LAST, "seen", "a1", reward, 0.0))
    recorder.end_episode(end or EpisodeEnd(reason=EndReason.TERMINATED))


@pytest.fixture
async def collector(tmp_path):
    async with JsonTrajectoryCollector(tmp_path / "dataset", fsync="never") as collector:
        yield collector


@pytest.fixture
async def five(collector):
    """A dataset of the episodes e0 to e4."""
    success = EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS)
    closed = EpisodeEnd(reason=EndReason.CLOSED)
    record(collector, "e0", task="a", site="x", reward=0.0)
    record(collector, "e1", task="a", policy="p", end=success)
    record(collector, "e2", task="b", end=closed)
    record(collector, "e3", task="b", reward=-1.0, end=success)
    record(collector, "e4", reward=float("nan"))
    await collector.flush()
    return open_dataset(collector.path)


def ids(episodes):
    return [episode.episode_id for episode in episodes]


# A sequence.


def test_it_is_a_sequence_in_the_order_in_which_episodes_began(five):
    assert len(five) == 5
    assert ids(five) == list(five.episode_ids) == ids(five.summaries)
    assert list(five.episode_ids) == ["e0", "e1", "e2", "e3", "e4"]
    assert five[0].episode_id == "e0"
    assert five[-1].episode_id == "e4"
    with pytest.raises(IndexError):
        five[5]


def test_episodes_are_found_by_id(five):
    assert five["e2"].info.task == "b"
    assert "e2" in five
    assert "e9" not in five
    with pytest.raises(
        errors.UnknownEpisodeError, match=r"No sealed episode 'e9' in .* \(it has 5\)"
    ):
        five["e9"]
    with pytest.raises(errors.UnknownEpisodeError):
        five.filter(task="a")["e2"]


FILTERS = {
    "task": ({"task": "a"}, ["e0", "e1"]),
    "site": ({"site": "x"}, ["e0"]),
    "policy": ({"policy": "p"}, ["e1"]),
    "outcome": ({"outcome": Outcome.SUCCESS}, ["e1", "e3"]),
    "outcome by name": ({"outcome": "Success"}, ["e1", "e3"]),
    "end reason": ({"end_reason": EndReason.CLOSED}, ["e2"]),
    "end reason by name": ({"end_reason": "closed"}, ["e2"]),
    "least reward": ({"min_reward": 0.0}, ["e0", "e1"]),
    "greatest reward": ({"max_reward": 0.0}, ["e0", "e3"]),
    "predicate": ({"predicate": lambda summary: summary.num_steps > 5}, []),
    "several": ({"task": "b", "outcome": "success", "max_reward": 0}, ["e3"]),
    "none": ({}, ["e0", "e1", "e2", "e3", "e4"]),
}


@each(("conditions", "expected"), FILTERS.values())
def test_filters(five, conditions, expected):
    assert ids(five.filter(**conditions)) == expected


def test_blobs_are_read_when_they_are_asked_for(five):
    eager = five["e0"].steps[0].observation["shot"]
    assert eager == SHOT
    lazy = open_dataset(five.path, blobs="lazy")["e0"].steps[0].observation["shot"]
    assert isinstance(lazy, LazyBlob)
    assert lazy.load() == SHOT
    assert lazy.path.suffix == ".jpg"
    lazy.path.unlink()
    assert open_dataset(five.path, blobs="lazy")["e0"].num_steps == 1
    with pytest.raises(errors.CorruptDataError, match="Cannot read the blob"):
        lazy.load()
    with pytest.raises(errors.CorruptDataError, match="Cannot read the blob"):
        open_dataset(five.path)["e0"]


# What is no dataset.


def test_a_wrong_place_is_told_apart_from_one_that_is_not_there(tmp_path, five):
    file = tmp_path / "notes.txt"
    file.write_text("")
    (tmp_path / "empty").mkdir()
    around = five.path.parent
    for place, why in (
        (tmp_path / "nowhere", "the folder does not exist. Name the folder"),
        (file, "it is a file. Name the folder"),
        (file / "below", "the folder does not exist. Name the folder"),
        (tmp_path / "empty", "it has no dataset.json. Name the folder"),
        (around, f"These in it are datasets: {five.path}."),
    ):
        with pytest.raises(errors.NotADatasetError) as refused:
            open_dataset(place)
        assert f"No dataset at {str(place)!r}: " in str(refused.value)
        assert why in str(refused.value)


# While it is being written.


async def test_it_can_be_read_while_it_is_written(collector):
    dataset = open_dataset(collector.path)
    record(collector, "one")
    two = collector.begin_episode(EpisodeInfo(episode_id="two"))
    await collector.flush()
    assert len(dataset) == 0
    dataset = dataset.refresh()
    assert (ids(dataset), dataset.open_episodes) == (["one"], ("two",))
    two.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
    await collector.flush()
    dataset = dataset.refresh()
    assert (ids(dataset), dataset.open_episodes) == (["one", "two"], ())


def index_file(path):
    (found,) = (path / "index").iterdir()
    return found


@pytest.mark.parametrize("cut", [1, 50, None], ids=["a byte", "half", "all of it"])
def test_an_episode_without_its_index_line_is_found_by_its_file(five, cut):
    path = index_file(five.path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + (b"" if cut is None else lines[-1][:-cut]))
    again = five.refresh()
    assert [s.to_line() for s in again.summaries] == [s.to_line() for s in five.summaries]


@each("line", ["", "{", "[]", "3", '{"task": "x"}', '{"episode_id": "../../x"}',
     '{"episode_id": 3}', '{"episode_id": "e0", "start_time": "noon"}'])  # fmt: skip
def test_index_lines_that_cannot_be_read_are_passed_over(five, line):
    path = index_file(five.path)
    path.write_bytes(line.encode() + b"\n" + path.read_bytes())
    assert ids(five.refresh()) == ["e0", "e1", "e2", "e3", "e4"]


def test_a_file_that_holds_no_episode_is_listed_and_cannot_be_read(five):
    (five.path / "episodes" / "e9.json").write_text("{}")
    dataset = five.refresh()
    assert len(dataset) == 6
    with pytest.raises(errors.CorruptDataError):
        dataset["e9"]


# What was recorded is what is read.


@given(trajectories(max_steps=3))
@settings(deadline=None, max_examples=15)
async def test_what_was_recorded_is_what_is_read(trajectory):
    with tempfile.TemporaryDirectory() as folder:
        async with JsonTrajectoryCollector(folder, fsync="never") as collector:
            recorder = collector.begin_episode(trajectory.info)
            for step in trajectory.steps:
                recorder.record_intent(step.action, decision=step.decision)
                recorder.record_step(step)
            recorder.end_episode(trajectory.end)
        (read,) = open_dataset(folder)
    times = {"start_time": None, "end_time": None}
    assert same(dataclasses.replace(read, **times), dataclasses.replace(trajectory, **times))
    assert isinstance(read, trajectory_lib.EpisodeTrajectory)
