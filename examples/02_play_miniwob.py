"""Plays a MiniWoB++ task in a real browser, by hand, and records it.

Prerequisites: the extra `web`, and a browser (`webtraj doctor` says how to get one).
Run:           python examples/02_play_miniwob.py [FOLDER]
"""

import asyncio
import sys

import webtraj
from webtraj.environments.browser import refs_in


async def main(folder: str) -> None:
    async with (
        webtraj.JsonTrajectoryCollector(folder) as collector,
        webtraj.make("miniwob/click-button", trajectory_collector=collector, seed=3) as env,
    ):
        timestep = await env.reset()
        print(timestep.observation["goal"])
        print(timestep.observation["axtree"])

        # The goal names a button; find it by its name and click it by its ref.
        wanted = timestep.observation["goal"].split('"')[1]
        button = next(
            element
            for element in refs_in(timestep.observation["axtree"])
            if element.role == "button" and element.name == wanted
        )
        timestep = await env.step(f"click('{button.ref}')")
        print(f"reward {timestep.reward}, {timestep.step_type.name}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "runs/by-hand"))
