"""What another program does in its own Chromium, over the debugging protocol, is an episode."""

import asyncio
import contextlib
import functools
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hand import Hand, running_browser, until
from playwright.async_api import Page, async_playwright

from webtraj import JsonTrajectoryCollector, Outcome, open_dataset
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.datasets.recovery import recover
from webtraj.demonstrating import attached
from webtraj.demonstrating.gestures import Deed
from webtraj.environments import actions as a
from webtraj.environments.browser.pool import BrowserPool, PoolLimits
from whole import whole


@contextlib.asynccontextmanager
async def driven_page(tmp_path: Path) -> AsyncIterator[tuple[str, Page]]:
    """Gives a browser's endpoint, and its page as the program has it that drives it."""
    async with running_browser(tmp_path) as endpoint, async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(endpoint)
        yield endpoint, browser.contexts[0].pages[0]


@pytest.mark.browser
async def test_a_program_s_clicks_texts_and_tabs_are_recorded(site: str, tmp_path: Path) -> None:
    collector = MemoryTrajectoryCollector()
    async with (
        driven_page(tmp_path) as (endpoint, page),
        attached(endpoint, collector, goal="Send it", policy="a script") as recorder,
    ):
        await page.goto(f"{site}/form")
        await page.fill("[name=n]", "Anna")
        await page.fill("[name=p]", "hunter2-secret")
        await page.select_option("select", "Ulm")  # By a script: no input, so no step.
        await page.click("button")
        await page.wait_for_url("**/done*")
        recorder.stop(Outcome.SUCCESS, answer="Sent")
        assert await page.title() == "Done"  # It is left as it is.
        assert len(page.context.pages) == 1
    (episode,) = collector.trajectories
    kinds = [type(step.action) for step in episode.steps[1:]]
    assert kinds == [a.Goto, a.Fill, a.Fill, a.Click, a.Answer]
    assert episode.steps[1].action == a.Goto(f"{site}/form")
    assert episode.steps[2].action.value == "Anna"
    assert episode.steps[3].action.value == "<secret:password>"
    assert "hunter2" not in whole(episode)
    assert "Send" in episode.steps[3].observation["axtree"]
    assert "Thanks" in episode.steps[4].observation["axtree"]
    assert (episode.outcome, episode.total_reward) == (Outcome.SUCCESS, 1.0)
    assert (episode.info.policy, episode.info.goal) == ("a script", "Send it")


@pytest.mark.browser
async def test_a_program_that_calls_its_navigation_a_link_goes_there(
    site: str, tmp_path: Path
) -> None:
    collector = MemoryTrajectoryCollector()
    async with driven_page(tmp_path) as (endpoint, page):
        debugger = await page.context.new_cdp_session(page)
        async with attached(endpoint, collector) as recorder:
            # browser-use says `address_bar`, of which Chrome makes a link.
            where = {"url": f"{site}/form", "transitionType": "address_bar"}
            await debugger.send("Page.navigate", where)
            await page.click("button")  # The page itself goes on to /done: no step.
            await page.wait_for_url("**/done*")
            recorder.stop()
    (episode,) = collector.trajectories
    assert [type(step.action) for step in episode.steps[1:]] == [a.Goto, a.Click]


@pytest.mark.browser
async def test_a_tab_opened_after_the_last_was_closed_is_looked_at(
    site: str, tmp_path: Path
) -> None:
    collector = MemoryTrajectoryCollector()
    async with (
        driven_page(tmp_path) as (endpoint, first),
        attached(endpoint, collector) as recorder,
    ):
        await first.close()
        page = await first.context.new_page()
        await page.goto(f"{site}/form")
        await until(lambda: recorder.steps == 1 and recorder.is_settled)
        recorder.stop()
    (episode,) = collector.trajectories
    assert 'button "Send"' in episode.steps[1].observation["axtree"]


class _Decisions:
    """Knows no decision; copies the dataset before the first step that was put off is written."""

    def __init__(self, data: Path, copy: Path) -> None:
        self.data, self.copy, self.steps = data, copy, 0

    def decision(self, deed: Deed, *, last: bool = False) -> None:
        if isinstance(deed.action, a.Check):
            shutil.copytree(self.data, self.copy)

    def note_recorded(self) -> None:
        self.steps += 1

    def hide(self, password: str) -> None:
        pass


@pytest.mark.browser
async def test_a_kill_after_a_password_was_typed_loses_the_last_step_only(
    site: str, tmp_path: Path
) -> None:
    data, before, after = (tmp_path / name for name in ("data", "before", "after"))
    decisions = _Decisions(data, before)
    async with (
        JsonTrajectoryCollector(data) as collector,
        driven_page(tmp_path) as (endpoint, page),
        attached(endpoint, collector, decisions=decisions) as recorder,
    ):
        await page.goto(f"{site}/form")
        await page.check("[name=b]")
        await page.click("[name=p]")
        await page.locator("[name=p]").press_sequentially("hunter2-secret")
        await page.locator("[name=p]").press("Enter")
        await page.wait_for_url("**/done*")
        await until(lambda: decisions.steps == 3)  # The agent waits for a second factor.
        await collector.flush()
        shutil.copytree(data, after)
        recorder.stop()
    for folder, kinds, in_flight in (
        (before, [a.Goto], a.Check),
        (after, [a.Goto, a.Check, a.Fill], a.Press),
    ):
        recover(folder)  # A copy is what a kill leaves.
        (episode,) = open_dataset(folder)
        assert [type(step.action) for step in episode.steps[1:]] == kinds
        assert isinstance(episode.end.in_flight_action, in_flight)
        assert "hunter2" not in whole(episode)
    (episode,) = open_dataset(data)
    assert [type(step.action) for step in episode.steps[1:]] == [a.Goto, a.Check, a.Fill, a.Press]


