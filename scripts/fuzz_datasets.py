"""Read hostile and damaged datasets by every command; no answer may be a traceback.

    python scripts/fuzz_datasets.py [--seed 0] [--count 300] [--command-line]

Each seed from `--seed` on makes one dataset; `tests/support/foreign_datasets.py` says how. All
commands read it in this process, which may use 4 GiB. With `--command-line`, one command reads it,
each in its turn, in a process of its own. The script prints how often each command had each kind of
answer, and exits with 1 if any had a traceback, a bug's error or a terminal's escape.
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib.metadata
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/support"))

import foreign_datasets

MEMORY = 4 << 30
"""Address space, in bytes."""


def main() -> int:
    """Try the datasets, print the counts, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="The first dataset's seed.")
    parser.add_argument("--count", type=int, default=300, help="How many datasets to read.")
    parser.add_argument("--command-line", action="store_true", help="Read by the command line.")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # The commands ask for the installed plugins each time, which takes longer than most reads.
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    faults: list[str] = []
    began = time.monotonic()
    for number in range(given.seed, given.seed + given.count):
        with tempfile.TemporaryDirectory() as folder:
            place, out = Path(folder, "dataset"), Path(folder, "out")
            out.mkdir()
            os.chdir(out)
            foreign_datasets.make(place, number)
            if given.command_line:
                answers, wrong = foreign_datasets.run_one(place, out, number)
            else:
                answers, wrong = foreign_datasets.read_all(place, out)
            os.chdir("/")
        counts.update(answers)
        for fault in wrong:
            print(f"seed {number}: {fault}", flush=True)
        faults += wrong
    table = collections.defaultdict[str, list[str]](list)
    for (said, kind), count in sorted(counts.items()):
        table[said].append(f"{count} {kind}")
    for said, kinds in table.items():
        print(f"{said:28} {', '.join(kinds)}")
    seconds = time.monotonic() - began
    print(
        f"{given.count} datasets, {counts.total()} answers, {len(faults)} faults, {seconds:.0f} s"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
