"""axe finds nothing in the monitor's page, in light and in dark, whatever the run does."""

import functools
import time

import pytest
from test_monitor_page import served

from axe_support import violations_now
from webtraj.view import RunMonitor

pytestmark = pytest.mark.browser
LATER = 1000.0
"""Seconds after which a run that nobody plays is known to be gone."""


@pytest.mark.slow
def test_axe_finds_nothing_in_a_run(held_rollout, wait, monkeypatch):
    from playwright.sync_api import expect, sync_playwright

    from webtraj.environments.browser.processes import find_browser

    rollout = held_rollout("climb", "slip", "crash", "hold-act", "hold-ask")
    monitor = rollout.monitor()
    wait(monitor, lambda seen: seen.cells == "+-eaq")
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser().path)

        def look(state, writer):
            with served(rollout.out) as url:
                for scheme in ("light", "dark"):
                    page = browser.new_page(color_scheme=scheme)
                    page.goto(f"{url}#/run")
                    expect(page.locator(".writer")).to_have_text(writer)
                    page.locator(".run-grid").focus()
                    page.keyboard.press("ArrowRight")
                    expect(page.locator(".run-told")).to_contain_text("row 0: climb")
                    found[state, scheme] = violations_now(page)
                    page.set_viewport_size({"width": 390, "height": 800})
                    assert page.evaluate("document.documentElement.scrollWidth") == 390
                    assert page.locator(".run").evaluate("run => run.scrollWidth") == 390
                    page.close()

        look("playing", "playing")
        rollout.kill()
        later = functools.partial(RunMonitor, clock=lambda: time.time() + LATER)
        monkeypatch.setattr("webtraj.view.viewer.RunMonitor", later)
        look("gone", "gone")
        assert {place: lines for place, lines in found.items() if lines} == {}
        # axe is awake.
        with served(rollout.out) as url:
            page = browser.new_page()
            page.goto(f"{url}#/run")
            expect(page.locator(".writer")).to_have_text("gone")
            page.evaluate("document.documentElement.removeAttribute('lang')")
            assert any("html-has-lang" in line for line in violations_now(page))
        browser.close()
