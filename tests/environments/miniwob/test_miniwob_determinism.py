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


@pytest.mark.slow
@pytest.mark.parametrize("first_letters", ["ab", "c", "de", "f", "ghijklm", "nopqr", "stuvwxyz"])
async def test_an_episode_begins_the_same_after_another_was_played(play, first_letters):
    tasks = [task for task in TASKS if task[0] in first_letters]
    environment = play(tasks)
    for task in tasks:
        environment = play(task)
        before = await snapshot(environment, task)
        assert before[0], task
        assert refs_in(before[1]), task
        for element in refs_in(before[1])[:_CLICKS]:
            if (await environment.step(Click(element.ref))).last():
                break
        assert await snapshot(environment, task) == before, task
        await environment.close()


@pytest.mark.slow
@pytest.mark.parametrize("first_letters", ["ab", "c", "de", "f", "ghijklm", "nopqr", "stuvwxyz"])
async def test_a_page_that_another_task_left_is_like_a_fresh_one(play, pool, first_letters):
    tasks = [task for task in TASKS if task[0] in first_letters]
    for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        await pool.forget_parked()
        fresh = play(task)
        expected = await snapshot(fresh, task)
        await fresh.close()
        await pool.forget_parked()
        used = play(other)
        made = _contexts_made(pool)
        for element in refs_in((await used.reset()).observation["axtree"])[:_CLICKS]:
            if (await used.step(Click(element.ref))).last():
                break
        await used.close()
        passed_on = play(task)
        assert await snapshot(passed_on, task) == expected, (other, task)
        assert _contexts_made(pool) == made + 1
        await passed_on.close()


def _contexts_made(pool):
    return sum(browser.contexts_made for browser in pool._slots)
