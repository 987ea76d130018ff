"""Oracles of tasks that drag the items of sortable lists."""

from __future__ import annotations

from webtraj.environments.actions import DragAt
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

_ITEMS = "#sortable li"
_COLUMNS = 3
_NUDGE = 4.0

_ROWS = {"top": 0, "center": 1, "bottom": 2}
_SIDES = {"left": 0, "center": 1, "right": 2}
_SHIFTS = {"up": -_COLUMNS, "down": _COLUMNS, "left": -1, "right": 1}


@oracle("drag-items")
async def drag_items(page: OracleView) -> Actions:
    """Drags the item that the goal names to its place in the list."""
    name, end, way, place = matched(
        r"Drag (\S+) (?:to the (top|bottom)|(up|down) by one position"
        r"|to the (\d)(?:st|nd|rd|th) position)\.",
        page.goal,
    )
    items = await page.all(_ITEMS)
    start = _find(items, name)
    if place:
        target = int(place) - 1
    elif end:
        target = 0 if end == "top" else len(items) - 1
    else:
        target = start + (1 if way == "down" else -1)
    yield _move(items, start, target)


@oracle("drag-items-grid")
async def drag_items_grid(page: OracleView) -> Actions:
    """Drags the item that the goal names to its place in the grid of three by three."""
    name, row, column, way = matched(
        r"Drag (\S+) (?:to the (?:(top|center|bottom) (left|center|right)|center)"
        r"|(up|down|left|right) by one)\.",
        page.goal,
    )
    items = await page.all(_ITEMS)
    start = _find(items, name)
    if way:
        target = start + _SHIFTS[way]
    else:
        target = _COLUMNS * _ROWS[row or "center"] + _SIDES[column or "center"]
    yield _move(items, start, target)


@oracle("drag-sort-numbers")
async def drag_sort_numbers(page: OracleView) -> Actions:
    """Moves the smallest number that is left up to its place, time and again, and submits."""
    for place in range(4):
        items = await page.all(_ITEMS)
        numbers = [int(item.text) for item in items]
        smallest = numbers.index(min(numbers[place:]), place)
        if smallest != place:
            yield _move(items, smallest, place)
    yield await submit(page)


def _find(items: list[Element], name: str) -> int:
    """Returns the index of the item with this text."""
    for index, item in enumerate(items):
        if item.text == name:
            return index
    raise OracleError(f"No item {name!r}; there are {[item.text for item in items]}.")


def _move(items: list[Element], start: int, target: int) -> DragAt:
    """Drags an item onto the place of another, and there a little forth and back.

    A list makes room before or behind the item under the mouse, by the direction that the mouse
    comes from; moving both ways leaves the gap under the mouse, whatever was passed on the way.
    """
    x, y = items[target].center
    forth, back = (x + _NUDGE, y + _NUDGE), (x - _NUDGE, y - _NUDGE)
    return DragAt((items[start].center, forth, back, (x, y)))
