"""The oracle of the task that turns a cube with the mouse."""

from __future__ import annotations

from webtraj.environments.actions import MouseDown, MouseUp, MoveMouse
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched

_FRONTS = {
    "1": (264.0, None),
    "2": (175.0, 177.0),
    "3": (175.0, 86.0),
    "4": (175.0, 0.0),
    "5": (175.0, 269.0),
    "6": (88.0, None),
}
"""Rotation about x and y, in degrees, that turns the middle of a side to the front; None: any."""

_START = (200.0, 150.0)
"""Beside the cube, which follows the mouse wherever that is, with room for the longest stroke."""

_DEGREES_PER_PIXEL = 1.15
_STROKES = 4
"""The cube coasts a little, so a stroke may fall short."""

_AT_REST = """() => new Promise(resolve => {
  const cube = document.querySelector(".cube");
  let before = cube.style.transform, still = 0;
  const look = () => {
    still = cube.style.transform === before ? still + 1 : 0;
    before = cube.style.transform;
    if (still >= 5) resolve();
    else setTimeout(look, 20);
  };
  look();
})"""
"""Waits until the cube, which the page moves every 20 ms, stands still."""


@oracle("drag-cube")
async def drag_cube(page: OracleView) -> Actions:
    """Turns the side that the goal names to the front, and submits.

    A cube that is let go while it turns spins on, so the mouse holds it until it stands still. And
    the page takes the way to where the button goes down for a stroke, unless the mouse rests there.
    """
    (side,) = matched(r'Move the cube around so that "(\d)" is the active side .+', page.goal)
    if not await _is_front(page, side):
        x, y = _START
        yield MoveMouse(x, y)
        await page.evaluate(_AT_REST)
        yield MouseDown()
        for _ in range(_STROKES):
            dx, dy = await _stroke(page, side)
            x, y = x + dx, y + dy
            yield MoveMouse(x, y)
            await page.evaluate(_AT_REST)
            if await _is_front(page, side):
                break
        else:
            raise OracleError(f"The cube did not turn side {side} to the front.")
        yield MouseUp()
    yield await submit(page)


async def _is_front(page: OracleView, side: str) -> bool:
    return (await page.one("#area .active")).text == side


async def _stroke(page: OracleView, side: str) -> tuple[float, float]:
    """Returns by how many pixels to move the mouse."""
    style = (await page.one(".cube")).attributes["style"]
    about_x, about_y = matched(r"transform: rotateX\((.+)deg\) rotateY\((.+)deg\);", style)
    front_x, front_y = _FRONTS[side]
    turn_x = front_x - float(about_x)
    turn_y = 0.0 if front_y is None else (front_y - float(about_y) + 180) % 360 - 180
    # Upside down, as it is for all fronts but one and at first, it turns against the mouse.
    return -turn_y / _DEGREES_PER_PIXEL, -turn_x / _DEGREES_PER_PIXEL
