"""The S3 collector: what it puts where and when, and what becomes of it when that fails."""

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import threading

import pytest
from spool_support import read_bucket

from webtraj import JsonTrajectoryCollector, errors
from webtraj.collectors.bucket import Pauses, S3TrajectoryCollector
from webtraj.datasets.transfer import push
from webtraj.datasets.verification import verify
from webtraj.store import files
from webtraj.trajectory import EndReason

PATIENT = Pauses(first=1000.0, cap=1000.0, uniform=lambda _, most: most)
"""So that only a flush asks again."""


def away(*_):
    raise errors.StorageUnavailableError("The bucket is away.")


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def record_shots(records, collector, shot, numbers, **info):
    recorder = collector.begin_episode(records.info(**info))
    for index, number in enumerate(numbers):
        recorder.record_step(records.step(index, {"shot": shot(number)}))
    recorder.end_episode(records.end)
    return recorder.episode_id


async def until(condition):
    """Waits for what other threads do; pytest's own limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)


# What is put where, and when.


async def test_episodes_are_a_dataset_in_the_bucket_and_gone_from_the_spool(
    collect, records, shot, tmp_path
):
    async with collect() as collector:
        ids = {record_shots(records, collector, shot, [n, n + 1]) for n in range(20)}
    bucket = read_bucket(tmp_path / "bucket")
    assert set(bucket.episodes) == ids
    assert sorted(bucket.indexed) == sorted(ids)
    assert verify(tmp_path / "bucket").clean
    assert files_of(tmp_path / "spool") == ["dataset.json"]
    status = collector.status()
    assert (status.sent_episodes, status.unsent_episodes, status.queued_bytes) == (20, 0, 0)


async def test_blobs_go_before_their_episode_and_it_before_its_index_line(
    collect, records, shot, faulty
):
    collector = collect(max_uploads=1)
    episode_id = record_shots(records, collector, shot, [1, 2])
    await collector.flush()
    kinds = [key.partition("/")[0] for key in faulty.writes()]
    assert kinds == ["dataset.json", "blobs", "blobs", "episodes", "index"]
    assert f"episodes/{episode_id}.json" in faulty.writes()


async def test_an_episode_stays_in_the_spool_until_its_index_line_is_in_the_bucket(
    collect, records, shot, faulty, tmp_path
):
    def deny_the_index(operation, key):
        if operation == "write" and key.startswith("index/"):
            away()

    faulty.fault = deny_the_index
    collector = collect()
    episode_id = record_shots(records, collector, shot, [1])
    with pytest.raises(errors.CollectorError, match=f"not in .*{episode_id}.*The bucket is away"):
        await collector.flush()
    assert (faulty.root / f"episodes/{episode_id}.json").exists()
    kept = set(files_of(tmp_path / "spool"))
    assert {f"episodes/{episode_id}.json", f"index/{episode_id}.jsonl"} < kept
    assert sum(name.startswith("unshared/") for name in kept) == 1
    faulty.fault = lambda *_: None
    await collector.flush()
    assert files_of(tmp_path / "spool") == ["dataset.json"]


# When the spool waits for its disk.


@pytest.fixture
def synced(monkeypatch):
    """The files that were synced, by the paths under which they are known."""
    paths = []
    sync = files._sync
    monkeypatch.setattr(files, "_sync", lambda path, flags: (paths.append(path), sync(path, flags)))
    return paths


async def test_what_is_sealed_is_on_the_disk(collect, records, shot, faulty, synced):
    faulty.fault = away
    collector = collect(fsync="episode")
    record_shots(records, collector, shot, [1, 2])
    await collector.seal()
    kept = {path for path in collector.spool.rglob("*") if path.is_file()}
    kept = {path for path in kept if path.parent != collector.spool}
    assert len(kept) == 4  # Its file, line and two blobs.
    assert all({path, path.parent} & set(synced) for path in kept)
    with pytest.raises(errors.CollectorError):
        await collector.flush()


# What is sent again.


async def test_a_blob_that_the_bucket_has_is_not_sent_again(collect, records, shot, faulty):
    collector = collect()
    for _ in range(3):
        record_shots(records, collector, shot, [7])
        await collector.flush()
    assert len(faulty.writes("blobs/")) == 1
    await collector.aclose()
    other = collect()
    record_shots(records, other, lambda _: b"\xff\xd8\xff" + bytes(2 << 20), [7])
    await other.flush()
    again = collect()
    record_shots(records, again, lambda _: b"\xff\xd8\xff" + bytes(2 << 20), [7])
    await again.flush()
    assert len(faulty.writes("blobs/")) == 2  # The large one, once; another process asks first.


async def test_a_blob_that_lies_damaged_in_the_bucket_is_written_again(
    collect, records, shot, tmp_path
):
    async with collect() as collector:
        record_shots(records, collector, shot, [7])
    (blob,) = (path for path in (tmp_path / "bucket" / "blobs").rglob("*") if path.is_file())
    whole = blob.read_bytes()
    blob.write_bytes(whole[:10])
    async with collect() as collector:
        record_shots(records, collector, shot, [7])
    assert blob.read_bytes() == whole


async def test_index_lines_go_in_batches(collect, records, faulty):
    collector = collect(index_interval=1000.0)
    for _ in range(250):
        records.record(collector, num_steps=1)
    await collector.flush()
    assert len(faulty.writes("index/")) <= 4
    assert len(read_bucket(faulty.root).episodes) == 250


async def test_recording_never_waits_for_the_bucket(collect, records, shot, faulty):
    answer = threading.Event()
    faulty.fault = lambda *_: answer.wait(60)
    collector = collect(check_timeout=0.01, max_uploads=2, max_unsent_bytes=1 << 30)
    for number in range(20):
        record_shots(records, collector, shot, [number])
        await collector.drain()
    assert collector.open_episodes == ()
    answer.set()
    await collector.flush()
    assert len(read_bucket(faulty.root).episodes) == 20


# What is refused at once.


def test_a_bucket_of_another_format_is_refused(collect, tmp_path, records):
    with JsonTrajectoryCollector(tmp_path / "bucket") as collector:
        records.record(collector)
    header = tmp_path / "bucket" / "dataset.json"
    header.write_text(header.read_text().replace('"json"', '"pb"'))
    with pytest.raises(errors.InvalidInputError, match=r"format 'pb'.*Choose another prefix"):
        collect()
    assert not (tmp_path / "spool").exists()


async def test_a_format_that_is_found_to_differ_later_is_reported_and_overwrites_nothing(
    collect, records, faulty, tmp_path
):
    faulty.fault = away
    collector = collect(check_timeout=5.0)
    episode_id = records.record(collector)
    header = faulty.root / "dataset.json"
    header.parent.mkdir()
    header.write_text('{"schema_version": 1, "format": "pb"}')
    faulty.fault = lambda *_: None
    with pytest.raises(errors.CollectorError, match=r"has format 'pb'"):
        await collector.flush()
    assert files_of(faulty.root) == ["dataset.json"]
    assert (tmp_path / "spool" / "episodes" / f"{episode_id}.json").exists()


# When the bucket is away.


async def test_a_bucket_that_is_away_stops_nothing_and_loses_nothing(
    collect, records, shot, faulty, caplog
):
    faulty.fault = away
    caplog.set_level(logging.WARNING)
    collector = collect(max_unsent_bytes=1)
    ids = []
    for number in range(20):
        ids.append(record_shots(records, collector, shot, [number]))
        await until(lambda: not collector.status().healthy)
        await collector.drain()
    with pytest.raises(errors.CollectorError, match=r"20 episodes .*webtraj push .*spool"):
        await collector.flush()
    status = collector.status()
    assert (status.unsent_episodes, status.failed_episodes, status.healthy) == (20, 0, False)
    assert status.queued_bytes > 20 * 5000
    assert status.oldest_unsent > 0
    assert "is away" in status.last_error
    faulty.fault = lambda *_: None
    await collector.flush()
    assert sorted(read_bucket(faulty.root).indexed) == sorted(ids)
    said = [record.message for record in caplog.records]
    assert sum("does not accept episodes" in message for message in said) == 1
    assert sum("accepts episodes again" in message for message in said) == 1
    assert collector.status().healthy


async def test_drain_stops_waiting_when_the_bucket_goes_away(collect, records, shot, faulty):
    goes_away = threading.Event()

    def fault(*_):
        goes_away.wait(60)
        away()

    faulty.fault = fault
    collector = collect(check_timeout=0, max_unsent_bytes=1)
    record_shots(records, collector, shot, [1])
    await until(lambda: collector.status().unsent_episodes == 1)
    waiting = asyncio.ensure_future(collector.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    goes_away.set()
    await waiting
    assert not collector.status().healthy


async def test_an_episode_that_the_bucket_never_takes_is_set_aside_and_blocks_no_other(
    collect, records, faulty
):
    def refuse(operation, key):
        if operation == "write" and "poison" in key:
            raise errors.StorageError("The store answers with status 400.")

    faulty.fault = refuse
    collector = collect()
    records.record(collector, episode_id="poison")
    ids = {records.record(collector) for _ in range(10)}
    with pytest.raises(errors.CollectorError, match=r"1 episodes .*'poison'; .*status 400"):
        await collector.flush()
    assert set(read_bucket(faulty.root).episodes) == ids
    status = collector.status()
    assert (status.failed_episodes, status.unsent_episodes) == (1, 1)
    assert len(faulty.writes("poison")) == 3


# What is wrong with single episodes.


async def test_an_episode_that_was_damaged_in_the_spool_is_reported_and_left(
    collect, records, shot, faulty, tmp_path, caplog
):
    faulty.fault = away
    collector = collect(pauses=PATIENT)
    damaged = [records.record(collector), record_shots(records, collector, shot, [9])]
    ids = {record_shots(records, collector, shot, [n]) for n in range(5)}
    await until(lambda: collector.status().unsent_episodes == 7)
    # What a request under way has read already, it would send as it was.
    await until(lambda: not collector.status().healthy and not collector._uploader._sending)
    path = tmp_path / "spool" / "episodes" / f"{damaged[0]}.json"
    path.write_bytes(path.read_bytes().replace(b"seen", b"sEEn"))
    (blob,) = (p for p in (tmp_path / "spool/unshared" / damaged[1]).rglob("*") if p.is_file())
    blob.write_bytes(b"x" + blob.read_bytes()[1:])
    faulty.fault = lambda *_: None
    with pytest.raises(errors.CollectorError, match=r"2 episodes .*damaged"):
        await collector.flush()
    assert set(read_bucket(faulty.root).episodes) == ids
    assert path.exists()
    assert blob.exists()
    assert sum("Could not send" in record.message for record in caplog.records) == 2
    with pytest.raises(errors.CollectorError, match="2 episodes"):
        await collector.aclose()


async def test_an_episode_in_the_bucket_is_never_overwritten(collect, records, tmp_path):
    async with collect() as collector:
        records.record(collector, episode_id="same")
    path = tmp_path / "bucket" / "episodes" / "same.json"
    before = path.read_bytes()
    collector = collect()
    records.record(collector, episode_id="same", num_steps=3)
    other = records.record(collector)
    with pytest.raises(
        errors.CollectorError, match=r"already has another episode as 'episodes/same"
    ):
        await collector.flush()
    assert path.read_bytes() == before
    assert set(read_bucket(tmp_path / "bucket").episodes) == {"same", other}
    assert (tmp_path / "spool" / "episodes" / "same.json").exists()


# Ends.


async def test_aclose_gives_up_after_its_time_and_push_does_the_rest(
    collect, records, shot, faulty
):
    answer = threading.Event()
    faulty.fault = lambda *_: answer.wait(60)
    collector = collect(check_timeout=0, close_timeout=0.1)
    recorder = collector.begin_episode(records.info("open"))
    recorder.record_step(records.step(0, shot(1)))
    ended = records.record(collector)
    with pytest.raises(errors.CollectorError, match=r"2 episodes .*webtraj push"):
        await collector.aclose()
    answer.set()
    assert collector._uploader.stop(60.0)
    await collector.aclose()
    report = push(collector.spool)
    assert report.complete
    bucket = read_bucket(faulty.root)
    assert set(bucket.episodes) == {"open", ended}
    assert bucket.episodes["open"].end_reason is EndReason.CLOSED


async def test_an_aclose_that_is_cancelled_loses_nothing(collect, records, faulty):
    answer = threading.Event()
    faulty.fault = lambda *_: answer.wait(60)
    collector = collect(check_timeout=0)
    episode_id = records.record(collector)
    closing = asyncio.ensure_future(collector.aclose())
    await until(lambda: collector.status().unsent_episodes == 1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    answer.set()
    assert collector._uploader.stop(60.0)
    assert push(collector.spool).complete
    assert list(read_bucket(faulty.root).episodes) == [episode_id]


def run(script, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FORGETFUL = """
    import sys
    from webtraj import EpisodeInfo
    from webtraj.collectors.bucket import S3TrajectoryCollector
    collector = S3TrajectoryCollector(sys.argv[1], spool=sys.argv[2], storage_options={})
    for number in range(20):
        collector.begin_episode(EpisodeInfo(episode_id=f"e{number}", goal="word " * 2000))
