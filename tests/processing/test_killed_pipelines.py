"""A pipeline that is killed and run again makes what one that nobody disturbed makes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processing_support import (
    Alike,
    Noted,
    Short,
    Twins,
    contents,
    index_lines,
    ledger_lines,
    objects,
    record,
)

from webtraj import open_dataset
from webtraj.datasets.verification import verify
from webtraj.processing.pipeline import Pipeline, process
from webtraj.store.index import IndexWriter
from webtraj.store.storage import FolderStorage

NUM_EPISODES = int(os.environ.get("WEBTRAJ_PROCESSING_EPISODES", "300"))
"""`make test-processing` takes five thousand."""

RUN = """
    import asyncio, json, os, sys
    from processing_support import Alike, Noted, Short, Twins
    from webtraj.processing.pipeline import Pipeline, process

    read, write, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

    def observe(done, total):
        print(done, total, flush=True)

    async def main():
        report = await process(read, write, Pipeline([Short(), Noted(), Alike(), Twins()]),
                               parallel=8, read_options=options, write_options=options,
                               observer=observe)
        print("report", json.dumps({"now": report.now, "found": report.found, **report.to_data()}))

    asyncio.run(main())
"""


def start(read, write, options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUN), read, write, json.dumps(options)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )


def run(read, write, options, *, kill_when_left=None):
    """Runs a pipeline to its end, or until so few episodes are left; returns its report."""
    process = start(read, write, options)
    assert process.stdout is not None
    report = None
    for line in process.stdout:
        if line.startswith("report "):
            report = json.loads(line.removeprefix("report "))
        elif kill_when_left is not None and _left(line) <= kill_when_left:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(120) == (0 if kill_when_left is None else -signal.SIGKILL)
    return report


def _left(line):
    done, total = map(int, line.split())
    return total - done


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
@pytest.mark.gate
def test_killed_three_times_in_a_bucket(bucket_url, bucket_options):
    options = bucket_options
    raw, out, calm = (f"{bucket_url}/{name}" for name in ("raw", "killed", "calm"))
    alike = {"seed_of": lambda number: number - (number % 5 == 4)}
    record(raw, range(NUM_EPISODES), options=options, size=300, **alike)
    before = objects(raw, options, "episodes/")
    undisturbed = run(raw, calm, options)
    for left in (0.8, 0.5, 0.1):
        assert run(raw, out, options, kill_when_left=NUM_EPISODES * left) is None
    assert not verify(out, storage_options=options).clean  # It died in the middle of things.
    report = run(raw, out, options)
    assert report is not None
    assert 0 < report["now"] < NUM_EPISODES
    assert contents(out, options) == contents(calm, options)
    assert index_lines(out, options) == index_lines(calm, options)
    assert ledger_lines(out, options) == ledger_lines(calm, options)
    told = {key: value for key, value in report.items() if key not in ("now", "found")}
    assert told == {key: value for key, value in undisturbed.items() if key in told}
    assert verify(out, storage_options=options).clean
    assert objects(raw, options, "episodes/") == before
    made = open_dataset(out, storage_options=options)
    assert len(made) == 2 * report["steps"][2]["kept"] > 0


class DiedError(BaseException):
    """The process died: nothing is written from then on."""


class Death:
    """Counts writes, and lets the process die at one: before it, or right after."""

    def __init__(self, monkeypatch, at):
        self.left = at
        self.write, self.append = FolderStorage.write, IndexWriter.append
        monkeypatch.setattr(FolderStorage, "write", self.dying(self.write))
        monkeypatch.setattr(IndexWriter, "append", self.dying(self.append))

    def dying(self, function):
        def write(*args, **options):
            self.left -= 1
            if self.left < 0:
                raise DiedError
            return function(*args, **options)

        return write


@pytest.mark.slow
@pytest.mark.gate
async def test_it_may_die_before_any_write(tmp_path, monkeypatch):
    raw = record(tmp_path / "raw", [0, 3, 1, 40, 4])
    pipeline = Pipeline([Short(), Noted(), Alike(), Twins()])
    calm = tmp_path / "calm"
    counted = Death(monkeypatch, 10_000)
    await process(raw, calm, pipeline, parallel=2)
    writes = 10_000 - counted.left
    monkeypatch.undo()
    assert writes > 10
    for at in range(writes):
        out = tmp_path / f"died-{at}"
        with monkeypatch.context() as patch:
            Death(patch, at)
            with pytest.raises(DiedError):
                await process(raw, out, pipeline, parallel=2)
        report = await process(raw, out, pipeline, parallel=2)
        assert contents(out) == contents(calm), at
        assert ledger_lines(out) == ledger_lines(calm), at
        assert _report(out) == _report(calm), at
        assert report.outputs == 6
        assert verify(out).clean, at


def _report(place):
    (content,) = [v for k, v in objects(place).items() if k.endswith("/report.json")]
    return content


async def test_what_is_written_is_not_made_again(tmp_path, monkeypatch):
    """The outputs are there, the ledger is not: no step sees those episodes a second time."""
    raw = record(tmp_path / "raw", range(30))
    seen = []

    class Counting(Noted):
        def __call__(self, trajectory):
            seen.append(trajectory.episode_id)
            return super().__call__(trajectory)

    pipeline = Pipeline([Counting(), Twins()])
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("webtraj.processing.ledger.Ledger.flush", _die)
        with pytest.raises(DiedError):
            await process(raw, out, pipeline)
    assert len(open_dataset(out)) == 60
    assert ledger_lines(out) == []
    seen.clear()
    report = await process(raw, out, pipeline)
    assert seen == []
    assert (report.found, report.outputs) == (30, 60)


def _die(*args):
    raise DiedError
