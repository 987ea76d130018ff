"""Work by several processes comes to what one does, whatever becomes of them."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import webtraj
from webtraj import errors
from webtraj.datasets import transfer, workers
from webtraj.datasets.transfer import convert
from webtraj.datasets.verification import verify
from webtraj.datasets.workers import Workers
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)


def refuse(job):
    raise errors.InvalidInputError(f"refused {job} in {os.getpid()}")


def test_an_error_is_raised_here():
    here = f"refused 5 in {os.getpid()}"
    with (
        contextlib.closing(Workers(refuse, 1)) as pool,
        pytest.raises(errors.InvalidInputError, match=here),
    ):
        pool.do(5)


def test_a_process_ends_with_its_parent():
    script = """
        import operator, os, signal
        from webtraj.datasets.workers import Workers
        pool = Workers(operator.neg, 1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    # This waits until stderr is closed, which the process has too.
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, b"")


def record(folder: Path, count: int) -> None:
    end = EpisodeEnd(reason=EndReason.CLOSED)
    with webtraj.datasets.DatasetWriter(folder) as writer:
        for number in range(count):
            page = {"screenshot": b"\xff\xd8" + bytes([number % 7]) * 3000, "n": number}
            steps = (
                StepRecord(0, StepType.FIRST, page),
                StepRecord(1, StepType.LAST, page, number, 1.0, 0.0),
            )
            info = EpisodeInfo(episode_id=f"e{number:03}", task="t", seed=number)
            writer.add(EpisodeTrajectory(info, steps, end))


@pytest.fixture
def source(tmp_path):
    record(tmp_path / "source", 40)
    return tmp_path / "source"


@pytest.fixture
def pools(monkeypatch):
    """Makes two processes transfer any dataset in a folder; returns the pools that were made."""
    made = []

    class Pool(Workers):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    for name, value in (("_LARGE", 1), ("_BATCH", 6), ("Workers", Pool)):
        monkeypatch.setattr(transfer, name, value)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    return made


def contents(folder):
    return {path.name: path.read_bytes() for path in (folder / "episodes").iterdir()}


@pytest.mark.parametrize("format_name", ["json", "pb", "pb.zst"])
def test_processes_convert_as_one_does(source, tmp_path, pools, monkeypatch, format_name):
    (source / "episodes" / "e007.json").write_bytes(b"{}")
    many = convert(source, tmp_path / "many", format=format_name)
    assert len(pools) == 1
    assert len(many.added) == 39
    assert list(many.added) == sorted(many.added)
    assert "e007" in many.failed[0]
    monkeypatch.setattr(transfer, "_LARGE", 10_000)
    assert convert(source, tmp_path / "one", format=format_name) == many
    assert len(pools) == 1
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    assert verify(tmp_path / "many").clean
    monkeypatch.setattr(transfer, "_LARGE", 1)
    again = convert(source, tmp_path / "many", format=format_name)
    assert (again.added, len(again.skipped)) == ((), 39)


def test_a_conversion_whose_processes_die_is_complete(source, tmp_path, pools, monkeypatch):
    send = Workers._send

    def kill_first(self, process, what):
        if isinstance(what, list) and process is self._processes[0]:
            process.kill()
        send(self, process, what)

    monkeypatch.setattr(Workers, "_send", kill_first)
    report = convert(source, tmp_path / "many", format="pb")
    assert report.complete
    assert len({*report.added, *report.skipped}) == 40
    assert verify(tmp_path / "many").clean
