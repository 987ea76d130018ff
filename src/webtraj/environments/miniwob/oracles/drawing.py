"""Oracles of tasks that draw with the mouse."""

from __future__ import annotations

import math

from webtraj.environments.actions import DragAt
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched

_RADIUS = 20.0
_CORNERS = 8
"""Of the polygon that stands for a circle; it strays from it by a pixel or two."""

_HALF_LINE = 25.0
"""Half the length of a line. A stroke must begin on the canvas, whose edge may be that near."""


@oracle("draw-circle")
async def draw_circle(page: OracleView) -> Actions:
    """Draws a circle around the point, and submits."""
    x, y = (await page.one("#circ")).center
    angles = [math.tau * corner / _CORNERS for corner in range(_CORNERS + 1)]
    yield DragAt(
        tuple((x - _RADIUS * math.cos(angle), y - _RADIUS * math.sin(angle)) for angle in angles)
    )
    yield await submit(page)


@oracle("draw-line")
async def draw_line(page: OracleView) -> Actions:
    """Draws a line through the dot, and submits.

    The page measures from the corner of the dot's box, so the middle of the line lies off that of
    the dot.
    """
    (direction,) = matched(
        r"Draw a (horizontal|vertical) line that runs through the dot, then press submit\.",
        page.goal,
    )
    dot = await page.one("#circ")
    (x, y), (left, top, _, _) = dot.center, dot.box
    if direction == "horizontal":
        path = ((x - _HALF_LINE, y), (left, y), (x + _HALF_LINE, y))
    else:
        path = ((x, y - _HALF_LINE), (x, top), (x, y + _HALF_LINE))
    yield DragAt(path)
    yield await submit(page)
