"""What a guard promises: every call through it ends in time, with an error that has a type."""

import asyncio

import pytest
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from webtraj import errors
from webtraj.environments.browser.lease import CallGuard


async def forever():
    await asyncio.Event().wait()


async def test_a_call_ends_at_its_deadline():
    with pytest.raises(errors.BrowserTimeoutError, match=r"did not answer within 0\.01 s"):
        await CallGuard().run(forever(), what="answer", seconds=0.01)


async def test_a_deadline_of_playwright_s_own_is_a_deadline():
    async def hurry():
        raise PlaywrightTimeoutError("Timeout 10ms exceeded.")

    with pytest.raises(errors.BrowserTimeoutError, match="did not load the page"):
        await CallGuard().run(hurry(), what="load the page", seconds=60)


async def test_a_cut_fails_every_call_at_once_and_later_ones_too():
    guard = CallGuard()
    calls = [asyncio.ensure_future(guard.run(forever(), what="answer", seconds=60)) for _ in "123"]
    await asyncio.sleep(0)
    guard.cut("The browser died")
    guard.cut("It was told twice")
    for call in calls:
        with pytest.raises(errors.BrowserCrashedError, match=r"The browser died while .* answer"):
            await call
    with pytest.raises(errors.BrowserCrashedError, match="The browser died"):
        await guard.run(forever(), what="answer", seconds=60)


async def test_a_cut_while_a_call_is_on_its_way_out_fails_that_call_and_all_others():
    guard = CallGuard()

    async def cut_on_the_way_out():
        try:
            await forever()
        finally:
            guard.cut("The browser died")

    late = asyncio.ensure_future(guard.run(cut_on_the_way_out(), what="leave", seconds=0.01))
    others = [
        asyncio.ensure_future(guard.run(forever(), what="answer", seconds=60)) for _ in "12345"
    ]
    for call in (late, *others):
        with pytest.raises(errors.BrowserCrashedError, match="The browser died"):
            await call