_HASTY = """
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    page = playwright.chromium.connect_over_cdp(sys.argv[1]).contexts[0].pages[0]
    page.goto(sys.argv[2] + "/form")
    page.goto(sys.argv[2] + "/")
    page.go_back()
    page.go_forward()
    page.click("text=To the form")
    page.wait_for_url("**/form")
    page.goto(sys.argv[2] + "/done")
"""


@pytest.mark.browser
async def test_what_is_read_late_is_recorded_as_it_was_done(site: str, tmp_path: Path) -> None:
    collector = MemoryTrajectoryCollector()
    async with running_browser(tmp_path) as endpoint, attached(endpoint, collector) as recorder:
        # It stops this process's event loop until all is done.
        subprocess.run([sys.executable, "-c", _HASTY, endpoint, site], check=True)
        recorder.stop()
    (episode,) = collector.trajectories
    kinds = [type(step.action) for step in episode.steps[1:]]
    assert kinds == [a.Goto, a.Goto, a.GoBack, a.GoForward, a.Click, a.Goto]
    urls = [
        step.action.url.removeprefix(site) for step in episode.steps if type(step.action) is a.Goto
    ]
    assert urls == ["/form", "/", "/done"]
    ends = [step.end_time for step in episode.steps]
    assert ends == sorted(ends)
    assert all(step.start_time <= step.end_time for step in episode.steps)


@pytest.mark.gate
@pytest.mark.browser
async def test_a_tab_that_hangs_is_recorded_as_one_and_holds_nothing_up(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = functools.partial(BrowserPool, limits=PoolLimits(call=6.0))
    monkeypatch.setattr("webtraj.demonstrating.places.pool_lib.BrowserPool", patient)
    collector = MemoryTrajectoryCollector()
    async with (
        driven_page(tmp_path) as (endpoint, page),
        attached(endpoint, collector) as recorder,
    ):
        await page.goto(f"{site}/form")
        hung = {"url": "data:text/html,<script>setTimeout(() => { for (;;); }, 500)</script>"}
        await (await page.context.browser.new_browser_cdp_session()).send(
            "Target.createTarget", hung
        )
        await until(lambda: recorder.steps == 2 and recorder.is_settled)
        await page.bring_to_front()
        await page.fill("[name=n]", "Anna")
        recorder.stop()
    (episode,) = collector.trajectories
    kinds = [type(step.action) for step in episode.steps[1:]]
    assert kinds == [a.Goto, a.NewTab, a.FocusTab, a.Fill]
    seen = episode.steps[2].observation
    assert seen["axtree"] == "... no answer"
    assert seen["last_action"]["error_kind"] == "page_broke"
    assert 'textbox "Name" value="Anna"' in episode.steps[4].observation["axtree"]


@pytest.mark.browser
async def test_a_program_s_dialog_is_left_to_it(site: str, tmp_path: Path) -> None:
    collector = MemoryTrajectoryCollector()
    async with driven_page(tmp_path) as (endpoint, page):
        await page.goto(f"{site}/ask")
        answered = asyncio.Event()

        async def answer(dialog):
            await asyncio.sleep(0.5)  # Nobody else answers it meanwhile.
            await dialog.dismiss()
            answered.set()

        page.on("dialog", answer)
        async with attached(endpoint, collector) as recorder:
            hand = await Hand.on(page)
            await hand.click("button")
            await answered.wait()
            assert await page.inner_text("button") == "false"
            recorder.stop()
    (episode,) = collector.trajectories
    assert isinstance(episode.steps[1].action, a.Click)
    assert 'button "false"' in episode.steps[1].observation["axtree"]


@pytest.mark.browser
async def test_a_browser_that_its_program_closes_ends_with_a_verdict(
    site: str, tmp_path: Path
) -> None:
    collector = MemoryTrajectoryCollector()
    async with (
        driven_page(tmp_path) as (endpoint, page),
        attached(endpoint, collector) as recorder,
    ):
        await page.goto(f"{site}/done")
        await until(lambda: recorder.steps == 1)
        await (await page.context.browser.new_browser_cdp_session()).send("Browser.close")
        recorder.stop(Outcome.SUCCESS, answer="Seen")
    (episode,) = collector.trajectories
    assert isinstance(episode.steps[-1].action, a.Answer)
    assert (episode.outcome, episode.total_reward) == (Outcome.SUCCESS, 1.0)


@pytest.mark.browser
async def test_a_step_that_was_not_seen_before_its_browser_closed_is_kept_before_an_answer(
    site: str, tmp_path: Path
) -> None:
    collector = MemoryTrajectoryCollector()
    async with driven_page(tmp_path) as (endpoint, page):
        page.on("dialog", lambda dialog: None)  # It stays open, and nothing can be seen.
        await page.goto(f"{site}/ask")
        async with attached(endpoint, collector) as recorder:
            clicking = asyncio.ensure_future((await Hand.on(page)).click("button"))
            await until(lambda: recorder.steps == 1)
            await (await page.context.browser.new_browser_cdp_session()).send("Browser.close")
            recorder.stop(Outcome.SUCCESS, answer="Seen")
        await asyncio.gather(clicking, return_exceptions=True)
    (episode,) = collector.trajectories
    assert [type(step.action) for step in episode.steps[1:]] == [a.Click, a.Answer]
    assert episode.steps[1].decision.metadata["demonstration"] == {"unseen": True}
    assert episode.steps[1].observation["axtree"] == episode.steps[0].observation["axtree"]
    assert episode.outcome is Outcome.SUCCESS
