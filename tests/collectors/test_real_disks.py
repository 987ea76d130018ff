"""Faults of a real file system: a full one and a read-only one, where this user may mount them."""

import subprocess

import pytest

from webtraj import JsonTrajectoryCollector, errors, open_dataset
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.store.journal import read_journal
from webtraj.trajectory import EndReason


def mount(*arguments):
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A file system of 256 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    try:
        mounted = mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path))
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a file system")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


async def test_a_full_disk_loses_no_step_that_was_recorded(disk, records):
    collector = JsonTrajectoryCollector(disk / "dataset")
    recorder = collector.begin_episode(records.info("one"))
    kept = []

    def fill():
        for index in range(1000):
            recorder.record_step(records.step(index, "x" * 3000))
            kept.append(index)

    with pytest.raises(errors.CollectorError, match="No space left"):
        fill()
    assert len(kept) > 10
    read = read_journal(collector.path / "journal" / "one.jsonl")
    assert ([step["index"] for step in read.steps], read.torn) == (kept, 0)
    # With the journal on it, there is no room for the episode's file, which is told; then there is.
    recorder.end_episode(records.end)
    with pytest.raises(errors.CollectorError, match=r"No space left.*webtraj recover"):
        await collector.aclose()
    assert mount("-o", "remount,size=4m", str(disk))
    assert [s.episode_id for s in recover(disk / "dataset").sealed] == ["one"]
    episode = open_dataset(disk / "dataset")["one"]
    assert [step.index for step in episode.steps] == kept
    assert episode.end_reason is EndReason.TERMINATED
    assert verify(disk / "dataset").clean


async def test_a_read_only_disk_is_a_collector_error(disk, records):
    async with JsonTrajectoryCollector(disk / "dataset") as collector:
        assert mount("-o", "remount,ro", str(disk))
        with pytest.raises(errors.CollectorError, match="Read-only"):
            collector.begin_episode(records.info())
        with pytest.raises(errors.CollectorError, match=r"Cannot write.*this user may write"):
            JsonTrajectoryCollector(disk / "another")
        assert len(open_dataset(disk / "dataset")) == 0
        assert verify(disk / "dataset").clean
