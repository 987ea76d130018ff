"""Pages that one environment leaves to the next: which, to whom, and what they cost the pool."""

import asyncio
import os
import signal

import pytest

from webtraj.environments.actions import Fill, MouseDown, MoveMouse
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.tasks import WebTask
from webtraj.environments.miniwob import MiniwobEnvironment
from webtraj.environments.miniwob.environment import MiniwobTask

pytestmark = [pytest.mark.browser]

TEXT = ("goal", "axtree", "last_action")


def play(pool, task="click-button", **options):
    return MiniwobEnvironment(task, pool=pool, **{"observe": TEXT, **options})


def made(pool):
    """Returns how many contexts the pool's browser has made."""
    return sum(browser.contexts_made for browser in pool._slots if browser is not None)


@pytest.mark.smoke
async def test_the_next_task_of_a_kind_gets_the_page_that_was_left():
    async with BrowserPool() as pool:
        for task in ("click-button", "enter-text", "click-button"):
            environment = play(pool, task)
            await environment.reset()
            assert pool.stats.leases == 1
            await environment.close()
            assert pool.stats.leases == 0
        assert made(pool) == 1
        one, other = play(pool), play(pool, "enter-text")
        await asyncio.gather(one.reset(), other.reset())
        assert made(pool) == 2, "a page has one user at a time"
        await asyncio.gather(one.close(), other.close())


@pytest.mark.gate
async def test_nothing_is_left_in_a_page_but_the_page():
    async with BrowserPool() as pool:
        fresh = play(pool, "enter-text", seed=4)
        expected = (await fresh.reset()).observation
        await fresh.close()
        used = play(pool, "enter-text", seed=9)
        await used.reset()
        ref = next(each.ref for each in refs_in(expected["axtree"]) if each.role == "textbox")
        await used.step(Fill(ref, "left over"))
        await used.step(MoveMouse(80, 120))
        await used.step(MouseDown())
        await used.close()
        after = play(pool, "enter-text", seed=4)
        seen = (await after.reset()).observation
        assert (seen["goal"], seen["axtree"]) == (expected["goal"], expected["axtree"])
        held = await after.session.page.evaluate("document.querySelector(':active') !== null")
        assert not held
        await after.close()
        assert made(pool) == 1


@pytest.mark.parametrize("damage", ["delete window.core", "document.open(); document.close()"])
async def test_a_page_that_was_wrecked_is_loaded_anew(damage):
    async with BrowserPool() as pool:
        used = play(pool)
        await used.reset()
        await used.session.page.evaluate(f"() => {{ window.core = null; {damage}; }}")
        await used.close()
        after = play(pool)
        assert (await after.reset()).observation["goal"]
        assert await after.session.page.evaluate("typeof core") == "object"
        await after.close()


@pytest.mark.gate
async def test_pages_of_the_web_are_never_passed_on():
    async with BrowserPool() as pool:
        for _ in range(2):
            task = WebTask(goal="Look.", start_url="about:blank")
            environment = BrowserEnvironment(task, pool=pool, observe=TEXT)
            await environment.reset()
            await environment.close()
        assert made(pool) == 2


@pytest.mark.gate
async def test_a_page_that_may_show_a_secret_is_not_passed_on():
    async with BrowserPool() as pool:
        for secrets in ({"token": "hunter2-hunter2"}, {}):
            task = MiniwobTask("click-button")
            environment = BrowserEnvironment(task, pool=pool, observe=TEXT, secrets=secrets)
            await environment.reset()
            await environment.close()
        assert made(pool) == 2


@pytest.mark.gate
async def test_a_page_whose_browser_died_is_not_passed_on():
    async with BrowserPool() as pool:
        environment = play(pool)
        await environment.reset()
        lease = environment.session.lease
        await environment.close()
        os.kill(lease.browser.pid, signal.SIGKILL)
        while lease.healthy:
            await asyncio.sleep(0.01)
        environment = play(pool)
        assert (await environment.reset()).observation["goal"]
        await environment.close()
        assert pool.stats.leases == 0
