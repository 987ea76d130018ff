"""Long work shows how far it is, on stderr and nowhere else."""

import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from webtraj import trajectory as t
from webtraj.cli import app
from webtraj.cli.progress_bar import WorkProgress
from webtraj.datasets import copy, open_dataset, rebuild, recover, split, verify
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.progress import Progress, count_items, find_watcher, watching
from webtraj.datasets.writer import DatasetWriter
from webtraj.metrics.metrics_report import measure


@pytest.fixture
def recorded(tmp_path):
    place = tmp_path / "d"
    with DatasetWriter(place) as writer:
        for name in ("e1", "e2"):
            steps = (
                t.StepRecord(0, t.StepType.FIRST, {"axtree": "button 'Go'"}),
                t.StepRecord(1, t.StepType.LAST, {"axtree": "Done"}, "right", 1.0, 0.0),
            )
            end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=t.Outcome.SUCCESS)
            writer.add(t.EpisodeTrajectory(t.EpisodeInfo(episode_id=name, task="a"), steps, end))
    return place


def test_work_on_episodes_reports_episodes_and_bytes(recorded, tmp_path):
    works = {
        "Verifying episodes": lambda: verify(recorded),
        "Copying episodes": lambda: copy(recorded, tmp_path / "copied"),
        "Indexing episodes": lambda: rebuild(recorded),
        "Measuring episodes": lambda: measure(recorded),
    }
    size = sum(file.stat().st_size for file in (recorded / "episodes").iterdir())
    for what, work in works.items():
        seen = []
        with watching(seen.append):
            work()
        assert {(one.what, one.total) for one in seen} == {(what, 2)}
        assert [(one.done, one.ended) for one in seen] == [
            (0, False), (1, False), (2, False), (2, True)
        ]  # fmt: skip
        assert seen[-1].size == size, what
    others = {
        "Copying episodes": lambda: split(recorded, tmp_path / "parts", {"train": 1.0}),
        "Exporting episodes": lambda: export_dataset(
            open_dataset(recorded), tmp_path / "h", format="html"
        ),
    }
    for what, work in others.items():
        seen = []
        with watching(seen.append):
            work()
        assert (what, 2, 2) in {(one.what, one.done, one.total) for one in seen}
    seen = []
    with watching(seen.append):
        recover(recorded)
    assert (seen[-1].what, seen[-1].ended) == ("Indexing episodes", True)


def test_without_a_terminal_long_work_is_a_line_on_stderr(capsys):
    lines = []
    with WorkProgress(first=0, between=0) as progress, watching(progress):
        for done, _ in enumerate(count_items([5_000_000] * 3, "Copying episodes", 3, size=int)):
            while not any(f"{done} of 3" in line for line in lines):
                out, err = capsys.readouterr()
                lines += err.splitlines()
                assert out == ""
    assert re.fullmatch(r"Copying episodes: 0 of 3, 0\.0/s", lines[0])
    told = r"Copying episodes: 2 of 3, [\d,.]+/s, 10\.0 MB, [\d,.]+ MB/s, \d+:\d\d:\d\d left"
    assert any(re.fullmatch(told, line) for line in lines)


def test_work_may_begin_and_end_on_several_threads():
    """`push` reports from the threads that send."""
    begun, ended = Progress("Sending", 0, 1), Progress("Sending", 1, 1, ended=True)
    with WorkProgress() as progress, ThreadPoolExecutor(8) as pool:
        for _ in pool.map(progress, [begun, ended] * 500):
            pass


def test_work_that_is_soon_done_shows_nothing(capsys):
    with WorkProgress(first=600) as progress, watching(progress):
        assert list(count_items([1, 2], "Copying episodes", 2)) == [1, 2]
    assert capsys.readouterr() == ("", "")


_WAITING = """
from webtraj.cli.progress_bar import WorkProgress
from webtraj.datasets.progress import count_items, watching
with WorkProgress(first=0) as progress, watching(progress):
    for _ in count_items([1], "Copying episodes", 1):
        input()
print("Copied.")
"""


def test_in_a_terminal_it_is_a_bar():
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        shown = b""
        while b"Copying episodes" not in shown:
            shown += os.read(ours, 1000)
        out, _ = process.communicate(b"\n")
    os.close(theirs)
    os.close(ours)
    assert out == b"Copied.\n"


def test_every_command_shows_it_unless_it_prints_json(recorded, monkeypatch):
    watchers = []
    monkeypatch.setattr(
        "webtraj.datasets.verification.verify",
        lambda place, **options: watchers.append(find_watcher()) or verify(place, **options),
    )
    for more in ([], ["--json"]):
        CliRunner().invoke(app.make_app(), ["verify", str(recorded), *more], catch_exceptions=False)
    shown, silent = watchers
    assert isinstance(shown, WorkProgress)
    assert silent is None
