"""Every oracle solves 20 of 20 episodes."""

import pytest

from webtraj.environments.miniwob import MiniwobEnvironment, oracles

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = 20
MOST_STEPS = 40
"""Some goals ask for more than the ten actions of an ordinary episode."""


@pytest.mark.parametrize("task", oracles.solved_tasks())
async def test_oracle_solves_every_seed(pool, task):
    unsolved = {}
    async with MiniwobEnvironment(
        task, pool=pool, observe=("goal", "last_action", "info"), max_steps=MOST_STEPS
    ) as environment:
        for seed in range(SEEDS):
            timestep = await environment.reset()
            while not timestep.last():
                action = await environment.cheat()
                if action is None:
                    unsolved[seed] = f"knows no further: {timestep.observation['goal']}"
                    break
                timestep = await environment.step(action)
                if not timestep.last():  # The page of a finished episode may tear itself down.
                    error = timestep.observation["last_action"]["error"]
                    assert error == "", f"seed {seed}: {action!r}"
            else:
                if timestep.reward < 1:
                    unsolved[seed] = f"{timestep.reward}: {timestep.observation['goal']}"
    assert unsolved == {}
