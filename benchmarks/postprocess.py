"""How fast a pipeline goes over a dataset, and how much memory it takes, beside a plain copy.

    make bench-postprocess        (or: .venv/bin/python benchmarks/postprocess.py [--quick])

Datasets of 1,000 and of 5,000 episodes, of six steps with a screenshot of 20 kB each, in a folder
and in a bucket of `rclone serve s3`. Each line is a process of its own, so that its peak of memory
is its own: what it takes after the imports, at most (RSS).

* `copy`: `webtraj.datasets.transfer.copy`, files byte for byte: the limit.
* `note`: one step that writes a word into each episode; so all are decoded and encoded again.
* `default`: clean, drop-no-effect, prune-loops, as `webtraj postprocess` runs them with no model.
* `slow`: a step that waits for 50 ms, as a model does, at 32 episodes at a time.

Limits: `note` goes at no less than a fifth of the speed of `copy`; no line takes more than 64 MB
more memory for 5,000 episodes than for 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from webtraj.datasets import transfer
from webtraj.datasets.writer import DatasetWriter
from webtraj.processing.base import Changed
from webtraj.processing.configuration import default_steps, make_pipeline
from webtraj.processing.pipeline import Pipeline, process
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

STEPS = 6
SHOT = 20_000
WHAT = ("copy", "note", "default", "slow")
AT_LEAST = 0.2
AT_MOST = 64


class Note:
    """Writes a word into each episode."""

    name, version = "note", "1"
    settings: dict[str, Any] = {}  # noqa: RUF012

    def __call__(self, trajectory: EpisodeTrajectory) -> Changed:
        info = dataclasses.replace(trajectory.info, metadata={"note": "seen"})
        return Changed((dataclasses.replace(trajectory, info=info),))


class Slow(Note):
    """Waits as long as a model takes."""

    name = "slow"

    async def __call__(self, trajectory: EpisodeTrajectory) -> Changed:  # type: ignore[override]
        await asyncio.sleep(0.05)
        return super().__call__(trajectory)


def make_episode(number: int) -> EpisodeTrajectory:
    """Returns an episode of a browser in which every step has another page and picture."""
    steps = []
    for index in range(STEPS + 1):
        seed = (number * 100 + index).to_bytes(4, "big")
        seen = {
            "screenshot": b"\xff\xd8\xff" + seed * (SHOT // 4),
            "axtree": f"[1] button 'Go {number}'\n[2] text 'page {index}'\n" * 40,
            "url": f"http://shop.test/{number}/{index}",
        }
        if index == 0:
            steps.append(StepRecord(0, StepType.FIRST, seen))
            continue
        kind = StepType.LAST if index == STEPS else StepType.MID
        steps.append(StepRecord(index, kind, seen, "click('1')", 0.0, float(index < STEPS)))
    return EpisodeTrajectory(
        EpisodeInfo(episode_id=f"e{number:06}", task=f"t{number % 10}", goal="Go on."),
        tuple(steps),
        EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS),
        start_time=1000.0 + number,
        end_time=1001.0 + number,
    )


def measure(what: str, read: str, write: str, options: dict[str, Any] | None) -> None:
    """Does one thing once, in this process; prints seconds and megabytes."""
    pipelines = {
        "note": lambda: Pipeline([Note()]),
        "slow": lambda: Pipeline([Slow()]),
        "default": lambda: make_pipeline(default_steps(with_model=False)),
    }
    pipeline = None if what == "copy" else pipelines[what]()
    before = peak()
    start = time.perf_counter()
    if pipeline is None:
        report = transfer.copy(read, write, source_options=options, target_options=options)
        done = len(report.added)
    else:
        parallel = 32 if what == "slow" else 8
        made = process(
            read, write, pipeline, parallel=parallel, read_options=options, write_options=options
        )
        done = asyncio.run(made).outputs
    seconds = time.perf_counter() - start
    print(json.dumps({"episodes": done, "seconds": seconds, "megabytes": peak() - before}))


def peak() -> float:
    """Returns the most memory that this process has had, in MB; not its parent's before it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def in_a_process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(place: str, options: dict[str, Any] | None, sizes: tuple[int, ...]) -> list[str]:
    """Measures all in one place, and prints a table; returns which limits are not kept."""
    title = "a folder" if options is None else "rclone serve s3"
    told = json.dumps(options)
    failures: list[str] = []
    rates: dict[str, list[float]] = {what: [] for what in WHAT}
    memory: dict[str, list[float]] = {what: [] for what in WHAT}
    for size in sizes:
        raw = f"{place}/raw-{size}"
        with DatasetWriter(raw, storage_options=options) as writer:
            for number in range(size):
                writer.add(make_episode(number))
        for what in WHAT:
            found = in_a_process(what, raw, f"{place}/{what}-{size}", told)
            if found["episodes"] != size:
                failures.append(f"{title}: {what} made {found['episodes']} of {size} episodes")
            rates[what].append(size / found["seconds"])
            memory[what].append(found["megabytes"])
    table = Table(title=title)
    for heading in ("what", *(f"{size:,} episodes/s" for size in sizes), "of copy"):
        table.add_column(heading)
    for size in sizes:
        table.add_column(f"MB at {size:,}")
    for what, speeds in rates.items():
        share = speeds[-1] / rates["copy"][-1]
        numbers = (*(f"{speed:.0f}" for speed in speeds), f"{share:.0%}")
        table.add_row(what, *numbers, *(f"{megabytes:.0f}" for megabytes in memory[what]))
        if what == "note" and share < AT_LEAST:
            failures.append(f"{title}: {what} goes at {share:.0%} of copy")
        if memory[what][-1] - memory[what][0] > AT_MOST:
            failures.append(f"{title}: {what} takes more for more episodes")
    Console().print(table)
    return failures


def main(sizes: tuple[int, ...], only: str | None) -> int:
    from bucket_servers import S3Server

    failures: list[str] = []
    if only != "bucket":
        with tempfile.TemporaryDirectory() as folder:
            failures += compare(folder, None, sizes)
    if only != "folder":
        server = S3Server("rclone")
        server.start()
        try:
            failures += compare(server.make_bucket(), server.options(), sizes)
        finally:
            server.close()
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer episodes")
    parser.add_argument("--episodes", type=int, default=5000, help="of the larger dataset")
    parser.add_argument("--only", choices=("folder", "bucket"), help="in one place alone")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        name, source, target, options_text = given.measure
        measure(name, source, target, json.loads(options_text))
    else:
        most = 300 if given.quick else given.episodes
        sys.exit(main((most // 5, most), given.only))
