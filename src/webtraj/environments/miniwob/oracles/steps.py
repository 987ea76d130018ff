"""Actions that many oracles take, with the element looked up."""

from __future__ import annotations

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.view import OracleView

__all__ = ["click", "painted", "still", "submit"]


async def click(page: OracleView, selector: str, text: str | None = None) -> Click:
    """Clicks the first element that matches, with exactly this text if `text` is given.

    Raises:
        OracleError: There is none.
    """
    return Click((await page.one(selector, text)).ref)


async def submit(page: OracleView) -> Click:
    """Clicks the button that hands the answer in.

    Raises:
        OracleError: There is none.
    """
    return await click(page, "#subbtn, #area button", "Submit")


async def painted(page: OracleView) -> None:
    """Waits until the page has been drawn twice.

    Scripts hear of scrolling, and pictures change with the mouse over them, only when it is drawn.
    """
    await page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


async def still(page: OracleView) -> None:
    """Waits until jQuery moves nothing any more.

    Its animations start so slowly that for a few frames nothing changes, and a page that is about
    to move can look settled.
    """
    await page.evaluate("async () => { await jQuery(':animated').promise(); }")
