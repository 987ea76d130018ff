"""What waits for a bucket that is gone for good gets out of the spool, whole, to somewhere else."""

import asyncio
import subprocess
import sys

import pytest
from spool_support import read_bucket

from bucket_servers import QUICK as PATIENT
from bucket_servers import S3Server
from webtraj import JsonTrajectoryCollector, errors, open_dataset
from webtraj.collectors.bucket import Pauses
from webtraj.collectors.spool import Spool
from webtraj.datasets.transfer import push
from webtraj.datasets.verification import verify

SOON = Pauses(first=0.001, cap=0.001)
SHORT = {"timeout": 2.0, "retry": {"deadline": 0.05, "first_delay": 0.01}}
FORMATS = ["json", "pb"]


def record(records, recorder, shot, number):
    recorder.record_step(records.step(0, {"shot": shot(number), "number": number}))
    recorder.record_step(records.step(1, {"shot": shot(number + 1)}, last=True))
    recorder.end_episode(records.end)


@pytest.fixture
def strand(collect, records, shot):
    """Records into a real bucket that is then removed, with its server and all that it kept."""

    def strand(format_name="json"):
        server = S3Server("rclone")
        try:
            server.start()
            options = server.options(**SHORT)
            place = f"{server.make_bucket()}/run"
            collector = collect(
                place, format=format_name, storage_options=options, check_timeout=2, pauses=SOON
            )
            record(records, collector.begin_episode(records.info("sent")), shot, 0)
            asyncio.run(collector.flush())
            assert set(read_bucket(place, options).episodes) == {"sent"}
        finally:
            server.close()
        for number in (1, 2, 3):
            record(records, collector.begin_episode(records.info(f"e{number}")), shot, number)
        with pytest.raises(errors.CollectorError, match="add `--to PLACE` to send them elsewhere"):
            collector.close()
        assert Spool(collector.spool, format_name).list_waiting() == ["e1", "e2", "e3"]
        return collector.spool

    return strand


def check(place, shot, options=None):
    """Asserts that a place has all that was stranded, and nothing else."""
    assert sorted(read_bucket(place, options).indexed) == ["e1", "e2", "e3"]
    assert verify(place, storage_options=options).clean
    for number, episode in enumerate(open_dataset(place, storage_options=options), 1):
        first, last = (step.observation for step in episode.steps)
        assert (first["number"], first["shot"], last["shot"]) == (
            number, shot(number), shot(number + 1)
        )  # fmt: skip


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def webtraj(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "webtraj", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
def test_what_waits_becomes_a_folder_of_ones_own(strand, shot, tmp_path, format_name):
    spool = strand(format_name)
    before = files_of(spool)
    report = push(spool, storage_options=SHORT, pauses=SOON)
    assert len(report.unsent) == 3
    assert files_of(spool) == before
    saved = tmp_path / "saved"
    report = push(spool, to=saved)
    assert (report.sent_episodes, report.complete) == (3, True)
    assert report.destination == str(saved)
    check(saved, shot)
    assert files_of(spool) == ["dataset.json", "spool.json"]
    assert push(spool, storage_options=SHORT).complete  # Nothing waits, so nobody is asked.


@pytest.mark.slow
@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
def test_the_command_sends_to_another_bucket(strand, shot, s3_server, bucket_url, monkeypatch):
    spool = strand()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_access_key)
    options = [f"--option=endpoint={s3_server.endpoint}", "--option=allow_http=true"]
    place = f"{bucket_url}/another"
    result = webtraj("push", spool, "--to", place, *options, "--option=region=us-east-1")
    assert (result.returncode, result.stderr) == (0, "")
    assert "3 sent" in result.stdout
    check(place, shot, s3_server.options(**PATIENT))
    assert files_of(spool) == ["dataset.json", "spool.json"]


# What may go wrong. Here the bucket has never been there.


@pytest.fixture
def waiting(collect, records, shot):
    """A spool with three episodes, whose bucket does not answer."""
    nowhere = {**SHORT, "endpoint": "http://127.0.0.1:9", "allow_http": True}
    collector = collect("s3://gone/run", storage_options=nowhere, check_timeout=0, pauses=SOON)
    for number in (1, 2, 3):
        record(records, collector.begin_episode(records.info(f"e{number}")), shot, number)
    with pytest.raises(errors.CollectorError):
        collector.close()
    return collector.spool


def test_nothing_leaves_before_its_index_line_is_there(waiting, faulty, shot):
    before = files_of(waiting)

    def fail(operation, key):
        if operation == "write" and key.startswith("index/"):
            raise errors.StorageUnavailableError("The disk is away.")

    faulty.fault = fail
    report = push(waiting, to=faulty.root, pauses=SOON)
    assert {one.episode_id for one in report.unsent} == {"e1", "e2", "e3"}
    assert files_of(waiting) == before
    faulty.fault = lambda *_: None
    assert push(waiting, to=faulty.root).complete
    check(faulty.root, shot)
    assert files_of(waiting) == ["dataset.json", "spool.json"]


def test_what_cannot_go_stays_and_is_told(waiting, records, shot, tmp_path):
    saved = tmp_path / "saved"
    with JsonTrajectoryCollector(saved) as other:
        record(records, other.begin_episode(records.info("e1")), shot, 100)
    (waiting / "episodes" / "e2.json").write_bytes(b"{}")
    result = webtraj("push", waiting, "--to", saved)
    assert result.returncode == 1
    assert "e1  not sent: " in result.stdout
    assert "e2  not sent: " in result.stdout
    assert "1 sent" in result.stdout
    assert Spool(waiting, "json").list_waiting() == ["e1", "e2"]
    dataset = open_dataset(saved)
    assert set(dataset.episode_ids) == {"e1", "e3"}
    assert dataset["e1"].steps[0].observation["number"] == 100
