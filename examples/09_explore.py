"""Explores a site without a model, and plays one of the tasks that this gives.

Prerequisites: the extra `web`, and a browser (`webtraj doctor` says how to get one).
Run:           python examples/09_explore.py [FOLDER]
"""

import asyncio
import re
import sys
from typing import Any, Self

import webtraj
from webtraj.environments.actions import Answer, Click
from webtraj.environments.browser import refs_in
from webtraj.environments.local_server import HttpServer, Request, Response
from webtraj.environments.tasks import TaskSpec
from webtraj.rollouts import RunSpec, collect, read_tasks

COARSE = {"/forum": "Read the forum.", "/products": "See what is for sale."}
PAGES = {
    "/forum": "<title>Forum</title><a href=/forum/1>My kettle squeaks</a>",
    "/forum/1": "<title>My kettle squeaks</title><p>A drop of oil helps.</p>",
    "/products": "<title>Products</title><a href=/products/1>Copper Lantern</a>",
    "/products/1": "<title>Copper Lantern</title><p>Price: 12.50</p>",
}


def shop(request: Request) -> Response:
    return Response(body=PAGES.get(request.path, "").encode())


class Opener:
    """Opens the link that the goal quotes, and is done."""

    name = "opener"
    channels = ("goal", "url", "title", "axtree", "last_action")

    def begin_episode(self, environment: webtraj.Environment) -> Self:
        return self

    async def act(self, observation: dict[str, Any]) -> webtraj.Decision:
        (wanted,) = re.findall('open "(.*)"', observation["goal"])
        links = [e for e in refs_in(observation["axtree"]) if (e.role, e.name) == ("link", wanted)]
        if links and not observation["last_action"]["ref"]:
            return webtraj.Decision(action=Click(links[0].ref))
        return webtraj.Decision(action=Answer("done"))


async def main(folder: str) -> None:
    async with HttpServer(shop) as site:
        coarse = [
            TaskSpec(name=path, goal=goal, start_url=site.origin + path, coarse=True)
            for path, goal in COARSE.items()
        ]
        spec = RunSpec(
            agent="curious", proposer="hindsight", seed=1, parallel=2, max_steps=5, out=folder
        )
        explored = await collect(spec, tasks=coarse)
        tasks = list(read_tasks(explored.proposed.tasks_place))
        for task in tasks:
            print(f"{task.metadata['kind']}: {task.goal}")
        opening = [task for task in tasks if 'open "' in task.goal][:1]
        await collect(RunSpec(out=folder), tasks=opening, agent=Opener())
    last = webtraj.open_dataset(folder)[-1]
    print(last.info.goal, "->", last.steps[-1].observation["title"])
    print("To hold:", last.info.metadata["task"]["facts"][0]["facts"][0]["description"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "runs/explored"))
