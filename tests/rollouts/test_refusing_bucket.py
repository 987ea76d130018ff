"""A bucket that takes nothing holds no rollout up, and gets it all once it does."""

import asyncio

import pytest

from webtraj import S3TrajectoryCollector, TeeTrajectoryCollector, open_dataset
from webtraj.collectors.bucket import Pauses
from webtraj.collectors.spool import Spool
from webtraj.environments.redacting_collector import RedactingCollector
from webtraj.redaction.rules import RedactionRules
from webtraj.rollouts import RunSpec, collect

pytestmark = [
    pytest.mark.parametrize("s3_server", ["rclone"], indirect=True),
    pytest.mark.timeout(120),  # Of those that wait for the bucket, which never answers.
]

PATIENT = Pauses(first=1e6, cap=1e6, uniform=lambda _, most: most)
"""Who waits for the bucket to be asked again waits for ever; only a flush asks."""


@pytest.fixture
def refused(tmp_path, bucket_url, proxied_options, fault_proxy):
    """A collector that was made while its bucket answered, which it does no more."""
    collector = S3TrajectoryCollector(
        f"{bucket_url}/run",
        spool=tmp_path / "spool",
        storage_options={**proxied_options, "retry": {"deadline": 0.5, "first_delay": 0.01}},
        pauses=PATIENT,
    )
    fault_proxy.refuse()
    return collector


async def sent_after_all(collector, fault_proxy, bucket_options):
    """Lets the bucket take episodes; returns the ids of those that it gets."""
    while collector.status().healthy:  # Another thread finds out.
        await asyncio.sleep(0.005)
    fault_proxy.accept()
    # A request that meets a connection of before is asked again, and not in a million seconds.
    collector._uploader._breaker.pauses = Pauses(first=0.01, cap=0.1)
    await collector.aclose()
    return open_dataset(collector.url, storage_options=bucket_options).episode_ids


@pytest.mark.parametrize("behind", ["alone", "tee", "redaction"])
async def test_a_failed_episode_is_tried_again_while_its_bucket_refuses(
    climber, tmp_path, refused, fault_proxy, bucket_options, behind
):
    collector = {
        "alone": lambda: refused,
        "tee": lambda: TeeTrajectoryCollector(refused),
        "redaction": lambda: RedactingCollector(refused, RedactionRules()),
    }[behind]()
    summary = await collect(
        RunSpec(preset="ladder/crash", max_retries=2, retry_pause=0),
        agent=climber(),
        trajectory_collector=collector,
    )
    assert [result.number for result in summary.results] == [0, 1, 2]
    ids = sorted(result.episode_id for result in summary.results)
    assert Spool(tmp_path / "spool", "json").list_waiting() == ids  # Sealed, each of them.
    assert refused.status().sent_episodes == 0
    assert sorted(await sent_after_all(refused, fault_proxy, bucket_options)) == ids


async def test_a_rollout_that_is_cancelled_ends_while_its_bucket_refuses(
    climber, ladder, tmp_path, refused, fault_proxy, bucket_options
):
    rollout = asyncio.ensure_future(
        collect(RunSpec(preset="ladder/hang"), agent=climber(), trajectory_collector=refused)
    )
    while not any(made.rung for made in ladder.made):
        await asyncio.sleep(0)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    ids = Spool(tmp_path / "spool", "json").list_waiting()
    assert len(ids) == 1
    assert list(await sent_after_all(refused, fault_proxy, bucket_options)) == ids
