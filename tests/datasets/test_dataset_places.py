"""A dataset is the same wherever it lies; what differs is said."""

import pickle
import secrets
import threading

import pytest

from webtraj import errors, open_dataset
from webtraj.collectors.local import JournalingCollector
from webtraj.datasets.dataset import Dataset
from webtraj.datasets.place import BucketBlobs, DatasetPlace, open_place
from webtraj.datasets.recovery import rebuild
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.layout import DatasetHeader, DatasetLayout
from webtraj.testing.strategies import same
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, StepType


@pytest.fixture
def five(place, episodes):
    with DatasetWriter(place) as writer:
        for episode in episodes:
            writer.add(episode)
    return place


def test_the_same_api_wherever_it_lies(five, episodes):
    dataset = open_dataset(five)
    assert dataset.url == five
    assert len(dataset) == 5
    assert same(dataset[-1], episodes[-1])
    assert same(dataset["e2"], episodes[2])
    assert [e.episode_id for e in dataset[1:3]] == ["e1", "e2"]
    assert [e.episode_id for e in dataset.filter(task="t1", min_reward=0.5)] == ["e1", "e3"]
    assert dataset.open_episodes == ()
    assert "e4" in dataset.refresh()
    assert five in repr(dataset)
    with pytest.raises(
        errors.UnknownEpisodeError, match=r"No sealed episode 'e9' in .* \(it has 5\)"
    ):
        dataset["e9"]


@pytest.mark.parametrize("blobs", ["eager", "lazy"])
def test_a_folder_s_dataset_goes_to_worker_processes(tmp_path, episodes, blobs):
    with DatasetWriter(tmp_path) as writer:
        writer.add(episodes[0])
    again = pickle.loads(pickle.dumps(open_dataset(tmp_path, blobs=blobs)))
    assert again[0].episode_id == "e0"


# Reading ahead.


class Counting:
    """A storage that counts how many episodes were read."""

    def __init__(self, storage):
        self._storage, self.read_episodes = storage, []

    def __getattr__(self, name):
        return getattr(self._storage, name)

    def read(self, key):
        if key.startswith("episodes/"):
            self.read_episodes.append(key)
        return self._storage.read(key)


def test_a_bucket_is_read_ahead_in_order_and_not_further_than_needed(episode):
    place = f"memory://{secrets.token_hex(8)}"
    with DatasetWriter(place) as writer:
        for number in range(40):
            writer.add(episode(number))
    opened = open_place(place)
    storage = Counting(opened.storage)
    counted = DatasetPlace(storage, opened.header, None, BucketBlobs(storage))
    dataset = Dataset(counted, open_dataset(place).summaries, "eager")
    before = threading.active_count()
    iterator = iter(dataset)
    assert [next(iterator).episode_id for _ in range(3)] == ["e0", "e1", "e2"]
    iterator.close()
    assert len(storage.read_episodes) <= 3 + 4
    assert threading.active_count() == before
    assert [e.episode_id for e in dataset] == [f"e{n}" for n in range(40)]


def test_a_blob_that_many_share_is_read_from_a_bucket_once(episode):
    place = f"memory://{secrets.token_hex(8)}"
    with DatasetWriter(place) as writer:
        for number in range(10):
            writer.add(episode(number))
    opened = open_place(place)
    reads = []

    class Noting(Counting):
        def read(self, key):
            reads.append(key)
            return self._storage.read(key)

    storage = Noting(opened.storage)
    blobs = BucketBlobs(storage)
    dataset = Dataset(
        DatasetPlace(storage, opened.header, None, blobs), open_dataset(place).summaries, "eager"
    )
    for number in range(10):
        _ = dataset[number]
    assert len([key for key in reads if key.startswith("blobs/")]) == 11
    small = BucketBlobs(storage, cache_bytes=1)
    wanted = [s.observation for s in dataset[0].steps if isinstance(s.observation, bytes)]
    assert wanted
    reads.clear()
    uncached = Dataset(
        DatasetPlace(storage, opened.header, None, small), dataset.summaries, "eager"
    )
    _ = uncached[0], uncached[0]
    assert len([key for key in reads if key.startswith("blobs/")]) == 4


# Half a dataset.


# Spools.


@pytest.fixture
def spool(tmp_path):
    """A spool with an episode that waits, as a collector for a bucket leaves it."""
    header = DatasetHeader(destination="s3://bucket/x")
    DatasetLayout(tmp_path).create(header)
    with JournalingCollector(tmp_path, header, fsync="never") as collector:
        recorder = collector.begin_episode(EpisodeInfo(episode_id="e1"))
        recorder.record_step(StepRecord(0, StepType.FIRST, b"x" * 5000))
        recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
    return tmp_path


@pytest.mark.parametrize("change", [rebuild, DatasetWriter])
def test_a_spool_is_left_to_those_who_send_it(spool, change):
    before = {path: path.read_bytes() for path in spool.rglob("*.*") if path.is_file()}
    with pytest.raises(errors.InvalidInputError, match="s3://bucket/x"):
        change(spool)
    assert {p: p.read_bytes() for p in spool.rglob("*.*") if p.is_file()} == before
