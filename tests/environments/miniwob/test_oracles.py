"""Every oracle solves its task, whatever the seed."""

import asyncio
import os

import pytest

from webtraj.environments.miniwob import MiniwobEnvironment, oracles

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = int(os.environ.get("WEBTRAJ_ORACLE_SEEDS", "1"))
"""`make test-slow` asks for twenty."""
PAGES = 4
"""Played at once, since most of the time goes into waiting for pages."""
MOST_STEPS = 40
"""Some goals ask for more than the ten actions of an ordinary episode."""


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("task", oracles.list_solved_tasks())
async def test_oracle_solves_every_seed(pool, task):
    seeds = range(SEEDS)
    failures = await asyncio.gather(
        *(play_through(pool, task, seeds[page::PAGES]) for page in range(PAGES))
    )
    assert [failure for found in failures for failure in found] == []


async def play_through(pool, task, seeds):
    """Plays one episode a seed in one page, and returns what went wrong."""
    failures = []
    async with MiniwobEnvironment(
        task, pool=pool, observe=("goal", "last_action", "info"), max_steps=MOST_STEPS
    ) as environment:
        for seed in seeds:
            environment.set_seed(seed)
            timestep = await environment.reset()
            error = await solve(environment, timestep)
            if error:
                failures.append(f"seed {seed}, {timestep.observation['goal']!r}: {error}")
    return failures


async def solve(environment, timestep):
    """Plays an episode to its end, and returns what went wrong, if anything did."""
    while not timestep.last():
        action = await environment.cheat()
        if action is None:
            return "knows no further"
        timestep = await environment.step(action)
        error = timestep.observation["last_action"]["error"]
        if error and not timestep.last():  # The page of a finished episode may tear itself down.
            return f"{action!r}: {error}"
    return "" if timestep.reward >= 1 else f"reward {timestep.reward}"
