"""Writing whole episodes: into folders and buckets, twice, at once, and half."""

import dataclasses
import secrets
import threading

import orjson
import pytest
from hypothesis import given, settings

from rows import each
from webtraj import errors, open_dataset
from webtraj.datasets.place import open_place
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.blobs import BlobSource
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same, trajectories
from webtraj.trajectory import EpisodeInfo


def objects(place):
    """Returns what lies at a place, by key."""
    storage = open_storage(place)
    return {entry.key: storage.read(entry.key) for entry in storage.list()}


def test_what_was_added_is_what_is_read(place, episodes):
    with DatasetWriter(place) as writer:
        summaries = [writer.add(episode) for episode in episodes]
    dataset = open_dataset(place)
    assert list(dataset.summaries) == summaries
    assert all(map(same, dataset, episodes))
    assert verify(place).clean
    assert len([key for key in objects(place) if key.startswith("blobs/")]) == 6


@given(trajectories(max_steps=3))
@settings(deadline=None, max_examples=25)
def test_any_episode_can_be_added(trajectory):
    place = f"memory://{secrets.token_hex(8)}"
    with DatasetWriter(place) as writer:
        writer.add(trajectory)
    (read,) = open_dataset(place)
    assert same(read, trajectory)
    assert verify(place).clean


def test_the_same_episode_is_skipped(place, episodes):
    for _ in range(3):
        with DatasetWriter(place) as writer:
            first = [writer.add(episode) for episode in episodes]
            assert [writer.add(episode) for episode in episodes] == first
    assert len(open_dataset(place)) == 5
    assert sum(body.count(b"\n") for key, body in objects(place).items() if "index/" in key) == 5


def test_another_episode_of_the_same_id_is_refused(place, episode):
    with DatasetWriter(place) as writer:
        writer.add(episode(1))
        before = objects(place)
        with pytest.raises(errors.StorageConflictError, match="has a different episode 'e1'"):
            writer.add(episode(1, goal="another"))
        assert objects(place) == before
    assert open_dataset(place)["e1"].info.goal == ""


def test_writers_at_once_write_each_episode_once(place, episode):
    def write(first):
        with DatasetWriter(place) as writer:
            for number in range(first, first + 20):
                writer.add(episode(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(open_dataset(place)) == 40
    assert verify(place).clean


@pytest.mark.parametrize("lost", ["index/", "episodes/"])
def test_adding_again_completes_what_was_left_half_done(place, episodes, lost):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    storage = open_storage(place)
    whole = objects(place)
    for key in whole:
        if key.startswith(("index/", lost)):
            storage.delete(key)
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    again = objects(place)
    assert {k: v for k, v in again.items() if "index/" not in k} == {
        k: v for k, v in whole.items() if "index/" not in k
    }
    assert len(open_dataset(place)) == 5
    assert verify(place).clean


BAD = {
    "no end": (lambda e: dataclasses.replace(e, end=None), errors.InvalidInputError, "has no end"),
    "a bad id": (
        lambda e: dataclasses.replace(e, info=EpisodeInfo(episode_id="../e")),
        errors.InvalidEpisodeIdError, "cannot name a file",
    ),
    "a time in milliseconds": (
        lambda e: dataclasses.replace(e, end_time=1.7e12),
        errors.InvalidInputError, "EpisodeTrajectory.end_time is .*; expected seconds",
    ),
    "a time before 1970": (
        lambda e: dataclasses.replace(e, start_time=-62135596800.0),
        errors.InvalidInputError, "EpisodeTrajectory.start_time is -62135596800.0",
    ),
    "a time that is no number": (
        lambda e: dataclasses.replace(e, end_time="noon"),
        errors.InvalidInputError, "EpisodeTrajectory.end_time is 'noon'",
    ),
    "an end whose error is an exception": (
        lambda e: dataclasses.replace(e, end=dataclasses.replace(e.end, error=ValueError("no"))),
        errors.InvalidInputError, r"end.error is ValueError\('no'\); .* ErrorInfo",
    ),
    "info that is no record": (
        lambda e: dataclasses.replace(e, info={"episode_id": "e1"}),
        errors.InvalidInputError, "info is {'episode_id': 'e1'}; .* EpisodeInfo",
    ),
    "a step that is no record": (
        lambda e: dataclasses.replace(e, steps=[e.steps[0], None]),
        errors.InvalidInputError, r"steps\[1\] is None; .* StepRecord",
    ),
    "a judgement that is no record": (
        lambda e: dataclasses.replace(e, end=dataclasses.replace(e.end, judgements=["good"])),
        errors.InvalidInputError, r"end.judgements\[0\] is 'good'; .* Judgement",
    ),
    "a step with a wrong index": (
        lambda e: dataclasses.replace(e, steps=[dataclasses.replace(e.steps[0], index=-1)]),
        errors.InvalidInputError, "StepRecord.index is -1; expected a whole number of 0 or more",
    ),
}  # fmt: skip


@each(("spoil", "error", "what"), BAD.values())
def test_what_cannot_be_kept_is_refused_and_leaves_nothing(place, episode, spoil, error, what):
    with DatasetWriter(place) as writer:
        before = objects(place)
        with pytest.raises(error, match=what):
            writer.add(spoil(episode(1)))
        assert objects(place) == before


class Missing(BlobSource):
    def read(self, blob):
        raise errors.CorruptDataError("gone")


class Wrong(Missing):
    def read(self, blob):
        return b"wrong"


@pytest.mark.parametrize("blobs", [Missing(), Wrong()], ids=["missing", "wrong"])
def test_an_episode_whose_blobs_are_missing_or_wrong_is_refused(place, tmp_path, episode, blobs):
    with DatasetWriter(tmp_path / "other") as other:
        other.add(episode(1))
    data = open_place(tmp_path / "other").read_episode("e1", "json")
    with DatasetWriter(place) as writer, pytest.raises(errors.CorruptDataError):
        writer.add_data(orjson.loads(data), blobs)
    assert len(open_dataset(place)) == 0
    assert not [key for key in objects(place) if key.startswith(("episodes", "index"))]
