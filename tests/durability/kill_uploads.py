"""Kills processes that collect into a bucket, and checks what recovery and pushing bring there.

Run as a script: `python kill_uploads.py RUNS SEED FOLDER URL FORMAT`, with the options of the
storage, as JSON, on standard input. It prints one JSON object.

Who records is killed at a named moment (see `kill_runs`), and in some runs who recovers and pushes
is, too. Each is a new process, forked from a warm one which itself never talks to the bucket.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kill_runs
import obstore.store  # noqa: F401  (So that each forked process has it loaded.)

import webtraj
import webtraj.store.bucket
from webtraj.collectors.bucket import S3TrajectoryCollector
from webtraj.collectors.spool import Spool
from webtraj.datasets.recovery import recover
from webtraj.datasets.transfer import push
from webtraj.store.places import open_storage


def forked(call: Callable[[], Any]) -> tuple[int, int]:
    """Runs a call in a new process; returns its id, and a pipe with what it returned, as JSON."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(call()).encode())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    os.close(writer)
    return pid, reader


def result_of(call: Callable[[], Any]) -> Any:
    """Returns what a call returns in a new process."""
    pid, reader = forked(call)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return json.loads(said)


def killed(call: Callable[[], Any], number: int, folder: Path) -> bool:
    """Has a new process kill itself at a moment; returns whether it had not ended by then."""

    def doomed() -> Any:
        kill_runs.killed_at(number, folder)
        return call()

    pid, reader = forked(doomed)
    _, status = os.waitpid(pid, 0)
    os.close(reader)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def run(folder: Path, seed: int, url: str, format_name: str, options: dict[str, Any]) -> Any:
    rng = random.Random(seed)
    make = functools.partial(
        S3TrajectoryCollector,
        url,
        format=format_name,
        spool=folder,
        storage_options=options,
        fsync="never",  # A killed process loses nothing of what the kernel has.
        index_interval=rng.choice([0.0, 0.01, 0.1]),
    )
    told = kill_runs.life(make, seed, folder, longest=2000)
    if not (folder / "dataset.json").exists():
        assert not told
        return {"episodes": 0}
    counts = collections.Counter(result_of(lambda: census(folder, url, format_name, options)))

    def mend() -> bool:
        recover(folder)
        return push(folder, storage_options=options).complete

    if rng.random() < 0.3:
        counts["pushes_killed"] += killed(mend, rng.randint(1, 60), folder)
    assert result_of(mend)
    counts.update(result_of(lambda: check(folder, url, told, options)))
    return counts


def census(folder: Path, url: str, format_name: str, options: dict[str, Any]) -> dict[str, int]:
    """Counts how far the episodes had come when who recorded them was killed."""
    keys = [entry.key for entry in open_storage(url, options).list()]
    stored = {key.rpartition("/")[2] for key in keys if key.startswith("episodes/")}
    waiting = {f"{name}.{format_name}" for name in Spool(folder, format_name).list_waiting()}
    return {
        "in_the_spool": len(waiting - stored),
        "not_in_the_index": len(waiting & stored),
        "in_the_bucket": len(stored - waiting),
    }


def check(folder: Path, url: str, told: str, options: dict[str, Any]) -> dict[str, int]:
    # Half-written files have names with a dot; whose they are, nobody can tell.
    left = {path.name for path in folder.rglob("[!.]*") if path.is_file()}
    assert left <= {"dataset.json", "spool.json"}, left
    if not told and open_storage(url, options).size("dataset.json") is None:
        return {"episodes": 0}
    indexed = webtraj.open_dataset(url, storage_options=options).episode_ids
    keys = [entry.key for entry in open_storage(url, options).list("episodes/")]
    assert len(indexed) == len(keys)
    return kill_runs.compare(webtraj.open_dataset(url, storage_options=options), told)


def main() -> None:
    runs, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    url, format_name = sys.argv[4], sys.argv[5]
    options = json.load(sys.stdin)
    totals: collections.Counter[str] = collections.Counter()
    for number in range(runs):
        name = f"run{number}"
        totals.update(run(folder / name, seed + number, f"{url}/{name}", format_name, options))
        totals["runs"] += 1
    print(json.dumps(totals))


if __name__ == "__main__":
    main()
