"""A phase of a loop: records episodes of two tasks, more of them successes with each iteration.

Usage: python record_iteration.py FOLDER
"""

import sys

from webtraj.datasets.writer import DatasetWriter
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

TASKS = ("shop/easy", "shop/hard")
EPISODES = 3


def episode(episode_id, task, outcome):
    """Returns an episode of one step."""
    reason = EndReason.ERRORED if outcome is Outcome.ENV_ERROR else EndReason.TERMINATED
    return EpisodeTrajectory(
        EpisodeInfo(episode_id=episode_id, task=task, goal=f"Do {task}.", policy="p"),
        (
            StepRecord(0, StepType.FIRST, "page"),
            StepRecord(1, StepType.LAST, "page", "noop()", 1.0, 0.0),
        ),
        EpisodeEnd(reason=reason, outcome=outcome),
        start_time=1000.0,
        end_time=1001.0,
    )


def record(folder, number, tasks=TASKS, *, better=0, episodes=EPISODES):
    """Records an iteration, an episode of each task that broke included."""
    with DatasetWriter(folder) as writer:
        for place, task in enumerate(tasks):
            solved = min(max(number + better - place, 0), episodes)
            for n in range(episodes):
                outcome = Outcome.SUCCESS if n < solved else Outcome.FAILURE
                writer.add(episode(f"e{place}-{n}", task, outcome))
            writer.add(episode(f"e{place}-broken", task, Outcome.ENV_ERROR))
    return str(folder)


if __name__ == "__main__":
    record(sys.argv[1], int(sys.argv[1].rpartition("_")[2]))
