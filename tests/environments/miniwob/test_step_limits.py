"""After how many steps an episode is truncated: the task says so, unless the caller does."""

import pytest

from webtraj.environments.miniwob import MiniwobEnvironment
from webtraj.environments.miniwob.tasks import MAX_STEPS

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEEDS = {
    "click-checkboxes-large": range(3),
    "hot-cold": range(8),
    "number-checkboxes": range(3),
    "social-media-all": range(3),
}


async def solve(environment):
    """Plays an episode by its oracle; returns its last timestep and how many steps it took."""
    timestep, steps = await environment.reset(), 0
    while not timestep.last():
        timestep = await environment.step(await environment.cheat())
        steps += 1
    return timestep, steps


@pytest.mark.browser
@pytest.mark.parametrize("task", sorted(MAX_STEPS))
async def test_an_oracle_solves_a_long_task_by_default(play, task):
    environment = play(task)
    most = 0
    for seed in SEEDS[task]:
        environment.set_seed(seed)
        timestep, steps = await solve(environment)
        assert (timestep.reward, timestep.discount) == (1.0, 0.0), seed
        most = max(most, steps)
    assert most <= MAX_STEPS[task]


@pytest.mark.parametrize(
    ("options", "limit"),
    [({}, 20), ({"max_steps": 3}, 3), ({"max_steps": None}, None), ({"max_steps": "task"}, 20)],
    ids=["default", "number", "none", "task"],
)
async def test_the_callers_limit_outweighs_the_tasks(options, limit):
    assert MiniwobEnvironment("hot-cold", **options).max_steps == limit
