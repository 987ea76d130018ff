"""Verbs of pages, history and tabs."""

from __future__ import annotations

from webtraj.environments import actions as a
from webtraj.environments.browser.acting.hands import ActionRefused, Hands, performs

__all__: list[str] = []


@performs(a.Goto)
async def _goto(hands: Hands, action: a.Goto) -> None:
    hands.check_url(action.url)
    await hands.navigate(hands.session.open(action.url))


@performs(a.GoBack)
async def _go_back(hands: Hands, action: a.GoBack) -> None:
    hands.check_travel()
    await _check_history(hands, -1)
    going = hands.session.page.go_back(wait_until="commit")
    await hands.navigate(hands.run(going, "go back"))


@performs(a.GoForward)
async def _go_forward(hands: Hands, action: a.GoForward) -> None:
    hands.check_travel()
    await _check_history(hands, +1)
    going = hands.session.page.go_forward(wait_until="commit")
    await hands.navigate(hands.run(going, "go forward"))


async def _check_history(hands: Hands, steps: int) -> None:
    place, length = await hands.session.history()
    if not 0 <= place + steps < length:
        direction = "back" if steps < 0 else "forward"
        raise ActionRefused("no_history", f"There is no page to go {direction} to.")


@performs(a.Reload)
async def _reload(hands: Hands, action: a.Reload) -> None:
    hands.check_travel()
    loading = hands.session.page.reload(wait_until="commit")
    await hands.navigate(hands.run(loading, "load the page again"))


@performs(a.NewTab)
async def _new_tab(hands: Hands, action: a.NewTab) -> None:
    hands.check_travel()
    if action.url:
        hands.check_url(action.url)
    page = await hands.run(hands.session.lease.context.new_page(), "open a tab")
    await hands.session.focus(page)
    if action.url:
        await hands.navigate(hands.session.open(action.url))


@performs(a.CloseTab)
async def _close_tab(hands: Hands, action: a.CloseTab) -> None:
    hands.check_travel()
    if len(hands.session.tabs) == 1:
        raise ActionRefused("last_tab", "The last tab cannot be closed.")
    await hands.run(hands.session.page.close(), "close a tab")


@performs(a.FocusTab)
async def _focus_tab(hands: Hands, action: a.FocusTab) -> None:
    tabs = hands.session.tabs
    if action.index >= len(tabs):
        raise ActionRefused(
            "no_such_tab", f"There is no tab {action.index}: there are {len(tabs)}."
        )
    await hands.session.focus(tabs[action.index])
