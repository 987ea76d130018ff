"""The S3 collector against real S3 servers, and against every fault that a network has."""

import asyncio
import logging
import os
import subprocess
import sys

import pytest
from spool_support import read_bucket

from fault_proxy import Fault
from webtraj import errors, open_dataset
from webtraj.datasets.transfer import push
from webtraj.datasets.verification import verify

FORMATS = ["json", "pb", "pb.zst"]


@pytest.fixture
def impatient(bucket_options):
    """Options with which a storage gives up soon, so that the collector's own patience is seen."""
    return {**bucket_options, "timeout": 2.0, "retry": {"deadline": 0.05, "first_delay": 0.01}}


@pytest.fixture
def through_proxy(impatient, fault_proxy):
    return {**impatient, "endpoint": fault_proxy.endpoint}


def record(records, collector, shot, count, *, first=0):
    """Records episodes of three steps, which share some of their screenshots; returns their ids."""
    ids = set()
    for number in range(first, first + count):
        recorder = collector.begin_episode(records.info(task="t", seed=number))
        for index in range(3):
            seen = {"shot": shot(number + index), "number": number}
            recorder.record_step(records.step(index, seen, last=index == 2))
        recorder.end_episode(records.end)
        ids.add(recorder.episode_id)
    return ids


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def flush_until_done(collector):
    """Flushes again and again, as a rollout does that goes on."""
    while True:
        try:
            await collector.flush()
            return
        except errors.CollectorError:
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_was_recorded_is_read_back(
    collect, records, shot, bucket_url, bucket_options, format_name
):
    place = f"{bucket_url}/some/prefix"
    async with collect(place, format=format_name, storage_options=bucket_options) as collector:
        ids = record(records, collector, shot, 30)
    assert collector.url == place
    bucket = read_bucket(place, bucket_options)
    assert sorted(bucket.indexed) == sorted(ids)
    dataset = open_dataset(place, storage_options=bucket_options)
    for episode in dataset:
        assert [step.observation["number"] for step in episode.steps] == [episode.info.seed] * 3
        assert episode.steps[2].observation["shot"] == shot(episode.info.seed + 2)
    assert verify(place, storage_options=bucket_options).clean


@pytest.mark.slow
async def test_two_collectors_write_to_one_place_at_once(
    collect, records, shot, tmp_path, bucket_url, bucket_options
):
    async with (
        collect(bucket_url, storage_options=bucket_options) as one,
        collect(bucket_url, storage_options=bucket_options, spool=tmp_path / "other") as other,
    ):
        ids = record(records, one, shot, 20) | record(records, other, shot, 20)
    assert set(read_bucket(bucket_url, bucket_options).episodes) == ids


# What a person must mend.


async def test_wrong_credentials_are_reported_and_never_shown(
    collect, records, shot, caplog, bucket_url, bucket_options
):
    caplog.set_level(logging.INFO)
    wrong = {**bucket_options, "secret_access_key": "WRONGSECRET"}
    collector = collect(bucket_url, storage_options=wrong)
    ids = record(records, collector, shot, 3)
    with pytest.raises(
        errors.CollectorError, match=r"3 episodes .*denied access.*credentials"
    ) as caught:
        await collector.aclose()
    assert "WRONGSECRET" not in caplog.text + repr(caught.value) + repr(collector.status())
    assert wrong["access_key_id"] not in caplog.text + repr(caught.value)
    report = push(collector.spool, storage_options=bucket_options)
    assert report.complete
    assert set(read_bucket(bucket_url, bucket_options).episodes) == ids


# Faults of the network and of the server.

