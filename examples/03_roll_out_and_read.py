"""Rolls an agent out over two tasks, then reads what was recorded.

Prerequisites: the extra `web`, and a browser (`webtraj doctor` says how to get one).
Run:           python examples/03_roll_out_and_read.py [FOLDER]
"""

import asyncio
import sys

import webtraj
from webtraj.rollouts import RunSpec, collect


def main(folder: str) -> None:
    asyncio.run(
        collect(
            RunSpec(
                preset=["miniwob/click-test", "miniwob/enter-text"],
                agent="oracle",
                episodes=8,
                parallel=4,
                out=folder,
            )
        )
    )

    dataset = webtraj.open_dataset(folder)
    for summary in dataset.filter(task="miniwob/enter-text", outcome="success").summaries:
        print(summary.episode_id, summary.num_steps, summary.total_reward)

    for transition in dataset[-1].transitions():
        print(transition.action, "->", transition.reward)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/oracle")
