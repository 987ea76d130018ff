"""Plays an application of another package, own_application beside this file: a list of errands.

Prerequisites: pip install --editable examples/own_application, and a browser (`webtraj doctor` says
               how to get one).
Run:           python examples/08_your_own_application.py [FOLDER]
"""

import asyncio
import sys

import webtraj
from webtraj.rollouts import RunSpec, collect
from webtraj_apps import find_app


def main(folder: str) -> None:
    find_app("errands").install(print)
    asyncio.run(
        collect(
            RunSpec(preset=["apps/errands/all"], agent="oracle", episodes=6, parallel=3, out=folder)
        )
    )
    for summary in webtraj.open_dataset(folder).summaries:
        print(summary.task, summary.seed, summary.num_steps, summary.outcome)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["runs/08"])
