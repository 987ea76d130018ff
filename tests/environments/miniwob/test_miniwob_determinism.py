"""The same task and seed give the same page, whatever was done on it before."""

import pytest

from webtraj.environments.actions import Click
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.miniwob.tasks import TASKS

pytestmark = pytest.mark.asyncio(loop_scope="module")

_CLICKS = 3

# A wheel turns as it opens, and a stock's price comes after a moment: it depends on when one looks.
_ANIMATED = {"click-pie", "click-pie-nodelay", "stock-market"}


async def snapshot(environment, task):
    environment.set_seed(7)
    observation = (await environment.reset()).observation
    html = await environment.session.page.evaluate("document.querySelector('#area').innerHTML")
    return observation["goal"], observation["axtree"], None if task in _ANIMATED else html


async def click_around(environment, axtree):
    for element in refs_in(axtree)[:_CLICKS]:
        if (await environment.step(Click(element.ref))).last():
            break


@pytest.mark.slow
@pytest.mark.parametrize("first_letters", ["ab", "c", "de", "f", "ghijklm", "nopqr", "stuvwxyz"])
async def test_an_episode_begins_the_same_whatever_was_played_before(play, pool, first_letters):
    tasks = [task for task in TASKS if task[0] in first_letters]
    fresh = {}
    for task in tasks:
        await pool.forget_parked()
        environment = play(task)
        fresh[task] = await snapshot(environment, task)
        await environment.close()
        assert fresh[task][0], task
        assert refs_in(fresh[task][1]), task
    await pool.forget_parked()
    made = _contexts_made(pool)
    for task in tasks:  # The page is that of the task before.
        environment = play(task)
        assert await snapshot(environment, task) == fresh[task], task
        await click_around(environment, fresh[task][1])
        assert await snapshot(environment, task) == fresh[task], task
        await click_around(environment, fresh[task][1])
        await environment.close()
    assert _contexts_made(pool) == made + 1


def _contexts_made(pool):
    return sum(browser.contexts_made for browser in pool._slots)


@pytest.mark.gate
async def test_a_reset_shows_nothing_of_the_episode_before(play, pool):
    for task in ("use-autocomplete", "choose-date"):
        await pool.forget_parked()
        environment = play(task)
        fresh = await snapshot(environment, task)
        await environment.close()
        environment = play(task, seed=3)
        timestep = await environment.reset()
        while not timestep.last():
            timestep = await environment.step(await environment.cheat())
        assert await snapshot(environment, task) == fresh, task
