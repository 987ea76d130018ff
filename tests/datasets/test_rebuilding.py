"""An index made anew is right, and loses nothing beside writers, readers and deaths."""

import contextlib
import secrets
import threading

import pytest

from webtraj import JsonTrajectoryCollector, open_dataset
from webtraj.datasets import recovery
from webtraj.datasets.place import DatasetPlace, open_place
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.places import open_storage
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo


@pytest.fixture
def many(place, episode):
    """A dataset of 12 episodes and as many index files."""
    for number in range(12):
        with DatasetWriter(place) as writer:
            writer.add(episode(number))
    return place


def index_names(place):
    return open_place(place).index_names()


def lines(place):
    return sorted(s.to_line() for s in open_dataset(place).summaries)


def test_the_file_of_a_living_writer_is_left_alone(tmp_path, episode):
    place = tmp_path / "d"
    with DatasetWriter(place) as first:
        first.add(episode(0))
        with DatasetWriter(place) as second:
            second.add(episode(1))
        with DatasetWriter(place) as third:
            third.add(episode(2))
        report = rebuild(place)
        assert (report.num_episodes, report.files_after, report.being_written) == (3, 2, 1)
        first.add(episode(3))
    assert len(open_dataset(place)) == 4
    assert rebuild(place).files_after == 1
    assert verify(place).clean


async def test_beside_a_busy_writer_and_reader_nothing_is_lost(tmp_path, episode):
    place = tmp_path / "d"
    with DatasetWriter(place) as writer:
        for number in range(5):
            writer.add(episode(number))
    stop = threading.Event()
    failures = []

    def often(function):
        while not stop.is_set():
            try:
                function()
            except Exception as error:
                failures.append(error)
                raise

    def read():
        assert len(open_dataset(place)) >= 5

    threads = [
        threading.Thread(target=often, args=(function,))
        for function in (lambda: rebuild(place), lambda: rebuild(place), read)
    ]
    for thread in threads:
        thread.start()
    try:
        for number in range(60):
            async with JsonTrajectoryCollector(place, fsync="never") as collector:
                recorder = collector.begin_episode(EpisodeInfo(episode_id=f"n{number}"))
                recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert rebuild(place).files_after == 1
    assert len(open_dataset(place)) == 65
    assert verify(place).clean


class Hooked:
    """A storage that lets something happen before some call."""

    def __init__(self, storage, method, happen, *, at=1):
        self._storage, self._method, self._happen, self._left = storage, method, happen, at

    def __getattr__(self, name):
        called = getattr(self._storage, name)
        if name != self._method:
            return called

        def call(*args, **kwargs):
            self._left -= 1
            if self._left == 0:
                self._happen()
            return called(*args, **kwargs)

        return call


def hooked(place, method, happen, **kwargs):
    opened = open_place(place)
    storage = Hooked(opened.storage, method, happen, **kwargs)
    return DatasetPlace(storage, opened.header, opened.layout, opened.blobs)


@pytest.fixture
def bucket(episode):
    place = f"memory://{secrets.token_hex(8)}"
    for number in range(4):
        with DatasetWriter(place) as writer:
            writer.add(episode(number))
    return place


@pytest.mark.parametrize(
    ("method", "at"),
    [(method, at) for method in ("read", "list", "delete") for at in (1, 2, 3)] + [("write", 1)],
)
@pytest.mark.parametrize("other", ["rebuild", "add"])
def test_whatever_happens_meanwhile_in_a_bucket_the_index_is_right(
    bucket, episode, monkeypatch, method, at, other
):
    def add():
        with DatasetWriter(bucket) as writer:
            writer.add(episode(9))

    others = {
        "rebuild": (lambda: rebuild(bucket), ["e0", "e1", "e2", "e3"]),
        "add": (add, ["e0", "e1", "e2", "e3", "e9"]),
    }
    happen, expected = others[other]
    happened = []

    def once():
        happened.append(True)
        with monkeypatch.context() as patch:
            patch.setattr(recovery, "open_place", open_place)
            happen()

    place = hooked(bucket, method, once, at=at)
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "open_place", lambda *_: place)
        rebuild(bucket)
    assert happened
    assert sorted(open_dataset(bucket).episode_ids) == expected
    assert verify(bucket).clean


class DiedError(Exception):
    pass


@pytest.mark.parametrize("method", ["write", "delete"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_rebuild_that_dies_loses_nothing(many, monkeypatch, method, at):
    def die():
        raise DiedError

    before = lines(many)
    place = hooked(many, method, die, at=at)
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "open_place", lambda *_: place)
        with contextlib.suppress(DiedError):
            rebuild(many)
    assert lines(many) == before
    assert rebuild(many).files_after == 1
    assert lines(many) == before
    assert verify(many).clean


@pytest.mark.parametrize("spoil", ["lost", "wrong", "stale"])
def test_an_index_is_made_anew_from_the_episodes(many, spoil):
    storage = open_storage(many)
    before = lines(many)
    dropped = ()
    for name in index_names(many):
        key = f"index/{name}"
        if spoil == "lost":
            storage.delete(key)
        elif spoil == "wrong":
            storage.write(key, storage.read(key).replace(b'"t0"', b'"t9"'))
    if spoil == "stale":
        storage.delete("episodes/e5.json")
        before = [line for line in before if b'"e5"' not in line]
        dropped = ("e5",)
    report = rebuild(many)
    assert (report.num_episodes, report.files_after, report.dropped) == (len(before), 1, dropped)
    assert lines(many) == before
    assert verify(many).clean


def test_a_damaged_episode_keeps_its_line(many):
    storage = open_storage(many)
    storage.write("episodes/e5.json", b"{")
    before = lines(many)
    report = rebuild(many)
    assert len(report.unreadable) == 1
    assert lines(many) == before


def test_an_unindexed_episode_of_a_bucket_is_found_when_asked_for(bucket):
    storage = open_storage(bucket)
    for name in index_names(bucket)[:1]:
        storage.delete(f"index/{name}")
    assert len(open_dataset(bucket)) == 3
    assert len(open_dataset(bucket).refresh(complete=True)) == 4
    assert [p.what for p in verify(bucket).problems] == [
        "is not in the index; run `webtraj recover`"
    ]
    assert len(recover(bucket).indexed) == 1
    assert recover(bucket).indexed == ()
    assert len(open_dataset(bucket)) == 4
    assert verify(bucket).clean
