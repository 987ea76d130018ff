"""The JSON collector: its files, its faults, and what is left when its process goes."""

import asyncio
import hashlib
import os
import subprocess
import sys
import textwrap
import threading

import dm_env
import numpy as np
import orjson
import pytest

from webtraj import (
    JsonTrajectoryCollector,
    TrajectoryCollectingEnvironment,
    errors,
    open_dataset,
)
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.store import files, journal, sealing
from webtraj.testing.fakes import ScriptedEnvironment
from webtraj.testing.faults import disk_full
from webtraj.trajectory import EndReason, EpisodeEnd

SHOT = b"\xff\xd8\xff" + bytes(range(256)) * 20


@pytest.fixture
async def collector(tmp_path):
    collector = JsonTrajectoryCollector(tmp_path / "dataset", fsync="never")
    yield collector
    await collector.aclose()


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Files.


async def test_files_lie_where_the_layout_says(collector, records):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0, {"shot": SHOT}))
    sha = sha256(SHOT)
    blob = f"blobs/{sha[:2]}/{sha}.jpg"
    assert tree(collector.path) == [blob, "dataset.json", "journal/one.jsonl"]
    recorder.end_episode(records.end)
    await collector.flush()
    *found, index = tree(collector.path)
    assert found == [blob, "dataset.json", "episodes/one.json"]
    assert index.startswith("index/")
    assert orjson.loads((collector.path / "dataset.json").read_bytes())["schema_version"] == 1


def sha256(data):
    return hashlib.sha256(data).hexdigest()


async def test_equal_bytes_are_one_file_for_all_steps_and_episodes(collector, records):
    for _ in range(3):
        recorder = collector.begin_episode(records.info())
        for index in range(4):
            recorder.record_step(records.step(index, {"shot": SHOT, "text": "word " * 2000}))
        recorder.end_episode(records.end)
    await collector.flush()
    assert len(tree(collector.path / "blobs")) == 2


async def test_every_call_is_in_the_journal_when_it_returns(collector, records):
    path = collector.path / "journal" / "one.jsonl"

    def kinds():
        return [orjson.loads(line)["kind"] for line in path.read_bytes().splitlines()]

    recorder = collector.begin_episode(records.info("one"))
    assert kinds() == ["begin"]
    recorder.record_step(records.step(0))
    recorder.record_intent("a1")
    recorder.record_info(records.info("one", task="t"))
    assert kinds() == ["begin", "step", "intent", "info"]


@pytest.mark.parametrize("torn", [b'{"kind": "st', b'{"kind":"end","end":{}}'])
async def test_a_torn_last_line_does_not_count(collector, records, tmp_path, torn):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0))
    path = tmp_path / "copy.jsonl"
    path.write_bytes((collector.path / "journal" / "one.jsonl").read_bytes() + torn)
    read = journal.read_journal(path)
    assert (len(read.steps), read.end, read.torn) == (1, None, len(torn))


@pytest.mark.parametrize("fsync", ["episode", "step", "never"])
async def test_fsync_decides_what_is_waited_for(tmp_path, records, monkeypatch, fsync):
    synced = []
    for name in ("fsync", "fdatasync"):
        sync = getattr(os, name)
        monkeypatch.setattr(os, name, lambda fd, sync=sync: (synced.append(fd), sync(fd))[1])
    async with JsonTrajectoryCollector(tmp_path, fsync=fsync) as collector:
        recorder = collector.begin_episode(records.info())
        recorder.record_step(records.step(0, SHOT))
        assert bool(synced) is (fsync == "step")
        recorder.end_episode(records.end)
        await collector.flush()
        assert bool(synced) is (fsync != "never")


@pytest.mark.parametrize(
    ("long", "filler"), [("goal", "word " * 2000), ("task", "t" * 5000)], ids=["goal", "task"]
)
async def test_long_texts_of_an_episode_s_info_are_sealed_too(collector, records, long, filler):
    episode_id = records.record(collector, **{long: filler})
    await collector.flush()
    dataset = open_dataset(collector.path)
    assert getattr(dataset[episode_id].info, long) == filler
    assert getattr(dataset.summaries[0], long) == filler
    assert verify(collector.path).clean


async def test_long_rewards_are_sealed_too(collector):
    script = [dm_env.restart(0), dm_env.termination(np.ones(1000), 0)]
    env = TrajectoryCollectingEnvironment(ScriptedEnvironment(script), collector)
    await env.step(0)
    await env.step(0)
    await collector.flush()
    assert open_dataset(collector.path).summaries[0].total_reward == 1000.0
    assert verify(collector.path).clean


async def test_info_of_any_type_costs_nothing(collector, records):
    recorder = collector.begin_episode(records.info("one", metadata={"f": open}))
    recorder.record_step(records.step(0))
    recorder.end_episode(records.end)
    await collector.flush()
    episode = open_dataset(collector.path)["one"]
    assert len(episode.steps) == 1
    assert episode.info.metadata["f"].repr == "<built-in function open>"


