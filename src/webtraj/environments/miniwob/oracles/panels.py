"""Oracles of tasks with parts that open and close: tabs, collapsible sections, dialogs.

What is folded away is looked for by unfolding, as whoever cannot read the source must.
"""

from __future__ import annotations

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, still, submit
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched


@oracle("click-collapsible", "click-collapsible-nodelay")
async def click_collapsible(page: OracleView) -> Actions:
    """Expands the section, and submits."""
    yield await click(page, "#area h3")
    await still(page)
    yield await submit(page)


@oracle("click-collapsible-2", "click-collapsible-2-nodelay")
async def click_collapsible_2(page: OracleView) -> Actions:
    """Expands one section after another until the link shows, and clicks it."""
    (text,) = matched(
        r'Expand the sections below, to find and click on the link "(.+)"\.', page.goal
    )
    for header in await page.all("#area h3"):
        yield Click(header.ref)
        await still(page)
        link = await _shown_link(page, text)
        if link is not None:
            yield link
            return
    raise OracleError(f"No section has the link {text!r}.")


@oracle("click-tab")
async def click_tab(page: OracleView) -> Actions:
    """Clicks the tab that the goal names."""
    (name,) = matched(r"Click on (Tab #\d)\.", page.goal)
    yield await click(page, "#area ul a", name)


@oracle("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def click_tab_2(page: OracleView) -> Actions:
    """Looks at one tab after another until the link shows, and clicks it.

    In `click-tab-2-medium` opening the second tab is enough where the first has no such link.
    """
    (text,) = matched(r'Switch between the tabs to find and click on the link "(.+)"\.', page.goal)
    link = await _shown_link(page, text)
    for tab in (await page.all("#area ul a"))[1:]:
        if link is None:
            yield Click(tab.ref)
            link = await _shown_link(page, text)
    if link is None:
        raise OracleError(f"No tab has the link {text!r}.")
    yield link


@oracle("click-dialog-2")
async def click_dialog_2(page: OracleView) -> Actions:
    """Clicks the button of the dialog that the goal names; its x has no text."""
    (label,) = matched(r'Click the button in the dialog box labeled "(\w+)"\.', page.goal)
    if label == "x":
        yield await click(page, ".ui-dialog-titlebar-close")
    else:
        yield await click(page, ".ui-dialog-buttonset button", label)


async def _shown_link(page: OracleView, text: str) -> Click | None:
    """Returns a click on the link with this text, if there is one to be seen."""
    for link in await page.all("#area .alink"):
        if link.visible and link.text == text:
            return Click(link.ref)
    return None
