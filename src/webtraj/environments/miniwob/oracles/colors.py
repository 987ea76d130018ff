"""Oracles of tasks that are done by telling colours apart."""

from __future__ import annotations

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched


@oracle("click-color")
async def click_color(page: OracleView) -> Actions:
    """Clicks the box of the colour that the goal names."""
    (color,) = matched(r"Click on the (\w+) colored box\.", page.goal)
    boxes = await page.all("#area .color")
    for box in boxes:
        if _background(box) == color:
            yield Click(box.ref)
            return
    raise OracleError(f"No box is {color}; they are {[_background(box) for box in boxes]}.")


@oracle("click-shades")
async def click_shades(page: OracleView) -> Actions:
    """Clicks every box whose colour is mostly red, green or blue, and submits."""
    (color,) = matched(r"Select all the shades of (red|green|blue) and press Submit\.", page.goal)
    for box in await page.all("#area span"):
        channels = [
            int(channel) for channel in matched(r"rgb\((\d+), (\d+), (\d+)\)", _background(box))
        ]
        if ("red", "green", "blue")[channels.index(max(channels))] == color:
            yield Click(box.ref)
    yield await submit(page)


def _background(box: Element) -> str:
    """Returns the colour that an element's style gives it."""
    return matched(r"background-color: (.+);", box.attributes["style"])[0]
