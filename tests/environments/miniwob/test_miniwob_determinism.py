"""A reset equals a fresh environment: the same task and seed give the same page, to the pixel."""

import io
import random

import numpy as np
import pytest
from PIL import Image

from webtraj.environments import actions as a
from webtraj.environments.browser.observation import Observe, refs_in
from webtraj.environments.miniwob.tasks import TASKS

pytestmark = pytest.mark.asyncio(loop_scope="module")

OBSERVE = Observe(
    channels=("goal", "axtree", "title", "url", "focused", "scroll", "tabs", "dialogs",
              "last_action", "screenshot"),
    screenshot_format="png",
)  # fmt: skip

_UNSEEN = """() => ({
    html: document.documentElement.outerHTML, hovered: document.querySelectorAll(":hover").length,
    selection: [getSelection().rangeCount, String(getSelection())], name: window.name,
    stored: [{...localStorage}, {...sessionStorage}, document.cookie],
    zoom: [devicePixelRatio, visualViewport.scale], size: [innerWidth, innerHeight],
})"""
"""What no channel shows and the next action may meet."""

_STEPS = 6

# A wheel turns as it opens, and a stock's price comes after a moment: it depends on when one looks.
_ANIMATED = {"click-pie", "click-pie-nodelay", "stock-market"}


async def first_page(environment, seed):
    environment.set_seed(seed)
    seen = dict((await environment.reset()).observation)
    session = environment.session
    unseen = await session.page.evaluate(_UNSEEN)
    if environment.page_name in _ANIMATED:
        del seen["screenshot"], unseen["html"]
    seen["last_action"] = seen["last_action"]["settled"]
    picture = seen.pop("screenshot", None)
    pixels = picture and np.asarray(Image.open(io.BytesIO(picture))).astype(int)
    told = {name: str(value) for name, value in seen.items()}
    return {**told, **unseen, "history": await session.history()}, pixels


def differences(page, other):
    """Return what differs; pixels do by more than the 1 of 255 that Chromium's rounding makes."""
    (told, pixels), (others, other_pixels) = page, other
    found = {name: (told[name], others[name]) for name in told if told[name] != others[name]}
    if pixels is not None and (
        pixels.shape != other_pixels.shape or abs(pixels - other_pixels).max() > 1
    ):
        found["screenshot"] = np.argwhere(pixels != other_pixels)[:3].tolist()
    return found


async def fresh_pages(play, pool, tasks, seeds):
    fresh = {}
    for task in tasks:
        for seed in seeds:
            await pool.forget_parked()
            environment = play(task, observe=OBSERVE)
            fresh[task, seed] = await first_page(environment, seed)
            await environment.close()
        assert fresh[task, seeds[0]][0]["goal"], task
        assert refs_in(fresh[task, seeds[0]][0]["axtree"]), task
    return fresh


async def play_at_random(environment, seed):
    """Leaves keys and buttons held, lists open, texts selected, timers running."""
    chosen = random.Random(seed)
    environment.set_seed(seed)
    timestep = await environment.reset()
    for _ in range(_STEPS):
        found = refs_in(timestep.observation["axtree"])
        ref = chosen.choice(found).ref if found else "1"
        x, y = chosen.randrange(160), chosen.randrange(210)
        verbs = [
            a.Click(ref), a.Click(ref), a.Click(ref), a.Click(ref, count=2), a.ClickAt(x, y),
            a.Fill(ref, "tiger 5"), a.Hover(ref), a.Focus(ref), a.TypeText("ab"),
            a.PressKey("Tab"), a.PressKey("ArrowDown"), a.PressKey("Control+a"), a.KeyDown("Shift"),
            a.MouseDown(x, y), a.DragAt(((x, y), (80, 100))), a.Scroll(0, 60),
            a.ScrollAt(x, y, 0, -120, modifiers=("Control",)), a.NewTab(),
        ]  # fmt: skip
        timestep = await environment.step(chosen.choice(verbs))
        if timestep.last():
            break


async def play_by_oracle(environment, seed):
    environment.set_seed(seed)
    timestep = await environment.reset()
    while not timestep.last() and (action := await environment.cheat()) is not None:
        timestep = await environment.step(action)


async def sweep(play, pool, tasks, seeds):
    """Compares fresh pages with those of one page that is passed from task to task."""
    fresh = await fresh_pages(play, pool, tasks, seeds)
    await pool.forget_parked()
    made = _contexts_made(pool)
    for task in tasks:
        environment = play(task, observe=OBSERVE)
        await play_by_oracle(environment, 100)
        for seed in seeds:
            await play_at_random(environment, 200 + seed)
            found = await first_page(environment, seed)
            assert not differences(fresh[task, seed], found), (task, seed)
        await environment.close()
    assert _contexts_made(pool) == made + 1


def _contexts_made(pool):
    return sum(browser.contexts_made for browser in pool._slots)


@pytest.mark.slow
@pytest.mark.parametrize("first_letters", ["ab", "c", "de", "f", "ghijklm", "nopqr", "stuvwxyz"])
async def test_every_reset_equals_a_fresh_environment(play, pool, first_letters):
    await sweep(play, pool, [task for task in TASKS if task[0] in first_letters], [7, 8, 9])


@pytest.mark.gate
async def test_a_reset_equals_a_fresh_environment(play, pool):
    tasks = ["use-autocomplete", "scroll-text", "enter-time", *random.Random(0).sample(TASKS, 2)]
    await sweep(play, pool, tasks, [7])
