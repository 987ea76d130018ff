"""Oracles of tasks that copy text from one field to another.

They fill in what they read. Keys for copy and paste would do as well, but the browser's clipboard
is one for all episodes that run in it.
"""

from __future__ import annotations

from webtraj.environments.actions import Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched


@oracle("copy-paste")
async def copy_paste(page: OracleView) -> Actions:
    """Fills in the text of the text area, to the last space, and submits."""
    text = (await page.one("#to-copy")).value
    yield Fill((await page.one("#answer-input")).ref, text)
    yield await submit(page)


@oracle("copy-paste-2")
async def copy_paste_2(page: OracleView) -> Actions:
    """Fills in the text of the text area that the goal numbers, and submits."""
    (number,) = matched(
        r"Copy the text from the (\d)(?:st|nd|rd) text area below and paste it into the text "
        r"input, then press Submit\.",
        page.goal,
    )
    areas = await page.all("#area textarea")
    yield Fill((await page.one("#answer-input")).ref, areas[int(number) - 1].value)
    yield await submit(page)
