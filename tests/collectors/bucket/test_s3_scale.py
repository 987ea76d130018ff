"""The S3 collector with very many episodes: all arrive, in few index objects, in bounded memory."""

import os
import subprocess
import sys
import textwrap

import pytest
from spool_support import read_bucket

from webtraj import errors

NUM_EPISODES = int(os.environ.get("WEBTRAJ_S3_EPISODES", "2000"))
"""`make test-s3` sends ten thousand, which takes half a minute."""


@pytest.mark.slow
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
async def test_thousands_of_small_episodes_arrive(collect, records, bucket_url, bucket_options):
    async with collect(
        bucket_url, storage_options=bucket_options, index_interval=3600.0, close_timeout=1800.0
    ) as collector:
        ids = set()
        for _ in range(NUM_EPISODES):
            ids.add(records.record(collector))
            await collector.drain()
    assert collector.status().sent_episodes == NUM_EPISODES
    bucket = read_bucket(bucket_url, bucket_options)
    assert sorted(bucket.indexed) == sorted(ids)
    shards = [key for key in bucket.keys if key.startswith("index/")]
    assert len(shards) <= NUM_EPISODES / 100 + 2


PUSH = """
    import resource, sys
    from webtraj.datasets.transfer import push
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert push(sys.argv[1], max_uploads=4).complete
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
def test_a_long_backlog_is_sent_in_bounded_memory(collect, records, shot, faulty, tmp_path):
    def away(*_):
        raise errors.StorageUnavailableError("The bucket is away.")

    faulty.fault = away
    collector = collect(check_timeout=0)
    for number in range(300):
        recorder = collector.begin_episode(records.info())
        recorder.record_step(records.step(0, shot(number, 500_000)))
        recorder.end_episode(records.end)
    with pytest.raises(errors.CollectorError):
        collector.close()
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PUSH), str(collector.spool)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert int(result.stdout) < 48 << 20  # Of 150 MB.
    assert len(read_bucket(faulty.root).episodes) == 300