FAULTS = {
    "500": (Fault(status=500), {"every": 3}),
    "500 after all": (Fault(status=500, applied=True), {"every": 3}),
    "throttled": (Fault(status=503, code="SlowDown"), {"every": 2}),
    "slow": (Fault(delay=0.05), {}),
    "no answer": (Fault(delay=30.0), {"times": 2}),
    "refused": (Fault(refuse=True), {"every": 3}),
    "request cut": (Fault(cut_request_after=1000), {"every": 3, "method": "PUT"}),
    "answer cut": (Fault(cut_response_after=0), {"every": 3}),
    "request changed": (Fault(flip_request_at=100), {"every": 3, "path": "blobs/"}),
    "narrow": (Fault(bytes_per_second=200_000), {}),
    "no index": (Fault(status=500), {"path": "index/", "times": 3}),
    "no header": (Fault(status=500), {"path": "dataset.json", "times": 3}),
    "large in parts": (Fault(cut_request_after=1 << 20), {"path": "partNumber=2", "times": 2}),
}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
async def test_every_episode_arrives_once_whatever_the_network_does(
    collect, records, shot, bucket_url, through_proxy, impatient, fault_proxy, name
):
    fault, to_which = FAULTS[name]
    collector = collect(bucket_url, storage_options=through_proxy)
    rule = fault_proxy.inject(fault, **to_which)
    ids = record(records, collector, shot, 15)
    if name == "large in parts":
        recorder = collector.begin_episode(records.info("large"))
        recorder.record_step(records.step(0, b"\xff\xd8\xff" + os.urandom(18 << 20)))
        recorder.end_episode(records.end)
        ids.add("large")
    async with asyncio.timeout(120):
        await flush_until_done(collector)
    assert rule.injected > 0
    assert collector.status().failed_episodes == 0
    assert set(read_bucket(bucket_url, impatient).episodes) == ids
    assert verify(bucket_url, storage_options=impatient).clean


@pytest.mark.parametrize("s3_server", ["moto"], indirect=True)
async def test_uploads_that_were_cut_leave_no_parts_behind(
    collect, records, s3_server, bucket_url, through_proxy, fault_proxy
):
    collector = collect(bucket_url, storage_options=through_proxy)
    fault_proxy.inject(Fault(cut_request_after=1 << 20), path="partNumber=2", times=2)
    recorder = collector.begin_episode(records.info("large"))
    recorder.record_step(records.step(0, b"\xff\xd8\xff" + os.urandom(18 << 20)))
    recorder.end_episode(records.end)
    async with asyncio.timeout(120):
        await flush_until_done(collector)
    bucket = bucket_url.removeprefix("s3://")
    assert "Uploads" not in s3_server.client().list_multipart_uploads(Bucket=bucket)


# rclone keeps its data on disk, so that a kill loses nothing; moto would lose all.
@pytest.mark.gate
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
@pytest.mark.parametrize(
    "way", ["killed", pytest.param("frozen", marks=pytest.mark.slow), "cut off"]
)
async def test_a_server_that_goes_in_the_middle_and_comes_back(
    collect, records, shot, s3_server, fault_proxy, bucket_url, through_proxy, impatient, way
):
    collector = collect(bucket_url, storage_options=through_proxy, index_interval=0.01)
    ids = record(records, collector, shot, 20)
    for round_ in range(3):
        sent = collector.status().sent_episodes
        ids |= record(records, collector, shot, 20, first=100 * round_)
        await until(lambda sent=sent: collector.status().sent_episodes > sent)
        if way == "killed":
            s3_server.kill()
        elif way == "frozen":
            s3_server.pause()
        else:
            fault_proxy.refuse()
        ids |= record(records, collector, shot, 20, first=100 * round_ + 50)
        await until(lambda: not collector.status().healthy)
        await collector.drain()
        if way == "killed":
            s3_server.start()
        elif way == "frozen":
            s3_server.resume()
        else:
            fault_proxy.accept()
    async with asyncio.timeout(120):
        await flush_until_done(collector)
    await collector.aclose()
    assert set(read_bucket(bucket_url, impatient).episodes) == ids
    assert verify(bucket_url, storage_options=impatient).clean


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
async def test_a_bucket_that_is_away_for_good_leaves_all_to_push(
    collect, records, shot, s3_server, bucket_url, bucket_options, impatient
):
    s3_server.kill()
    collector = collect(bucket_url, storage_options=impatient)
    ids = record(records, collector, shot, 10)
    with pytest.raises(errors.CollectorError, match=r"10 episodes .*no connection.*webtraj push"):
        await collector.aclose()
    s3_server.start()
    # Another process, which has only what the spool says, and credentials from the usual place.
    result = subprocess.run(
        [sys.executable, "-m", "webtraj", "push", str(collector.spool)],
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": s3_server.access_key_id,
            "AWS_SECRET_ACCESS_KEY": s3_server.secret_access_key,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "10 sent" in result.stdout
    assert set(read_bucket(bucket_url, bucket_options).episodes) == ids
