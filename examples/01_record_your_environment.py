"""Records an environment of your own.

Prerequisites: none beyond webtraj itself.
Run:           python examples/01_record_your_environment.py [FOLDER]
"""

import asyncio
import sys

import dm_env
import numpy as np

import webtraj


class Corridor:
    """Five cells; the last one holds the reward. Any dm_env-shaped class will do, async or not."""

    async def reset(self) -> dm_env.TimeStep:
        self._cell = 0
        return dm_env.restart(self._observe())

    async def step(self, action: str) -> dm_env.TimeStep:
        self._cell = max(0, self._cell + (1 if action == "right" else -1))
        if self._cell == 4:
            return dm_env.termination(reward=1.0, observation=self._observe())
        return dm_env.transition(reward=0.0, observation=self._observe())

    async def close(self) -> None:
        pass

    def _observe(self) -> dict[str, object]:
        return {"cell": self._cell, "picture": np.eye(5, dtype=np.uint8)[self._cell]}


async def main(folder: str) -> None:
    async with webtraj.JsonTrajectoryCollector(folder) as collector:
        info = webtraj.EpisodeInfo(task="corridor", policy="always right")
        env = webtraj.TrajectoryCollectingEnvironment(Corridor(), collector, episode_info=info)
        async with env:
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step("right")
            await env.reset()
            await env.step("left")  # An episode that is cut short is kept as well.

    for trajectory in webtraj.open_dataset(folder):
        print(f"{trajectory.end_reason.name}: {trajectory.num_steps} steps, ", end="")
        print(f"reward {trajectory.total_reward}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "runs/corridor"))