"""


def test_a_process_that_ends_without_closing_says_what_is_left(tmp_path):
    result = run(FORGETFUL, tmp_path / "bucket", tmp_path / "spool")
    assert result.returncode == 0, result.stderr
    assert "webtraj push" in result.stderr or not files_of(tmp_path / "spool" / "episodes")
    report = push(tmp_path / "spool")
    assert report.complete
    ids = set(read_bucket(tmp_path / "bucket").episodes)
    assert ids == {f"e{number}" for number in range(20)}


# The spool folder.


def test_the_spool_keeps_how_to_reach_the_bucket_but_no_credentials(tmp_path):
    options = {
        "endpoint": "http://127.0.0.1:9",
        "region": "eu-west-1",
        "allow_http": True,
        "access_key_id": "AKIATHESECRETID",
        "secret_access_key": "THESECRETKEY",
        "session_token": "THESECRETTOKEN",
        "client_options": {"default_headers": {"authorization": "THESECRETHEADER"}},
        "retry": {"deadline": 0.1},
    }
    with S3TrajectoryCollector(
        "s3://bucket/prefix", spool=tmp_path / "spool", storage_options=options, check_timeout=1.0
    ) as collector:
        assert collector._spool.options() == {
            "endpoint": "http://127.0.0.1:9", "region": "eu-west-1", "allow_http": True,
        }  # fmt: skip
    for path in (tmp_path / "spool").rglob("*"):
        assert path.is_dir() or b"SECRET" not in path.read_bytes()
