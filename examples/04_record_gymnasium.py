"""Records a Gymnasium environment.

Prerequisites: the extra `gymnasium`.
Run:           python examples/04_record_gymnasium.py [FOLDER]
"""

import asyncio
import sys

import gymnasium

import webtraj


async def main(folder: str) -> None:
    async with webtraj.JsonTrajectoryCollector(folder) as collector:
        inner = webtraj.from_gymnasium(gymnasium.make("CartPole-v1"), seed=1)
        async with webtraj.TrajectoryCollectingEnvironment(inner, collector) as env:
            timestep = await env.reset()
            step = 0
            while not timestep.last():
                timestep = await env.step(step % 2)
                step += 1

    trajectory = webtraj.open_dataset(folder)[-1]
    print(f"{trajectory.info.task or trajectory.info.environment}: ", end="")
    print(f"{trajectory.num_steps} steps, {trajectory.end_reason.name}")
    print("last observation:", trajectory.steps[-1].observation)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "runs/cartpole"))
