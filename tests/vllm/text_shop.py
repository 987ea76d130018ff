"""A page of text with buttons, one of which is to be pressed, and who plays it: no browser."""

import random

import dm_env

from webtraj import EpisodeInfo, JsonTrajectoryCollector, TrajectoryCollectingEnvironment
from webtraj.environments import actions

NAMES = ("Save", "Cancel", "Search", "Delete", "Reply", "Print", "Share", "Undo")
CLAIM = "I have pressed it."
POLICIES = ("right", "right", "right", "wrong", "claiming", "idle")
"""Half of the episodes are successes."""


class Shop:
    """Ends when a button is pressed or an answer is given, and is cut off after two steps."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = self.random.sample(NAMES, 4)
        self.wanted = self.random.choice(self.names)
        self.pressed = None
        self.steps = 0

    @property
    def goal(self):
        return f'Press the button "{self.wanted}".'

    async def reset(self):
        return dm_env.restart(self.seen(None))

    async def step(self, action):
        self.steps += 1
        if isinstance(action, actions.Click):
            self.pressed = self.names[int(action.ref) - 1]
        observation = self.seen(action)
        if self.pressed or isinstance(action, actions.Answer):
            return dm_env.termination(float(self.pressed == self.wanted), observation)
        if self.steps == 2:
            return dm_env.truncation(0.0, observation)
        return dm_env.transition(0.0, observation)

    async def close(self):
        pass

    def seen(self, action):
        buttons = [f'[{n}] button "{name}"' for n, name in enumerate(self.names, 1)]
        said = f'You have pressed "{self.pressed}".' if self.pressed else "Nothing is pressed."
        seen = {"url": "http://shop.test/", "axtree": "\n".join([*buttons, said])}
        if isinstance(action, actions.Click):
            seen["last_action"] = {"role": "button", "name": self.pressed}
        return seen

    def action(self, policy):
        others = [name for name in self.names if name != self.wanted]
        match policy:
            case "claiming":
                return actions.Answer(CLAIM)
            case "idle":
                return actions.Wait()
        name = self.wanted if policy == "right" else self.random.choice(others)
        return actions.Click(str(1 + self.names.index(name)))


async def play(folder, seeds):
    """Plays an episode for each seed."""
    async with JsonTrajectoryCollector(folder, fsync="never") as collector:
        for seed in seeds:
            shop, policy = Shop(seed), POLICIES[seed % len(POLICIES)]
            info = EpisodeInfo(
                episode_id=f"{policy}-{seed}", task="shop/press", goal=shop.goal, seed=seed
            )
            env = TrajectoryCollectingEnvironment(
                shop, collector, episode_info=lambda info=info: info
            )
            async with env:
                timestep = await env.reset()
                while not timestep.last():
                    timestep = await env.step(shop.action(policy))
