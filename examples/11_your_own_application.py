"""Plays an application of one's own, which lies beside this file: a list of errands.

Prerequisites: the extra `web`, and a browser (`webtraj doctor` says how to get one).
Run:           python examples/11_your_own_application.py [FOLDER]
"""

import asyncio
import sys
from pathlib import Path

import webtraj
from webtraj.rollouts import collect

sys.path.insert(0, str(Path(__file__).parent / "own_application"))
import errands


def main(folder: str) -> None:
    errands.APP.install(print)
    asyncio.run(collect("apps/errands/all", "oracle", episodes=6, parallel=3, out=folder))
    for summary in webtraj.open_dataset(folder).summaries:
        print(summary.task, summary.seed, summary.num_steps, summary.outcome)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["runs/11"])
