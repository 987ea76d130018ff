"""Kills a recording process in the middle of an episode, and recovers the episode.

Prerequisites: none beyond webtraj itself.
Run:           python examples/05_survive_a_crash.py [FOLDER]
"""

import asyncio
import os
import signal
import subprocess
import sys

import dm_env

import webtraj
from webtraj.datasets.recovery import recover


class Doomed:
    """Kills its own process, without any warning, on the fourth action."""

    async def reset(self) -> dm_env.TimeStep:
        self._steps = 0
        return dm_env.restart({"page": "first"})

    async def step(self, action: str) -> dm_env.TimeStep:
        self._steps += 1
        if self._steps == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return dm_env.transition(reward=0.0, observation={"page": f"after {action}"})

    async def close(self) -> None:
        pass


async def record(folder: str) -> None:
    collector = webtraj.JsonTrajectoryCollector(folder)
    env = webtraj.TrajectoryCollectingEnvironment(Doomed(), collector)
    await env.reset()
    for number in range(1, 10):
        await env.step(f"click {number}")


def main(folder: str) -> None:
    died = subprocess.run([sys.executable, __file__, folder, "record"], check=False)
    print(f"the recording process died of signal {-died.returncode}")
    recover(folder)
    trajectory = webtraj.open_dataset(folder)[-1]
    print(f"{trajectory.num_steps} steps are kept, {trajectory.end_reason.name};", end=" ")
    print(f"in flight was: {trajectory.end and trajectory.end.in_flight_action}")


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "runs/doomed"
    if sys.argv[2:] == ["record"]:
        asyncio.run(record(target))
    else:
        main(target)
