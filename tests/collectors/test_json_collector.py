"""The JSON collector: its files, its faults, and what is left when its process goes."""

import hashlib
import os
import subprocess
import sys
import textwrap

import orjson
import pytest

from rows import each
from webtraj import (
    JsonTrajectoryCollector,
    errors,
    open_dataset,
)
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.store import journal
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


# Folders.


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(errors.NotADatasetError, match=r"is not empty.*new or empty folder"):
        JsonTrajectoryCollector(tmp_path)
    assert tree(tmp_path) == ["thesis.tex"]


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


# Processes.


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


@each("fsync, at", [("step", {"step", "end"}), ("episode", {"end"}), ("never", set())])
async def test_the_disk_is_waited_for_as_asked(tmp_path, monkeypatch, records, fsync, at):
    waited = []
    for call in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, call, waited.append)
    async with JsonTrajectoryCollector(tmp_path / fsync, fsync=fsync) as collector:
        recorder = collector.begin_episode(records.info("one"))
        waited.clear()
        recorder.record_step(records.step(0, last=True))
        assert bool(waited) == ("step" in at)
        waited.clear()
        recorder.end_episode(records.end)
        await collector.flush()
        assert bool(waited) == ("end" in at)


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


def test_a_url_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url, said in (
        ("s3://bucket/x", "BucketTrajectoryCollector"),
        ("s3:/bucket/x", "s3://bucket"),
    ):
        with pytest.raises(errors.InvalidInputError, match=said):
            JsonTrajectoryCollector(url)
    assert not list(tmp_path.iterdir())
