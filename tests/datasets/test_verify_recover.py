"""Verification finds what is wrong; recovery mends what a dead writer left."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading

import pytest

from webtraj import JsonTrajectoryCollector, open_dataset
from webtraj.datasets.recovery import recover
from webtraj.datasets.verification import verify
from webtraj.store.files import LineFile
from webtraj.store.layout import DatasetLayout
from webtraj.testing.faults import disk_full
from webtraj.trajectory import EndReason, EpisodeEnd, EpisodeInfo, StepRecord, StepType

SHOT = b"\xff\xd8\xff" + bytes(range(256)) * 20


@pytest.fixture
def dataset(tmp_path):
    """The folder of a sound dataset of three episodes."""
    path = tmp_path / "dataset"
    with JsonTrajectoryCollector(path, fsync="never") as collector:
        for number in range(3):
            recorder = collector.begin_episode(EpisodeInfo(episode_id=f"e{number}", task="t"))
            shot = SHOT + bytes([number])
            recorder.record_step(StepRecord(0, StepType.FIRST, {"shot": shot, "n": number}))
            recorder.record_step(StepRecord(1, StepType.LAST, "seen", "a1", 1.0, 0.0))
            recorder.end_episode(EpisodeEnd(reason=EndReason.TERMINATED))
    return path


def snapshot(path):
    return {p: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_a_sound_dataset_is_clean(dataset):
    before = snapshot(dataset)
    report = verify(dataset)
    assert report.clean
    assert (report.num_episodes, report.num_steps, report.num_blobs) == (3, 3, 3)
    assert report.unreferenced_blobs == 0
    assert snapshot(dataset) == before


# Damage.


def flip(path, where=-20):
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)


def only(paths):
    (path,) = paths
    return path


def swap(one, other):
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)


def episode(d, name="e1"):
    return d / "episodes" / f"{name}.json"


def a_blob(d):
    return min((d / "blobs").rglob("*.jpg"))


def an_index(d):
    return only((d / "index").iterdir())


DAMAGE = {
    "a byte of an episode": (lambda d: flip(episode(d)), "e1", "changed or damaged"),
    "an episode cut short": (lambda d: os.truncate(episode(d), 50), "e1", "cannot be read"),
    "an episode emptied": (lambda d: os.truncate(episode(d), 0), "e1", "cannot be read"),
    "an episode removed": (lambda d: episode(d).unlink(), "e1", "its file is missing"),
    "two episodes swapped": (
        lambda d: swap(episode(d), episode(d, "e2")), "e1", "holds the episode 'e2'",
    ),
    "an episode copied": (
        lambda d: shutil.copy(episode(d), episode(d, "e9")), "e9", "holds the episode 'e1'",
    ),
    "a byte of a blob": (lambda d: flip(a_blob(d)), "e", "does not match its name"),
    "a blob cut short": (lambda d: os.truncate(a_blob(d), 9), "e", "does not match"),
    "a blob removed": (lambda d: a_blob(d).unlink(), "e", "cannot be read"),
    "a blob's size changed": (
        lambda d: episode(d).write_bytes(
            episode(d).read_bytes().replace(b'"size":5124', b'"size":5125')
        ),
        "e1", "as 5125 bytes, not 5124",
    ),
    "two blobs swapped": (
        lambda d: swap(*sorted((d / "blobs").rglob("*.jpg"))[:2]), "e", "does not match",
    ),
    "an index line spoilt": (lambda d: flip(an_index(d), 0), "index/", "1 lines cannot be read"),
    "an index line changed": (
        lambda d: an_index(d).write_bytes(an_index(d).read_bytes().replace(b'"t"', b'"u"', 1)),
        "e", "does not match its file",
    ),
    "an index lost": (lambda d: an_index(d).unlink(), "e1", "is not in the index"),
    "an index cut short": (
        lambda d: os.truncate(an_index(d), an_index(d).stat().st_size - 1), "e", "not in the index",
    ),
    "a file of others": (
        lambda d: (d / "episodes" / "notes.txt").touch(), "episodes/notes.txt", "not written by",
    ),
    "a name of others": (
        lambda d: shutil.copy(episode(d), d / "episodes" / "e1 (copy).json"),
        "episodes/e1 (copy).json", "not written by",
    ),
    "a journal of others": (
        lambda d: (d / "journal" / "a b.jsonl").touch(), "journal/a b.jsonl", "not written by",
    ),
    "no episode at all": (lambda d: episode(d, "e9").write_text("[]"), "e9", "cannot be read"),
    "too deep a nest": (
        lambda d: episode(d, "e9").write_text(
            '{"schema_version":1,"info":{},"steps":[' + "[" * 900 + "]" * 900 + "]}"
        ),
        "e9", "cannot be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "where", "what"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_found(dataset, damage, where, what):
    damage(dataset)
    report = verify(dataset)
    assert not report.clean
    found = [p for p in report.problems if p.where.startswith(where) and what in p.what]
    assert found, report.problems


@pytest.mark.parametrize("damage", [row[0] for row in DAMAGE.values()], ids=DAMAGE)
def test_damage_keeps_no_sound_episode_from_its_reader(dataset, damage):
    damage(dataset)
    damaged = {problem.where for problem in verify(dataset).problems}
    recover(dataset)
    found = open_dataset(dataset)
    for episode_id in {"e0", "e1", "e2"} - damaged:
        assert found[episode_id].num_steps == 1


# Recovery.

WRITER = """
import os, sys, webtraj
from webtraj.trajectory import *
collector = webtraj.JsonTrajectoryCollector(sys.argv[1], fsync="never")
for name in sys.argv[2:]:
    recorder = collector.begin_episode(EpisodeInfo(episode_id=name))
    recorder.record_step(StepRecord(0, StepType.FIRST, {"shot": b"x" * 5000}))
    recorder.record_intent("click")
