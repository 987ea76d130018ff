"""Deleting episodes and the blobs of nobody: never one that an episode refers to."""

import contextlib
import os
import secrets
import threading
import time

import pytest

from webtraj import JsonTrajectoryCollector, errors, open_dataset
from webtraj.collectors.blobs import TOUCH_INTERVAL, BlobStore
from webtraj.datasets import garbage
from webtraj.datasets.compaction import compact, remove_from_index
from webtraj.datasets.deletion import delete
from webtraj.datasets.garbage import collect_garbage
from webtraj.datasets.place import open_place
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.storage import open_storage
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, StepType


@pytest.fixture
def five(place, episodes):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    return place


def blobs(place):
    return sorted(entry.key for entry in open_storage(place).list("blobs/"))


def age(folder, seconds=7200.0):
    """Makes all blobs of a dataset look as if they had been put long ago."""
    for path in (folder / "blobs").glob("??/[!.]*"):
        then = time.time() - seconds
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (then, then))


def test_what_is_deleted_is_gone_and_the_rest_is_whole(five):
    before = {episode.episode_id: episode for episode in open_dataset(five)}
    report = delete(five, ["e1", "e3"], alone=True)
    assert report.deleted == ("e1", "e3")
    assert (report.garbage.removed, report.garbage.kept) == (2, 4)
    assert list(open_dataset(five).episode_ids) == ["e0", "e2", "e4"]
    assert verify(five).clean
    assert verify(five).unreferenced_blobs == 0
    for episode in open_dataset(five):
        assert episode.steps[1].observation == before[episode.episode_id].steps[1].observation


def test_what_was_deleted_may_be_added_again(five, episode):
    delete(five, ["e1"], alone=True)
    with DatasetWriter(five) as writer:
        writer.add(episode(1))
    assert "e1" in open_dataset(five)
    assert verify(five).clean


def test_beside_a_living_writer_an_episode_goes_from_its_index_file_too(tmp_path, episode):
    with DatasetWriter(tmp_path) as writer:
        for number in range(3):
            writer.add(episode(number))
        delete(tmp_path, ["e1"])
        assert list(open_dataset(tmp_path).episode_ids) == ["e0", "e2"]
        assert verify(tmp_path).clean
        writer.add(episode(5))
    with DatasetWriter(tmp_path) as again:
        again.add(episode(1))
    assert sorted(open_dataset(tmp_path).episode_ids) == ["e0", "e1", "e2", "e5"]
    compact(tmp_path)
    assert sorted(open_dataset(tmp_path).episode_ids) == ["e0", "e1", "e2", "e5"]
    assert verify(tmp_path).clean


def test_if_one_is_not_there_none_is_deleted(five):
    with pytest.raises(errors.UnknownEpisodeError, match="'e9'; nothing was deleted"):
        delete(five, ["e1", "e9"])
    with pytest.raises(errors.InvalidEpisodeIdError):
        delete(five, ["../e1"])
    assert len(open_dataset(five)) == 5


def test_an_open_episode_is_not_deleted(tmp_path):
    with JsonTrajectoryCollector(tmp_path, fsync="never") as collector:
        collector.begin_episode(EpisodeInfo(episode_id="e1"))
        with pytest.raises(errors.InvalidInputError, match="still being recorded"):
            delete(tmp_path, ["e1"])


def test_a_deletion_that_died_after_the_index_is_undone_and_can_be_done_again(tmp_path, episodes):
    with DatasetWriter(tmp_path) as writer:
        for episode in episodes:
            writer.add(episode)
    remove_from_index(open_place(tmp_path), ["e1"])
    assert len(open_dataset(tmp_path)) == 5
    assert recover(tmp_path).indexed == ("e1",)
    assert verify(tmp_path).clean
    delete(tmp_path, ["e1"])
    assert len(open_dataset(tmp_path)) == 4
    assert verify(tmp_path).clean


# Blobs.


def test_young_blobs_stay_and_old_ones_go(tmp_path, episodes):
    with DatasetWriter(tmp_path) as writer:
        for episode in episodes:
            writer.add(episode)
    report = delete(tmp_path, ["e1", "e3"]).garbage
    assert (report.removed, report.too_young, report.kept) == (0, 2, 4)
    age(tmp_path)
    report = collect_garbage(tmp_path)
    assert (report.removed, report.too_young, report.kept) == (2, 0, 4)
    assert verify(tmp_path).clean


def test_blobs_of_an_open_episode_stay_however_old(tmp_path):
    with JsonTrajectoryCollector(tmp_path, fsync="never") as collector:
        recorder = collector.begin_episode(EpisodeInfo(episode_id="e1"))
        recorder.record_step(StepRecord(0, StepType.FIRST, b"x" * 5000))
        age(tmp_path)
        assert collect_garbage(tmp_path).kept == 1
        assert collect_garbage(tmp_path, alone=True).kept == 1
        recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
    assert verify(tmp_path).clean