# Folders.


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(errors.NotADatasetError, match=r"is not empty.*new or empty folder"):
        JsonTrajectoryCollector(tmp_path)
    assert tree(tmp_path) == ["thesis.tex"]


def test_a_dataset_of_a_newer_webtraj_is_refused(tmp_path):
    (tmp_path / "dataset.json").write_text('{"schema_version": 99}')
    with pytest.raises(errors.UnsupportedSchemaError, match="99"):
        JsonTrajectoryCollector(tmp_path)


def test_a_file_in_the_way_is_a_collector_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.CollectorError, match="Cannot write the dataset folder"):
        JsonTrajectoryCollector(tmp_path / "file" / "dataset")


def test_an_unknown_fsync_is_refused(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="Unknown fsync='often'"):
        JsonTrajectoryCollector(tmp_path, fsync="often")


async def test_several_collectors_share_a_folder(tmp_path, records):
    path = tmp_path / "dataset"
    async with JsonTrajectoryCollector(path) as one, JsonTrajectoryCollector(path) as other:
        ids = {records.record(one), records.record(other), records.record(one)}
    assert set(open_dataset(path).episode_ids) == ids
    assert verify(path).clean


# Faults.


@pytest.mark.parametrize("after_bytes", [0, 1, 40], ids=lambda n: f"after {n} bytes")
@pytest.mark.parametrize("observation", ["seen", SHOT], ids=["in the journal", "in a blob"])
async def test_a_full_disk_is_reported_and_later_steps_go_on(
    collector, records, after_bytes, observation
):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0))
    with (
        disk_full(after_bytes=after_bytes),
        pytest.raises(errors.CollectorError, match=r"No space left.*recorded before is safe"),
    ):
        recorder.record_step(records.step(1, observation))
    read = journal.read_journal(collector.path / "journal" / "one.jsonl")
    assert (len(read.steps), read.torn) == (1, 0)
    recorder.record_step(records.step(2))
    recorder.end_episode(records.end)
    await collector.flush()
    assert [s.index for s in open_dataset(collector.path)["one"].steps] == [0, 2]


async def test_a_torn_line_that_cannot_be_cut_off_at_once_is_cut_off_later(
    collector, records, monkeypatch
):
    recorder = collector.begin_episode(records.info("one"))
    with monkeypatch.context() as patch, disk_full(after_bytes=10):
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(errors.CollectorError, match="No space left"):
            recorder.record_step(records.step(0))
    recorder.record_step(records.step(1))
    recorder.end_episode(records.end)
    await collector.flush()
    assert [s.index for s in open_dataset(collector.path)["one"].steps] == [1]


def fails(*args, **kwargs):
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("info", [{}, {"goal": "word " * 2000}], ids=["journal", "blob"])
async def test_an_episode_that_cannot_begin_leaves_nothing_behind(collector, records, info):
    with disk_full(), pytest.raises(errors.CollectorError, match="could not be begun"):
        collector.begin_episode(records.info("one", **info))
    assert tree(collector.path) == ["dataset.json"]
    assert collector.open_episodes == ()
    records.record(collector, episode_id="one")


async def test_an_end_that_cannot_be_written_seals_what_there_is(collector, records):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0))
    with disk_full(), pytest.raises(errors.CollectorError, match="No space left"):
        recorder.end_episode(records.end)
    try:  # The disk may have been full for the sealing thread, too.
        await collector.flush()
    except errors.CollectorError:
        recover(collector.path)
    episode = open_dataset(collector.path)["one"]
    assert (len(episode.steps), episode.end_reason) == (1, EndReason.CRASHED)


@pytest.mark.parametrize("method", ["drain", "flush", "aclose", "close"])
async def test_a_seal_that_fails_is_reported_and_can_be_recovered(
    collector, records, monkeypatch, method
):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0))
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", fails)
        recorder.end_episode(records.end)
        while not collector._sealing.failures:
            await asyncio.sleep(0)

    async def call():
        result = getattr(collector, method)()
        if method != "close":
            await result

    with pytest.raises(errors.CollectorError, match=r"'one' could not be sealed.*webtraj recover"):
        await call()
    await collector.flush()  # It is told once.
    assert [s.episode_id for s in recover(collector.path).sealed] == ["one"]
    assert open_dataset(collector.path)["one"].end == records.end


async def test_drain_waits_only_while_much_is_to_be_sealed(collector, records, monkeypatch):
    may_seal = threading.Event()
    seal = sealing.seal
    monkeypatch.setattr(sealing, "seal", lambda *a, **k: (may_seal.wait(), seal(*a, **k))[1])
    for _ in range(32):
        records.record(collector)
    await collector.drain()
    records.record(collector)
    waiting = asyncio.ensure_future(collector.drain())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    may_seal.set()
    await waiting
    await collector.flush()
    assert len(open_dataset(collector.path)) == 33