print("recorded", flush=True)
sys.stdin.read()
os._exit(9)
"""


@pytest.fixture
def writer(dataset):
    """A process that records the open episodes o0 and o1 until it is told to die."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(dataset), "o0", "o1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"recorded\n"
        yield process


@pytest.fixture
def orphans(dataset, writer):
    """The dataset, after the writer of o0 and o1 has died."""
    writer.communicate()
    return dataset


def test_a_living_writer_s_episodes_are_left_alone(dataset, writer):
    before = snapshot(dataset)
    report = recover(dataset)
    assert report.being_written == ("o0", "o1")
    assert report.sealed == ()
    assert snapshot(dataset) == before
    assert verify(dataset).clean
    assert verify(dataset).being_written == ("o0", "o1")
    writer.communicate()


def test_orphans_are_sealed_as_crashed_with_their_action_in_flight(orphans):
    assert [p.where for p in verify(orphans).problems] == ["o0", "o1"]
    report = recover(orphans)
    assert [s.episode_id for s in report.sealed] == ["o0", "o1"]
    assert verify(orphans).clean
    for name in ("o0", "o1"):
        episode = open_dataset(orphans)[name]
        assert episode.end_reason is EndReason.CRASHED
        assert episode.end.in_flight_action == "click"
        assert len(episode.steps) == 1


def test_recovery_is_idempotent(orphans):
    recover(orphans)
    before = snapshot(orphans)
    report = recover(orphans)
    assert (report.sealed, report.indexed, report.unreadable) == ((), (), ())
    assert snapshot(orphans) == before


def test_a_journal_whose_first_line_was_never_written_is_removed(dataset):
    layout = DatasetLayout(dataset)
    begun = layout.journals / ".e9.jsonl.tmp"
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.touch()
    recover(dataset)
    assert not begun.exists()
    assert verify(dataset).clean


def test_recoveries_at_once_seal_each_episode_once(orphans):
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(recover(orphans))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sealed = [s.episode_id for report in reports for s in report.sealed]
    assert sorted(sealed) == ["o0", "o1"]
    assert verify(orphans).clean


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"{\n" + path.read_bytes()),
        lambda path: os.truncate(path, 10),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"ext":"bin"', b'"ext":"../"')),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"size":5000', b'"size":"x"')),
        lambda path: path.write_bytes(path.read_bytes() + b'{"kind":"sing"}\n'),
    ],
    ids=["spoilt", "no whole line", "bad blob", "bad size", "unknown kind"],
)
def test_an_unreadable_journal_is_left_and_told_and_the_others_are_sealed(orphans, damage):
    journal = orphans / "journal" / "o0.jsonl"
    damage(journal)
    before = journal.read_bytes()
    report = recover(orphans)
    assert [s.episode_id for s in report.sealed] == ["o1"]
    assert len(report.unreadable) == 1
    assert journal.read_bytes() == before


def test_a_writer_that_died_after_any_effect_of_sealing_is_recovered(orphans):
    journal = orphans / "journal" / "o0.jsonl"
    lines = journal.read_bytes()
    recover(orphans)
    sealed = snapshot(orphans / "episodes")
    # Before the journal went.
    journal.write_bytes(lines)
    assert [s.episode_id for s in recover(orphans).sealed] == ["o0"]
    # Before the index line came.
    for index in (orphans / "index").iterdir():
        index.unlink()
    assert recover(orphans).indexed == ("e0", "e1", "e2", "o0", "o1")
    # Before either.
    for index in (orphans / "index").iterdir():
        index.unlink()
    journal.write_bytes(lines)
    report = recover(orphans)
    assert [s.episode_id for s in report.sealed] == ["o0"]
    assert report.indexed == ("e0", "e1", "e2", "o1")
    assert snapshot(orphans / "episodes") == sealed
    assert verify(orphans).clean


async def test_recovery_beside_a_busy_writer_disturbs_nothing(dataset):
    stop = threading.Event()
    reports = []

    def recover_often():
        while not stop.is_set():
            reports.append(recover(dataset))

    thread = threading.Thread(target=recover_often)
    thread.start()
    try:
        async with JsonTrajectoryCollector(dataset, fsync="never") as collector:
            for number in range(150):
                recorder = collector.begin_episode(EpisodeInfo(episode_id=f"n{number}"))
                recorder.record_step(StepRecord(0, StepType.FIRST, number))
                await asyncio.sleep(0)
                recorder.end_episode(EpisodeEnd(reason=EndReason.CLOSED))
    finally:
        stop.set()
        thread.join()
    assert not any(report.sealed or report.unreadable for report in reports)
    assert len(open_dataset(dataset)) == 153
    assert verify(dataset).clean


@pytest.mark.parametrize("now", [b"", b'{"a":1}\n{"b":2}\n{"by hand":3}\n'], ids=["less", "more"])
def test_lines_are_added_to_what_a_file_holds_now(tmp_path, now):
    path = tmp_path / "lines.jsonl"
    file = LineFile(path)
    file.append(b'{"a":1}\n')
    path.write_bytes(now)
    with disk_full(after_bytes=3), pytest.raises(OSError, match="No space left"):
        file.append(b'{"c":3}\n')
    assert path.read_bytes() == now
    file.append(b'{"d":4}\n')
    file.close()
    assert path.read_bytes() == now + b'{"d":4}\n'
