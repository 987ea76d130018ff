"""Oracles of tasks whose content is spread over pages and folders."""

from __future__ import annotations

from webtraj.environments.actions import Click, Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

_RESULTS_A_PAGE = 3


@oracle("phone-book")
async def phone_book(page: OracleView) -> Actions:
    """Turns the pages until the person shows, and clicks the phone number, mail or address."""
    name, item = matched(
        r"Find (.+) in the contact book and click on their (phone|email|address)(?: number)?\.",
        page.goal,
    )
    while (await page.one("#contact .name")).text != name:
        yield await click(page, "#pagination li:not(.disabled) a", ">")
    yield await click(page, f"#contact .{item}")


@oracle("search-engine")
async def search_engine(page: OracleView) -> Actions:
    """Searches, turns to the page of the result that the goal counts out, and clicks it."""
    text, nth = matched(
        r'Use the textbox to enter "(.+)" and press "Search", '
        r"then find and click the (\d)\w\w search result\.",
        page.goal,
    )
    yield Fill((await page.one("#search-text")).ref, text)
    yield await click(page, "#search")
    turns, row = divmod(int(nth) - 1, _RESULTS_A_PAGE)
    if turns:
        yield await click(page, "#pagination a", str(turns + 1))
    yield Click((await page.all("#page-content .search-title"))[row].ref)


@oracle("navigate-tree")
async def navigate_tree(page: OracleView) -> Actions:
    """Opens one folder after another until the file or folder shows, and clicks it."""
    (name,) = matched(
        r"Navigate through the file tree\. Find and click on the folder or file "
        r'named "(\w+)"\.',
        page.goal,
    )
    opened: set[str] = set()
    while True:
        names = [element for element in await page.all("#tree li > span") if element.visible]
        for element in names:
            if element.text == name:
                yield Click(element.ref)
                return
        folder = _next_folder(names, opened)
        opened.add(folder.ref)
        yield Click(folder.ref)


def _next_folder(names: list[Element], opened: set[str]) -> Element:
    """Returns the first folder that was not opened yet."""
    for element in names:
        if "folder" in element.attributes["class"].split() and element.ref not in opened:
            return element
    raise OracleError("The tree has no more folders to open.")
