"""Plays on an OpenEnv server through verifiers; run in an environment that has it.

    .venv-verifiers/bin/python verifiers_client.py URL

Tasks, episode loop, reading of actions and client are verifiers' own. The player is scripted.
"""

import asyncio
import contextlib
import json
import re
import sys
import types


class Player:
    """Clicks the page's first button, in place of a model."""

    def __init__(self):
        self.reward = None
        self.trace = types.SimpleNamespace(record_reward=self._record, stop=print)

    def _record(self, name, reward):
        self.reward = reward

    @contextlib.asynccontextmanager
    async def interaction(self, task):
        yield self

    async def turn(self, message):
        page = json.loads(message)["observation"]["page"]
        ref = re.search(r"\[(\w+)\] button", page)[1]
        reply = f"Thought: a button.\nAction: click('{ref}')"
        return types.SimpleNamespace(last_reply=reply, terminated=False)


async def main(url):
    import openenv
    from verifiers.v1.tasksets import openenv as tasksets

    resets = [{"seed": seed, "task": "click-test", "group_id": "verifiers"} for seed in range(3)]
    config = tasksets.OpenEnvConfig(id="openenv", base_url=url, resets=resets)
    environment = tasksets.OpenEnvEnv(tasksets.OpenEnvEnvConfig(taskset=config))
    rewards = []
    for task in environment.taskset.load():
        player = Player()
        await environment.run(task, types.SimpleNamespace(player=player))
        rewards.append(player.reward)
    print(json.dumps({"openenv": openenv.__version__, "rewards": rewards}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