async def test_a_flush_that_is_cancelled_seals_all_the_same(collector, records, monkeypatch):
    may_seal = threading.Event()
    seal = sealing.seal
    monkeypatch.setattr(sealing, "seal", lambda *a, **k: (may_seal.wait(), seal(*a, **k))[1])
    records.record(collector)
    flush = asyncio.ensure_future(collector.flush())
    await asyncio.sleep(0)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    may_seal.set()
    await collector.aclose()
    assert len(open_dataset(collector.path)) == 1


# Processes.


def test_close_does_what_aclose_does(tmp_path, records):
    with JsonTrajectoryCollector(tmp_path) as collector:
        collector.begin_episode(records.info("one")).record_step(records.step(0))
    assert open_dataset(tmp_path)["one"].end_reason is EndReason.CLOSED
    collector.close()


async def test_a_forked_process_is_refused_and_harms_nothing(collector, records):
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0))
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (
            lambda: collector.begin_episode(records.info()),
            lambda: recorder.record_step(records.step(1)),
            lambda: recorder.end_episode(EpisodeEnd(reason=EndReason.ERRORED)),
        ):
            try:
                call()
            except errors.CollectorClosedError as error:
                refused += "another process" in str(error)
        collector.close()
        os._exit(refused)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 3
    recorder.end_episode(records.end)
    await collector.flush()
    episode = open_dataset(collector.path)["one"]
    assert (len(episode.steps), episode.end) == (1, records.end)


def run(script, path):
    """Runs a script in a process of its own, with a collector on `path`."""
    prelude = """
        import os, sys, webtraj
        from webtraj.trajectory import StepRecord, StepType
        collector = webtraj.JsonTrajectoryCollector(sys.argv[1])
        def begin():
            recorder = collector.begin_episode(webtraj.EpisodeInfo(episode_id="one"))
            recorder.record_step(StepRecord(0, StepType.FIRST, "seen"))
            recorder.record_intent("click")
            return recorder
    """
    source = textwrap.dedent(prelude) + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-c", source, str(path)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "script", ["recorder = begin()", "begin(); del collector; import gc; gc.collect()"]
)
def test_a_process_that_forgets_to_close_leaves_closed_episodes(tmp_path, script):
    result = run(script, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    (episode,) = open_dataset(tmp_path)
    assert (episode.end_reason, episode.end.phase) == (EndReason.CLOSED, "exit")
    assert verify(tmp_path).clean


def test_a_process_that_dies_leaves_a_journal_that_recovers_as_crashed(tmp_path):
    assert run("begin(); os._exit(9)", tmp_path).returncode == 9
    assert open_dataset(tmp_path).open_episodes == ("one",)
    (summary,) = recover(tmp_path).sealed
    assert summary.end_reason is EndReason.CRASHED
    end = open_dataset(tmp_path)["one"].end
    assert (end.phase, end.action_in_flight, end.in_flight_action) == ("recovery", True, "click")


def test_a_seal_that_fails_as_the_process_ends_is_told(tmp_path):
    script = """
        begin()
        from webtraj.store import sealing
        def fail(*args, **kwargs): raise OSError("disk on fire")
        sealing.seal = fail
    """
    result = run(script, tmp_path)
    assert "disk on fire" in result.stderr
    assert open_dataset(tmp_path).open_episodes == ("one",)


async def test_a_close_that_is_cancelled_can_be_made_again(collector, records, monkeypatch):
    may_seal = threading.Event()
    seal = sealing.seal
    monkeypatch.setattr(sealing, "seal", lambda *a, **k: (may_seal.wait(), seal(*a, **k))[1])
    collector.begin_episode(records.info("one"))
    close = asyncio.ensure_future(collector.aclose())
    await asyncio.sleep(0)
    close.cancel()
    with pytest.raises(asyncio.CancelledError):
        await close
    with pytest.raises(errors.CollectorClosedError):
        collector.begin_episode(records.info("late"))
    may_seal.set()
    await collector.aclose()
    assert open_dataset(collector.path)["one"].end_reason is EndReason.CLOSED


async def test_a_picture_that_cannot_be_synced_fails_its_own_step_alone(tmp_path, records):
    collector = JsonTrajectoryCollector(tmp_path / "data", fsync="step")
    recorder = collector.begin_episode(records.info("one"))
    recorder.record_step(records.step(0, SHOT))
    (blob,) = (collector.path / "blobs").rglob("*.jpg")
    blob.unlink()
    with pytest.raises(errors.CollectorError, match="No such file"):
        recorder.record_step(records.step(1, SHOT))
    recorder.record_step(records.step(2))
    recorder.end_episode(records.end)
    await collector.aclose()
    episode = open_dataset(collector.path, blobs="lazy")["one"]
    assert [step.index for step in episode.steps] == [0, 2]
