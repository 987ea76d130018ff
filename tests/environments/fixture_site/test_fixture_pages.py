"""What browsers find hard, in a real browser: the site's pages do what they are there for."""

import pytest
import pytest_asyncio

from webtraj.environments import actions as a
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.page_script import SettlePolicy
from webtraj.environments.browser.pool import BrowserPool, PoolLimits
from webtraj.testing.site import FixtureEnvironment

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

CHANNELS = (
    "goal",
    "url",
    "axtree",
    "tabs",
    "dialogs",
    "console",
    "http_status",
    "last_action",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool():
    async with BrowserPool(limits=PoolLimits(call=5.0, close=3.0)) as pool:
        yield pool


class Visitor:
    """Walks around in the site."""

    def __init__(self, environment):
        self.environment = environment
        self.seen = None

    @property
    def world(self):
        return self.environment.world

    async def at(self, path):
        origin = "/".join(str(self.environment.session.page.url).split("/")[:3])
        return await self.do(a.Goto(origin + path))

    async def do(self, action):
        self.seen = (await self.environment.step(action)).observation
        return self.seen

    def ref(self, name, role="button"):
        found = [r.ref for r in refs_in(self.seen["axtree"]) if (r.role, r.name) == (role, name)]
        assert found, self.seen["axtree"]
        return found[0]

    async def click(self, name, role="button"):
        return await self.do(a.Click(self.ref(name, role)))


@pytest_asyncio.fixture(loop_scope="module")
async def visitor(pool):
    async with FixtureEnvironment(
        "log-out", pool=pool, observe=CHANNELS, settle=SettlePolicy(quiet=0.05, cap=1.0)
    ) as environment:
        visitor = Visitor(environment)
        visitor.seen = (await environment.reset()).observation
        yield visitor


@pytest.mark.parametrize(
    ("button", "dialog", "result"),
    [
        ("Alert", "alert: Mind the step.", {"alert": True}),
        ("Confirm", "confirm: Shall we?", {"confirm": True}),
        ("Prompt", "prompt: Your name?", {"prompt": None}),
    ],
)
async def test_dialogs_are_answered_and_told(visitor, button, dialog, result):
    await visitor.at("/extras/dialogs")
    seen = await visitor.click(button)
    assert seen["dialogs"].tolist() == [dialog]
    assert visitor.world.dialogs == result


async def test_a_page_that_asks_before_one_leaves_is_left(visitor):
    await visitor.at("/extras/dialogs")
    await visitor.click("Ask before I leave", "checkbox")
    seen = await visitor.click("Leave", "link")
    assert [dialog.partition(":")[0] for dialog in seen["dialogs"].tolist()] == ["beforeunload"]
    assert seen["url"].endswith("/extras")


async def test_open_shadow_roots_are_seen_through_and_closed_ones_not(visitor):
    seen = await visitor.at("/extras/shadow")
    assert all(f'button "{n} of 5 stars"' in seen["axtree"] for n in range(1, 6))
    assert "In a closed root" not in seen["axtree"]


async def test_a_hover_menu_is_hidden_until_the_mouse_is_there(visitor):
    await visitor.at("/")
    assert 'button "EUR"' not in visitor.seen["axtree"]
    await visitor.environment.session.page.hover(".hover-menu")
    assert 'button "EUR"' in (await visitor.do(a.Wait(0)))["axtree"]


async def test_a_page_that_never_stands_still_is_seen_as_it_is(visitor):
    await visitor.at("/run/restless")
    seen = await visitor.click("Start")
    assert seen["last_action"]["settled"] == "cap"


async def test_a_console_that_is_flooded_stays_bounded(visitor):
    await visitor.at("/run/console")
    await visitor.click("Start")
    seen = await visitor.do(a.Wait(0.2))
    assert 0 < len(seen["console"]) <= 101


async def test_a_page_that_hangs_is_an_observation_and_the_next_episode_is_fine(visitor):
    await visitor.at("/run/busy")
    ref = visitor.ref("Start")
    seen = await visitor.do(a.Click(ref))
    assert seen["last_action"]["error_kind"] == "page_broke"
    timestep = await visitor.environment.reset()
    assert "Log out" in timestep.observation["axtree"]
