"""Read hostile and damaged datasets by every command; no answer may be a traceback.

    python scripts/fuzz_datasets.py [--seed 0] [--count 300] [--log FILE] [--command-line]

Each seed from `--seed` on makes one dataset; `tests/support/foreign_datasets.py` says how. All
commands read it in this process, which may use 4 GiB. With `--command-line`, one command reads it,
each in its turn, as a process of its own that is forked from this one. The script prints how often
each command had each kind of answer, and exits with 1 if any had a traceback, a bug's error or a
terminal's escape.

`--log` keeps a line for each dataset: a run that was ended goes on where it was, and several runs
with parts of the seeds can share a log.

A command is made once in the process, because that takes long and reads nothing.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import resource
import sys
import tempfile
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/support"))

import foreign_datasets
from webtraj.cli import app

MEMORY = 4 << 30
"""Address space, in bytes."""
SHARED_MEMORY = Path("/dev/shm")
"""Where the datasets are made, if it is there: no disk is synced."""


def main() -> int:
    """Try the datasets, print the counts, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="The first dataset's seed.")
    parser.add_argument("--count", type=int, default=300, help="How many datasets to read.")
    parser.add_argument("--log", type=Path, help="Keep a line for each dataset here.")
    parser.add_argument("--command-line", action="store_true", help="Read by the command line.")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    app.make_command = functools.cache(app.make_command)
    log = given.log and given.log.resolve()
    tried = dict(map(orjson.loads, log.read_bytes().splitlines())) if log and log.exists() else {}
    for number in range(given.seed, given.seed + given.count):
        if number in tried:
            continue
        answers, faults = tried[number] = _try(number, by_processes=given.command_line)
        for fault in faults:
            print(f"seed {number}: {fault}", flush=True)
        if log:
            with log.open("ab") as file:
                file.write(orjson.dumps([number, [answers, faults]]) + b"\n")
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for answers, _ in tried.values():
        counts.update({(said, kind): count for said, kind, count in answers})
    kinds: collections.Counter[str] = collections.Counter()
    for said in sorted({said for said, _ in counts}):
        of_one = {kind: count for (other, kind), count in counts.items() if other == said}
        kinds.update(of_one)
        print(f"{said:28} {', '.join(f'{of_one[kind]} {kind}' for kind in sorted(of_one))}")
    wrong = sum(len(faults) for _, faults in tried.values())
    print(f"{len(tried)} datasets, {counts.total()} answers, {wrong} faults: {dict(kinds)}")
    return 1 if wrong else 0


def _try(number: int, *, by_processes: bool) -> tuple[list[tuple[str, str, int]], list[str]]:
    """Make a dataset and read it; return the counts of answers, and the faults."""
    room = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=room) as folder, contextlib.ExitStack() as stack:
        place, out = Path(folder, "dataset"), Path(folder, "out")
        out.mkdir()
        stack.enter_context(contextlib.chdir(out))
        foreign_datasets.make(place, number)
        if by_processes:
            counts, faults = foreign_datasets.run_one(place, out, number)
        else:
            counts, faults = foreign_datasets.read_all(place, out)
    return [(*answer, count) for answer, count in counts.items()], faults


if __name__ == "__main__":
    sys.exit(main())
