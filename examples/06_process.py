"""Makes a processed dataset of a recorded one, with a step of its own in ten lines.

Prerequisites: none.
Run:           python examples/06_process.py [FOLDER]
"""

import asyncio
import sys
from pathlib import Path

import webtraj
from webtraj.processing import Drop, Pipeline, make_step, process, step
from webtraj.testing import fakes


@step("only-rewarded", version="1")
def only_rewarded(
    trajectory: webtraj.EpisodeTrajectory, *, least: float = 0.0
) -> webtraj.EpisodeTrajectory | Drop:
    """Keeps what has more reward than that."""
    if (trajectory.total_reward or 0.0) > least:  # None if it was not scored.
        return trajectory
    return Drop("too little reward", f"{trajectory.total_reward}")


async def record(folder: Path) -> None:
    async with webtraj.JsonTrajectoryCollector(folder) as collector:
        info = webtraj.EpisodeInfo(task="catch", goal="Catch the ball")
        env = webtraj.TrajectoryCollectingEnvironment(
            fakes.CatchEnvironment(), collector, episode_info=info
        )
        for action in (0, 1, 2, 0, 1, 2):
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step(action)
        await env.close()


async def main(folder: Path) -> None:
    await record(folder)
    pipeline = Pipeline([make_step("clean"), only_rewarded(least=0.0)])
    # Run again, it does what is new; killed, it goes on. The recorded dataset is never changed.
    processed = folder.with_name(f"{folder.name}-processed")
    report = await process(folder, processed, pipeline)
    for one in report.steps:
        print(f"{one.name}: {one.kept} of {one.seen} kept, dropped {dict(one.dropped)}")
    for trajectory in webtraj.open_dataset(processed):
        done = [derivation.step for derivation in trajectory.info.derivation]
        print(trajectory.episode_id, trajectory.total_reward, done)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/catch")))