def test_blobs_of_a_torn_or_damaged_episode_stay(tmp_path, episode):
    with DatasetWriter(tmp_path) as writer:
        writer.add(episode(1))
    path = tmp_path / "episodes" / "e1.json"
    path.write_bytes(path.read_bytes()[:-1])
    age(tmp_path)
    assert collect_garbage(tmp_path).kept == 2


def test_a_blob_that_is_put_again_is_young_again(tmp_path):
    now = [1000.0]
    store = BlobStore(tmp_path / "blobs", clock=lambda: now[0])
    path = store.path(store.put(b"x" * 5000, "bin"))
    os.utime(path, (1.0, 1.0))
    store.put(b"x" * 5000, "bin")
    assert path.stat().st_mtime == 1.0  # It was put just now: within the interval.
    now[0] += TOUCH_INTERVAL
    store.put(b"x" * 5000, "bin")
    assert path.stat().st_mtime > time.time() - 60
    os.utime(path, (1.0, 1.0))
    now[0] -= 2 * TOUCH_INTERVAL  # A clock that was set back says nothing.
    store.put(b"x" * 5000, "bin")
    assert path.stat().st_mtime > time.time() - 60
    assert 2 * TOUCH_INTERVAL <= garbage.GRACE


def test_a_blob_that_a_writer_remembers_and_that_was_removed_is_written_again(tmp_path):
    now = [1000.0]
    store = BlobStore(tmp_path / "blobs", clock=lambda: now[0])
    (tmp_path / "dataset.json").write_text('{"schema_version": 1}')
    blob = store.put(b"x" * 5000, "bin")
    age(tmp_path)
    assert collect_garbage(tmp_path).removed == 1
    now[0] += garbage.GRACE
    assert store.put(b"x" * 5000, "bin") == blob
    assert store.holds(blob)


@pytest.mark.parametrize("moment", ["before the rename", "after the rename"])
def test_a_blob_that_is_put_while_it_is_being_removed_stays(tmp_path, monkeypatch, moment):
    store = BlobStore(tmp_path / "blobs")
    (tmp_path / "dataset.json").write_text('{"schema_version": 1}')
    blob = store.put(b"x" * 5000, "bin")
    age(tmp_path)
    rename = type(tmp_path).rename

    def put_meanwhile(path, target):
        if moment == "before the rename":
            BlobStore(tmp_path / "blobs").put(b"x" * 5000, "bin")
        renamed = rename(path, target)
        if moment == "after the rename":
            BlobStore(tmp_path / "blobs").put(b"x" * 5000, "bin")
        return renamed

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "rename", put_meanwhile)
        collect_garbage(tmp_path)
    assert store.read(blob) == b"x" * 5000
    assert not list((tmp_path / "blobs").glob("*/.*"))


@pytest.mark.parametrize("mend", [recover, collect_garbage])
def test_what_a_collection_that_died_left_aside_is_put_back(tmp_path, episode, mend):
    with DatasetWriter(tmp_path) as writer:
        writer.add(episode(1))
    for path in list((tmp_path / "blobs").glob("??/*")):
        path.rename(path.with_name(f".{path.name}.removing"))
    assert not verify(tmp_path).clean
    mend(tmp_path)
    assert verify(tmp_path).clean
    assert not list((tmp_path / "blobs").glob("??/.*"))


def test_too_short_a_grace_is_refused(tmp_path, episode):
    with DatasetWriter(tmp_path) as writer:
        writer.add(episode(1))
    with pytest.raises(errors.InvalidInputError, match="too short beside living writers"):
        collect_garbage(tmp_path, grace=60)


def test_in_a_bucket_blobs_go_only_if_nobody_writes(episodes):
    place = f"memory://{secrets.token_hex(8)}"
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    assert delete(place, ["e1"]).garbage.skipped
    assert len(blobs(place)) == 6
    assert collect_garbage(place, alone=True).removed == 1
    assert len(blobs(place)) == 5
    assert verify(place).clean


async def test_beside_a_busy_writer_no_blob_goes_that_is_referred_to(tmp_path, monkeypatch):
    monkeypatch.setattr("webtraj.collectors.blobs.TOUCH_INTERVAL", 0.0)  # Time flies.
    stop = threading.Event()
    failures = []

    def delete_often():
        while not stop.is_set():
            try:
                ended = [e for e in open_dataset(tmp_path).episode_ids if not e.endswith("0")]
                delete(tmp_path, ended)
            except Exception as error:
                failures.append(error)
                raise

    async with JsonTrajectoryCollector(tmp_path, fsync="never") as collector:
        thread = threading.Thread(target=delete_often)
        thread.start()
        try:
            for number in range(400):
                age(tmp_path)  # All that was put before this moment was put long ago.
                recorder = collector.begin_episode(EpisodeInfo(episode_id=f"n{number}"))
                shot = bytes([number % 7]) * 5000  # The same few, over and over.
                recorder.record_step(StepRecord(0, StepType.FIRST, shot))
                recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
                await collector.drain()
        finally:
            stop.set()
            thread.join()
    assert not failures
    compact(tmp_path)
    assert {f"n{number}" for number in range(0, 400, 10)} <= set(open_dataset(tmp_path).episode_ids)
    assert verify(tmp_path).clean
