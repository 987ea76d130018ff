"""Oracles of tasks that are done by typing."""

from __future__ import annotations

from webtraj.environments.actions import Click, Fill, Focus
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.view import OracleView, quoted


@oracle("enter-text")
async def enter_text(page: OracleView) -> Actions:
    """Types the word and submits."""
    (word,) = quoted(page.goal)
    yield Fill((await page.one("#tt")).ref, word)
    yield Click((await page.one("#subbtn")).ref)


@oracle("focus-text")
async def focus_text(page: OracleView) -> Actions:
    """Gives the field the focus."""
    yield Focus((await page.one("#tt")).ref)


@oracle("login-user")
async def login_user(page: OracleView) -> Actions:
    """Fills in both fields and logs in."""
    user, password = quoted(page.goal)
    yield Fill((await page.one("#username")).ref, user)
    yield Fill((await page.one("#password")).ref, password)
    yield Click((await page.one("#subbtn")).ref)
