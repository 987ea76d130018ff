"""Oracles of tasks with menus."""

from __future__ import annotations

from webtraj.environments.actions import Click, Press
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched


@oracle("click-menu")
async def click_menu(page: OracleView) -> Actions:
    """Walks down the menu by the keyboard.

    A click on an item that has a submenu counts as choosing it, and the mouse alone opens a
    submenu only after a while.
    """
    (path,) = matched(r"Select (.+)", page.goal)
    menu = (await page.one("#menu")).ref
    names = path.split(">")
    items = "#menu > li > div"
    for depth, name in enumerate(names):
        texts = [item.text for item in await page.all(items)]
        last = depth == len(names) - 1
        yield Press(menu, _to(texts, name, "Enter" if last else "ArrowRight"))
        row = texts.index(name) + 1
        items = f"{items.removesuffix(' > div')}:nth-child({row}) > ul > li > div"


_MENU_DELAY = """() => new Promise(resolve => {
  setTimeout(resolve, jQuery("#menu").menu("instance").delay);
})"""
"""Waits as long as the menu does until it folds its submenus after a click elsewhere.

A submenu that was opened in the meantime would be folded too.
"""


@oracle("click-menu-2")
async def click_menu_2(page: OracleView) -> Actions:
    """Opens the menu, and by the keyboard its submenu where need be, and clicks the item.

    Half of the goals show the item's icon instead of its name. No text says which icon that is, so
    it is read from the query's markup.
    """
    yield await click(page, "#open-menu")
    (label,) = matched(
        r'Click the "Menu" button, and then find and click on the item '
        r'(?:labeled "(.+)"|with the icon)\.',
        page.goal,
    )
    if label:
        item = await page.one("#menu div", label)
    else:
        item = await _item_like(page, (await page.one("#query .ui-icon")).attributes["class"])
    tops = [top.text for top in await page.all("#menu > li > div")]
    if item.text not in tops:
        await page.evaluate(_MENU_DELAY)
        keys = _to(tops, "Playback", "ArrowRight")
        yield Press((await page.one("#menu")).ref, f"Escape {keys}")
    yield Click(item.ref)


async def _item_like(page: OracleView, icon_class: str) -> Element:
    """Returns the menu's item with an icon."""
    icons = "#menu div:has(> .ui-icon:not(.ui-menu-icon))"
    classes = [icon.attributes["class"] for icon in await page.all(f"{icons} > .ui-icon")]
    return (await page.all(icons))[_index(classes, icon_class)]


def _to(items: list[str], item: str, key: str) -> str:
    """Returns the keys that go to an item of a menu and press a key there."""
    return " ".join(["Home", *["ArrowDown"] * _index(items, item), key])


def _index(values: list[str], value: str) -> int:
    if value not in values:
        raise OracleError(f"No {value!r} in the menu; it has {values}.")
    return values.index(value)
