"""Which pages are copied, and what a copy shows."""

import contextlib

import pytest

from webtraj.environments import actions
from webtraj.environments.browser import BrowserEnvironment, WebAccess, WebTask

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

PAGE = """<!doctype html><title>t</title><img src="http://10.0.0.9/x.png" alt="">
<button onclick="indexedDB.open('notes').onsuccess = () => { done.textContent = 'saved'; }">
Save</button><input><p id=done></p>"""


class Copied(WebTask):
    async def snapshot(self, session):
        return True

    @contextlib.asynccontextmanager
    async def restoring(self, session, snapshot):
        yield


@pytest.fixture
def environments(pool, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    task = Copied(goal="", start_url=page.as_uri())
    given = {"pool": pool, "policy": WebAccess(), "observe": ("axtree", "blocked")}
    return [BrowserEnvironment(task, **given) for _ in range(2)]


async def test_what_is_blocked_while_a_copy_loads_is_no_part_of_its_step(environments):
    first, second = environments
    async with first, second:
        assert len((await first.reset()).observation["blocked"]) == 1
        typed = await first.step(actions.Fill(await first.ref_of("input"), "Ann"))
        copy = await second.restore(await first.snapshot())
    assert copy.observation["axtree"] == typed.observation["axtree"]
    assert list(copy.observation["blocked"]) == list(typed.observation["blocked"]) == []


async def test_a_page_with_a_database_is_not_copied(environments):
    environment, _ = environments
    async with environment:
        await environment.reset()
        assert await environment.snapshot() is not None
        timestep = await environment.step(actions.Click(await environment.ref_of("button")))
        while "saved" not in timestep.observation["axtree"]:
            timestep = await environment.step(actions.Wait(0.1))
        assert await environment.snapshot() is None
