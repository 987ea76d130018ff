"""Oracles of tasks that are done by clicking."""

from __future__ import annotations

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.view import OracleView, matched, quoted


@oracle("click-test")
async def click_test(page: OracleView) -> Actions:
    """Clicks the only button."""
    yield Click((await page.one("#subbtn")).ref)


@oracle("click-test-2")
async def click_test_2(page: OracleView) -> Actions:
    """Clicks the button with the right label."""
    yield Click((await page.one("#area button", "ONE")).ref)


@oracle("click-button")
async def click_button(page: OracleView) -> Actions:
    """Clicks the button that the goal names."""
    (label,) = quoted(page.goal)
    yield Click((await page.one("#area button", label)).ref)


@oracle("click-link")
async def click_link(page: OracleView) -> Actions:
    """Clicks the link that the goal names."""
    (text,) = quoted(page.goal)
    yield Click((await page.one("#area .alink", text)).ref)


@oracle("click-dialog")
async def click_dialog(page: OracleView) -> Actions:
    """Closes the dialog by its x."""
    yield Click((await page.one(".ui-dialog-titlebar-close")).ref)


@oracle("click-checkboxes")
async def click_checkboxes(page: OracleView) -> Actions:
    """Ticks the boxes that the goal lists, and submits."""
    wanted = page.goal.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
    labels = await page.all("#boxes label")
    boxes = await page.all("#boxes input")
    for label, box in zip(labels, boxes, strict=True):
        if label.text in wanted:
            yield Click(box.ref)
    yield Click((await page.one("#subbtn")).ref)


@oracle("click-button-sequence")
async def click_button_sequence(page: OracleView) -> Actions:
    """Clicks ONE, then TWO."""
    for label in ("ONE", "TWO"):
        yield Click((await page.one("#area button", label)).ref)


@oracle("click-test-transfer")
async def click_test_transfer(page: OracleView) -> Actions:
    """Clicks the button that the goal names."""
    (label,) = matched(r"Click button (ONE|TWO)\.", page.goal)
    yield Click((await page.one("#area button", label)).ref)
