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
