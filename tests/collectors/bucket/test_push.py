"""Pushing: what waits in a spool is sent later, whatever broke off the first attempt."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
from spool_support import read_bucket
from typer.testing import CliRunner

from webtraj import JsonTrajectoryCollector, errors
from webtraj.cli.app import make_app
from webtraj.collectors.bucket import Pauses
from webtraj.collectors.spool import Spool
from webtraj.datasets.progress import watching
from webtraj.datasets.transfer import push
from webtraj.datasets.verification import verify
from webtraj.store.bucket_requests import UnreachedError
from webtraj.store.layout import DatasetHeader
from webtraj.trajectory import EndReason

SOON = Pauses(first=0.001, cap=0.001)


def away(*_):
    raise errors.StorageUnavailableError("The bucket is away.")


@pytest.fixture
def abandon(collect, records, shot, faulty):
    """Records into a spool while the bucket is away, and ends without sending anything."""

    def abandon(*names):
        faulty.fault = away
        collector = collect(pauses=SOON, check_timeout=0)
        for number, name in enumerate(names):
            recorder = collector.begin_episode(records.info(name, goal="word " * 2000))
            recorder.record_step(records.step(0, {"shot": shot(number)}))
            recorder.record_step(records.step(1, {"shot": shot(number + 1)}, last=True))
            recorder.end_episode(records.end)
        with pytest.raises(errors.CollectorError, match="webtraj push"):
            collector.close()
        faulty.fault = lambda *_: None
        return collector.spool

    return abandon


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_waits_is_sent_and_a_second_push_finds_nothing(abandon, faulty):
    spool = abandon("a", "b", "c")
    assert verify(spool).clean
    seen = []
    with watching(seen.append):
        report = push(spool)
    assert (report.sent_episodes, report.unsent, report.complete) == (3, (), True)
    assert report.destination == str(faulty.root)
    assert report.sent_bytes > 3 * 5000
    assert (seen[-1].done, seen[-1].ended) == (3, True)
    assert sorted(read_bucket(faulty.root).indexed) == ["a", "b", "c"]
    assert files_of(spool) == ["dataset.json"]
    assert push(spool).sent_episodes == 0
    assert verify(faulty.root).clean


def test_a_bucket_that_never_answered_is_given_up_after_one_probe(abandon, faulty):
    def unreached(*_):
        raise UnreachedError("Cannot reach the store.")

    spool = abandon("a", "b")
    faulty.fault = unreached
    report = push(spool, pauses=Pauses(first=1e6, cap=1e6, uniform=lambda _, most: most))
    assert {one.episode_id for one in report.unsent} == {"a", "b"}
    assert any("Cannot reach" in one.reason for one in report.unsent)


def test_a_push_while_the_bucket_is_away_says_so_and_the_next_one_resumes(abandon, faulty):
    spool = abandon("a", "b", "c")
    faulty.fault = away
    report = push(spool, pauses=SOON)
    assert not report.complete
    assert {one.episode_id for one in report.unsent} == {"a", "b", "c"}
    assert any("is away" in one.reason for one in report.unsent)
    left = 2

    def break_off(operation, key):
        nonlocal left
        left -= operation == "write" and key.startswith("episodes/")
        if left < 0:
            away()

    faulty.fault = break_off
    report = push(spool, max_uploads=1, pauses=SOON)
    assert (report.sent_episodes, len(report.unsent)) in {(0, 3), (2, 1)}
    faulty.fault = lambda *_: None
    assert push(spool).complete
    assert sorted(read_bucket(faulty.root).episodes) == ["a", "b", "c"]


@pytest.mark.parametrize("format_name", ["json", "pb", "pb.zst"])
def test_episodes_whose_writer_died_are_sealed_and_sent(
    tmp_path, records, shot, faulty, format_name
):
    spool = tmp_path / "spool"
    header = DatasetHeader(format=format_name, destination=str(faulty.root))
    pid = os.fork()
    if pid == 0:
        from webtraj.collectors.local import JournalingCollector

        recorder = JournalingCollector(spool, header).begin_episode(records.info("dead"))
        recorder.record_step(records.step(0, {"shot": shot(1)}))
        recorder.record_intent("the last one")
        os._exit(0)
    os.waitpid(pid, 0)
    report = push(spool)
    assert [one.episode_id for one in report.recovery.sealed] == ["dead"]
    assert report.sent_episodes == 1
    episode = read_bucket(faulty.root).episodes["dead"]
    assert episode.end_reason is EndReason.CRASHED
    assert episode.end.in_flight_action == "the last one"
    assert episode.steps[0].observation == {"shot": shot(1)}


def test_what_a_living_writer_records_is_left_alone(collect, records, faulty):
    collector = collect()
    recorder = collector.begin_episode(records.info("open"))
    recorder.record_step(records.step(0))
    report = push(collector.spool)
    assert report.recovery.being_written == ("open",)
    assert report.complete
    recorder.end_episode(records.end)
    collector.close()
    assert list(read_bucket(faulty.root).episodes) == ["open"]


def test_pushes_and_a_collector_may_run_side_by_side(abandon, collect, records, faulty):
    spool = abandon(*(f"old{number}" for number in range(40)))
    reports = []
    pushes = [
        threading.Thread(target=lambda: reports.append(push(spool, max_uploads=3)))
        for _ in range(3)
    ]
    with collect() as collector:
        for thread in pushes:
            thread.start()
        new = {records.record(collector) for _ in range(40)}
    for thread in pushes:
        thread.join()
    assert all(report.complete for report in reports)
    bucket = read_bucket(faulty.root)
    assert set(bucket.episodes) == {f"old{number}" for number in range(40)} | new
    assert len(bucket.indexed) == 80


# Where an earlier attempt may have been broken off.


BREAKS = ["before", "blobs", "episode", "index", "unshared", "file", "line"]


@pytest.mark.parametrize("after", BREAKS)
def test_an_attempt_may_have_died_after_any_step(abandon, faulty, after):
    spool = abandon("a", "b")
    done = BREAKS.index(after)
    source, target = Spool(spool, "json"), faulty.root
    if done >= 1:
        for blob in (spool / "unshared" / "a").iterdir():
            folder = target / "blobs" / blob.name[:2]
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(blob, folder)
    if done >= 2:
        (target / "episodes").mkdir()
        shutil.copy(spool / "episodes" / "a.json", target / "episodes")
    if done >= 3:
        (target / "index").mkdir()
        shutil.copy(spool / "index" / "a.jsonl", target / "index")
    if done >= 4:
        (spool / "unshared" / "a").rename(spool / "unshared" / ".sent-0123456789abcdef")
    if done >= 5:
        (spool / "episodes" / "a.json").unlink()
    if done >= 6:
        (spool / "index" / "a.jsonl").unlink()
    report = push(spool)
    assert report.complete
    assert set(read_bucket(target).episodes) == {"a", "b"}
    assert verify(target).clean
    assert files_of(source.path) == ["dataset.json"]
    assert list((spool / "unshared").iterdir()) == []


def test_what_cannot_be_read_again_is_reported_and_left(abandon, faulty):
    spool = abandon("a", "b", "c", "d")
    (spool / "episodes" / "a.json").write_bytes(b"{")
    shutil.rmtree(spool / "unshared" / "b")
    (spool / "index" / "c.jsonl").unlink()
    (spool / "episodes" / "c.json").write_bytes(b'{"schema_version": 1}')
    report = push(spool)
    assert {one.episode_id for one in report.unsent} == {"a", "b", "c"}
    assert all(one.reason for one in report.unsent)
    assert not report.complete
    assert files_of(faulty.root / "episodes") == ["d.json"]
    assert {"episodes/a.json", "episodes/b.json", "episodes/c.json"} < set(files_of(spool))


# Wrong folders.


def test_a_dataset_is_no_spool(tmp_path, records):
    with JsonTrajectoryCollector(tmp_path / "data") as collector:
        records.record(collector)
    with pytest.raises(errors.InvalidInputError, match="is a dataset, not a spool"):
        push(tmp_path / "data")
    with pytest.raises(errors.NotADatasetError):
        push(tmp_path)


# The command.


def webtraj(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "webtraj", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_says_what_was_sent(abandon, faulty):
    spool = abandon("a", "b")
    result = webtraj("push", spool)
    assert not result.stderr, result.stderr
    assert result.returncode == 0
    assert "2 sent" in result.stdout
    assert "0 left" in result.stdout
    assert set(read_bucket(faulty.root).episodes) == {"a", "b"}


def test_a_bucket_is_not_taken_for_a_spool():
    result = CliRunner().invoke(make_app(), ["push", "mine", "s3://bucket/mine"])
    assert isinstance(result.exception, errors.InvalidInputError)
    assert "webtraj copy DATASET s3://bucket/mine" in str(result.exception)
