"""After how many steps an episode is truncated: the task says so, unless the caller does."""

import pytest

from webtraj import WebTask, errors
from webtraj.environments.browser.environment import BrowserEnvironment, make_web_environment
from webtraj.environments.miniwob import MiniwobEnvironment
from webtraj.environments.miniwob.tasks import MAX_STEPS, TASKS

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


def web_task(**fields):
    return WebTask(goal="Look.", start_url="about:blank", **fields)


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


@pytest.mark.browser
async def test_a_long_task_does_ask_for_more_than_ten_steps(play):
    timestep, steps = await solve(play("number-checkboxes", max_steps=10, seed=0))
    assert (timestep.discount, steps) == (1.0, 10)


async def test_every_limit_is_of_a_task_that_there_is():
    assert set(MAX_STEPS) <= set(TASKS)
    assert all(limit > 10 for limit in MAX_STEPS.values())


@pytest.mark.browser
async def test_each_of_several_tasks_has_its_own_limit(play):
    environment = play(["click-test", "hot-cold"])
    limits = []
    for _ in range(3):
        await environment.reset()
        limits.append(environment.max_steps)
    assert limits == [10, 20, 10]


@pytest.mark.parametrize(
    ("options", "limit"),
    [({}, 20), ({"max_steps": 3}, 3), ({"max_steps": None}, None), ({"max_steps": "task"}, 20)],
    ids=["default", "number", "none", "task"],
)
async def test_the_callers_limit_outweighs_the_tasks(options, limit):
    assert MiniwobEnvironment("hot-cold", **options).max_steps == limit


@pytest.mark.parametrize(
    ("own", "options", "limit"),
    [
        (None, {}, 30),
        (70, {}, 70),
        (5, {}, 5),
        (70, {"max_steps": 12}, 12),
        (70, {"max_steps": None}, None),
    ],
)
async def test_a_web_tasks_limit_outweighs_the_presets(own, options, limit):
    environment = make_web_environment(task=web_task(max_steps=own), **options)
    assert environment.max_steps == limit


async def test_a_task_without_a_limit_has_none():
    assert BrowserEnvironment(web_task()).max_steps is None
    assert BrowserEnvironment(web_task(), default_max_steps=9).max_steps == 9


@pytest.mark.browser
async def test_a_limit_can_be_set_later(play):
    environment = play("click-test")
    environment.set_max_steps(2)
    await environment.reset()
    assert not (await environment.step("noop()")).last()
    timestep = await environment.step("noop()")
    assert timestep.last()
    assert timestep.discount == 1.0


@pytest.mark.parametrize("limit", [0, -1, 1.5, "many"])
async def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(errors.InvalidInputError, match="max_steps must be at least 1"):
        BrowserEnvironment(web_task()).set_max_steps(limit)
