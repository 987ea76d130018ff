"""Oracles of tasks that drag boxes and shapes."""

from __future__ import annotations

from webtraj.environments.actions import DragAt, DragTo
from webtraj.environments.miniwob.oracles import shapes as shapes_lib
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import Element, OracleView, matched

_DISTANCE = 35.0
_DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


@oracle("drag-circle", "drag-single-shape")
async def drag_shape(page: OracleView) -> Actions:
    """Drags the shape in the direction that the goal names, and submits."""
    (direction,) = matched(
        r"Drag the (?:circle|item) (left|right|up|down) then press Submit\.", page.goal
    )
    dx, dy = _DIRECTIONS[direction]
    x, y = (await page.one("#area svg *")).center
    yield DragAt(((x, y), (x + _DISTANCE * dx, y + _DISTANCE * dy)))
    yield await submit(page)


@oracle("drag-box")
async def drag_box(page: OracleView) -> Actions:
    """Drags the small box into the large one, unless it lies there, and submits."""
    small, large = await page.one("#draggableSmall"), await page.one("#draggableLarge")
    if not _inside(small, large):
        yield DragTo(small.ref, large.ref)
    yield await submit(page)


@oracle("drag-shapes")
async def drag_shapes(page: OracleView) -> Actions:
    """Drags all shapes of a kind into the box, and submits."""
    (names,) = matched(r"Drag all (\w+)s into the black box\.", page.goal)
    box = await page.one("#shape-container")
    for shape in await shapes_lib.grid(page):
        if shape.name == names:
            yield DragAt((shape.element.center, box.center))
    yield await submit(page)


@oracle("drag-shapes-2")
async def drag_shapes_2(page: OracleView) -> Actions:
    """Drags the shapes of a kind or colour into the left box, the rest into the right, submits."""
    name, color = matched(
        r"Drag all (?:(\w+)s|(\w+) shapes) into the left box, "
        r"and everything else into the right box\.",
        page.goal,
    )
    left, right = await page.all("#shape-container")
    for shape in await shapes_lib.grid(page):
        chosen = name in (shape.name, "") and color in (shape.color, "")
        yield DragAt((shape.element.center, (left if chosen else right).center))
    yield await submit(page)


def _inside(inner: Element, outer: Element) -> bool:
    """Whether a box lies wholly inside another."""
    x, y, width, height = inner.box
    left, top, outer_width, outer_height = outer.box
    return left < x < left + outer_width - width and top < y < top + outer_height - height
