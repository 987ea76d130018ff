"""Oracles of visual tasks: shapes, places, drawing, dragging, sorting, a cube."""

from __future__ import annotations

import cmath
import dataclasses
import math

import numpy as np
import numpy.typing as npt

from webtraj.environments.actions import (
    Click,
    ClickAt,
    DragAt,
    DragTo,
    MouseDown,
    MouseUp,
    MoveMouse,
)
from webtraj.environments.miniwob.oracles.base import (
    Actions,
    Element,
    OracleError,
    OracleView,
    click,
    match_goal,
    oracle,
    submit,
)

_NAMES = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}

_LARGE = 15.0
"""Pixels; small ones measure 10, large ones 20."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A thing in the grid."""

    element: Element
    name: str
    """What it is: `rectangle`, `circle`, `triangle`, or the letter or digit itself."""
    kind: str
    """`shape`, `letter` or `digit`."""
    color: str
    large: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """A goal's description of a shape; empty texts match anything."""

    size: str
    color: str
    what: str
    """A name, a kind, or `item` for anything."""

    @classmethod
    def parse(cls, text: str) -> Description:
        """Parse a text such as `small red digit`.

        Raises:
            OracleError: The text has another form.
        """
        return cls(*match_goal(r"(?:(large|small) )?(?:(\w{3,}) )?(\w+)", text))

    def matches(self, shape: Shape) -> bool:
        """Return whether a shape matches."""
        return (
            self.size in ("", "large" if shape.large else "small")
            and self.color in ("", shape.color)
            and self.what in ("item", shape.kind, shape.name)
        )


async def grid(page: OracleView) -> list[Shape]:
    """Return the shapes in the grid."""
    elements = await page.all("#area svg :is(rect:not(#shape-container), circle, polygon, text)")
    return [_shape(element) for element in elements]


@oracle("click-shape")
async def click_shape(page: OracleView) -> Actions:
    """Click a shape that the goal describes."""
    (text,) = match_goal(r"Click on a (.+)", page.goal)
    wanted = Description.parse(text)
    for shape in await grid(page):
        if wanted.matches(shape):
            yield Click(shape.element.ref)
            return
    raise OracleError(f"There is no {text} in the grid.")


@oracle("count-shape")
async def count_shape(page: OracleView) -> Actions:
    """Count the shapes that the goal describes, and click the count."""
    (text,) = match_goal(r"How many (.+)s are there\?", page.goal)
    wanted = Description.parse(text)
    count = sum(wanted.matches(shape) for shape in await grid(page))
    yield await click(page, "#count-buttons button", str(count))


def _shape(element: Element) -> Shape:
    if element.tag == "text":
        name, kind = element.text, "digit" if element.text.isdigit() else "letter"
        height = float(element.attributes["font-size"].removesuffix("px"))
    else:
        name, kind = _NAMES[element.tag], "shape"
        height = element.box[3]
    return Shape(element, name, kind, element.attributes["fill"], large=height > _LARGE)


_SIDES = range(3, 8)
_SECTORS = 360

_DARK_PIXELS = """() => {
  const canvas = document.querySelector("#area canvas");
  const {data, width, height} = canvas.getContext("2d").getImageData(
    0, 0, canvas.width, canvas.height);
  const found = [];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[4 * (y * width + x) + 3] > 127) found.push([x + 0.5, y + 0.5]);
    }
  }
  return found;
}"""


@oracle("ascending-numbers")
async def ascending_numbers(page: OracleView) -> Actions:
    """Remember where the numbers are, click the 1, and then the boxes that hide the rest."""
    numbers = await page.all("#area svg text")
    numbers.sort(key=lambda number: int(number.text))
    yield Click(numbers[0].ref)
    for number in numbers[1:]:
        boxes = await page.all("#area svg rect")
        nearest = min(boxes, key=lambda box: math.dist(box.center, number.center))
        yield Click(nearest.ref)


@oracle("count-sides")
async def count_sides(page: OracleView) -> Actions:
    """Look at the drawing, and click the number of its sides."""
    outline = [(float(x), float(y)) for x, y in await page.evaluate(_DARK_PIXELS)]
    yield await click(page, "#form button", str(sides_of(outline)))


def sides_of(outline: list[tuple[float, float]]) -> int:
    """Return the number of sides of a regular polygon: the number of peaks of its radius.

    Args:
        outline: The points (x, y) of its outline.
    """
    center = complex(*(sum(values) / len(outline) for values in zip(*outline, strict=True)))
    sectors: dict[int, list[float]] = {}
    for x, y in outline:
        radius, angle = cmath.polar(complex(x, y) - center)
        sectors.setdefault(int(angle / math.tau * _SECTORS), []).append(radius)
    radii = {sector: sum(found) / len(found) for sector, found in sectors.items()}
    mean = sum(radii.values()) / len(radii)

    def swell(sides: int) -> float:
        turn = 1j * math.tau * sides / _SECTORS
        return abs(sum((radius - mean) * cmath.exp(turn * s) for s, radius in radii.items()))

    return max(_SIDES, key=swell)


_SIGNALS = ("HOT", "WARM", "COLD", "ICE COLD")
_LIMITS = (5.0, 10.0, 40.0)
"""The distances in pixels at which the area's signal changes."""

_PROBE_STEP = 10
"""Pixels between candidate points to move to, while many spots remain."""

_SAMPLE = 500
"""The number of remaining spots used to score a point."""


@oracle("grid-coordinate")
async def grid_coordinate(page: OracleView) -> Actions:
    """Click the point; the grid goes from -2 to 2, x to the right and y upwards."""
    x, y = match_goal(r"Click on the grid coordinate \((-?\d),(-?\d)\)\.", page.goal)
    points = await page.all("#area circle")
    columns = sorted({point.center[0] for point in points})
    rows = sorted({point.center[1] for point in points}, reverse=True)
    wanted = (columns[int(x) + 2], rows[int(y) + 2])
    nearest = min(points, key=lambda point: math.dist(point.center, wanted))
    yield Click(nearest.ref)


@oracle("identify-shape")
async def identify_shape(page: OracleView) -> Actions:
    """Click the name of the only figure."""
    (shape,) = await grid(page)
    names = {"letter": "Letter", "digit": "Number", "shape": shape.name.capitalize()}
    yield await click(page, "#area-buttons button", names[shape.kind])


@oracle("hot-cold")
async def hot_cold(page: OracleView) -> Actions:
    """Move the mouse until the area says HOT, and click there.

    It tracks all spots consistent with the signals so far, and moves to the point that
    distinguishes them best.
    """
    box = (await page.one("#touch-area")).box
    spots, probes = _points(box, 1), _points(box, _PROBE_STEP)
    while True:
        if len(spots) < len(probes):
            probes = spots
        sample = spots[:: len(spots) // _SAMPLE + 1]
        probe = probes[np.argmax(_entropies(_signals(probes, sample)))]
        x, y = (float(value) for value in probe)
        yield MoveMouse(x, y)
        signal = (await page.one("#signal")).text
        if signal == "HOT":
            yield ClickAt(x, y)
            return
        spots = spots[_signals(probe[None], spots)[0] == _SIGNALS.index(signal)]


def _points(box: tuple[float, float, float, float], step: int) -> npt.NDArray[np.float64]:
    """Return the points of a grid over a box, of shape (points, 2)."""
    left, top, width, height = box
    axes = np.arange(round(left), left + width, step), np.arange(round(top), top + height, step)
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)


def _signals(
    points: npt.NDArray[np.float64], spots: npt.NDArray[np.float64]
) -> npt.NDArray[np.intp]:
    """Return the signal at every point for every spot, of shape (points, spots)."""
    distances = np.linalg.norm(points[:, None] - spots, axis=-1)
    signals: npt.NDArray[np.intp] = np.searchsorted(_LIMITS, distances, side="right")
    return signals


def _entropies(signals: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return the entropy of each row of signals, in nats."""
    counts = np.stack([np.sum(signals == value, axis=1) for value in range(len(_SIGNALS))])
    shares = counts / signals.shape[1]
    surprise = -np.log(np.where(shares > 0, shares, 1))
    entropies: npt.NDArray[np.float64] = np.sum(shares * surprise, axis=0)
    return entropies


_RADIUS = 20.0
_CORNERS = 8
"""The number of points of the polygon for a circle, accurate to a pixel or two."""

_HALF_LINE = 25.0
"""Half the length of a line. A stroke must begin on the canvas, whose edge may be this close."""


@oracle("draw-circle")
async def draw_circle(page: OracleView) -> Actions:
    """Draw a circle around the point, and submit."""
    x, y = (await page.one("#circ")).center
    angles = [math.tau * corner / _CORNERS for corner in range(_CORNERS + 1)]
    yield DragAt(
        tuple((x - _RADIUS * math.cos(angle), y - _RADIUS * math.sin(angle)) for angle in angles)
    )
    yield await submit(page)


@oracle("draw-line")
async def draw_line(page: OracleView) -> Actions:
    """Draw a line through the dot, and submit.

    The page measures from the corner of the dot's box, so the line's middle is offset from the
    dot's.
    """
    (direction,) = match_goal(
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


_DISTANCE = 35.0
_DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


@oracle("drag-circle", "drag-single-shape")
async def drag_shape(page: OracleView) -> Actions:
    """Drag the shape in the direction that the goal names, and submit."""
    (direction,) = match_goal(
        r"Drag the (?:circle|item) (left|right|up|down) then press Submit\.", page.goal
    )
    dx, dy = _DIRECTIONS[direction]
    x, y = (await page.one("#area svg *")).center
    yield DragAt(((x, y), (x + _DISTANCE * dx, y + _DISTANCE * dy)))
    yield await submit(page)


@oracle("drag-box")
async def drag_box(page: OracleView) -> Actions:
    """Drag the small box into the large one, unless it is there already, and submit."""
    small, large = await page.one("#draggableSmall"), await page.one("#draggableLarge")
    if not _inside(small, large):
        yield DragTo(small.ref, large.ref)
    yield await submit(page)


@oracle("drag-shapes")
async def drag_shapes(page: OracleView) -> Actions:
    """Drag all shapes of a kind into the box, and submit."""
    (names,) = match_goal(r"Drag all (\w+)s into the black box\.", page.goal)
    box = await page.one("#shape-container")
    for shape in await grid(page):
        if shape.name == names:
            yield DragAt((shape.element.center, box.center))
    yield await submit(page)


@oracle("drag-shapes-2")
async def drag_shapes_2(page: OracleView) -> Actions:
    """Drag shapes of a kind or colour into the left box and the rest into the right, and submit."""
    name, color = match_goal(
        r"Drag all (?:(\w+)s|(\w+) shapes) into the left box, "
        r"and everything else into the right box\.",
        page.goal,
    )
    left, right = await page.all("#shape-container")
    for shape in await grid(page):
        chosen = name in (shape.name, "") and color in (shape.color, "")
        yield DragAt((shape.element.center, (left if chosen else right).center))
    yield await submit(page)


def _inside(inner: Element, outer: Element) -> bool:
    """Return whether a box lies wholly inside another."""
    x, y, width, height = inner.box
    left, top, outer_width, outer_height = outer.box
    return left < x < left + outer_width - width and top < y < top + outer_height - height


_ITEMS = "#sortable li"
_COLUMNS = 3
_NUDGE = 4.0

_ROWS = {"top": 0, "center": 1, "bottom": 2}
_COLUMN_OF = {"left": 0, "center": 1, "right": 2}
_SHIFTS = {"up": -_COLUMNS, "down": _COLUMNS, "left": -1, "right": 1}


@oracle("drag-items")
async def drag_items(page: OracleView) -> Actions:
    """Drag the item that the goal names to its place in the list."""
    name, end, way, place = match_goal(
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
    """Drag the item that the goal names to its place in the grid of three by three."""
    name, row, column, way = match_goal(
        r"Drag (\S+) (?:to the (?:(top|center|bottom) (left|center|right)|center)"
        r"|(up|down|left|right) by one)\.",
        page.goal,
    )
    items = await page.all(_ITEMS)
    start = _find(items, name)
    if way:
        target = start + _SHIFTS[way]
    else:
        target = _COLUMNS * _ROWS[row or "center"] + _COLUMN_OF[column or "center"]
    yield _move(items, start, target)


@oracle("drag-sort-numbers")
async def drag_sort_numbers(page: OracleView) -> Actions:
    """Repeatedly move the smallest remaining number up to its place, and submit."""
    for place in range(4):
        items = await page.all(_ITEMS)
        numbers = [int(item.text) for item in items]
        smallest = numbers.index(min(numbers[place:]), place)
        if smallest != place:
            yield _move(items, smallest, place)
    yield await submit(page)


def _find(items: list[Element], name: str) -> int:
    """Return the index of the item with this text."""
    for index, item in enumerate(items):
        if item.text == name:
            return index
    raise OracleError(f"No item {name!r}; there are {[item.text for item in items]}.")


def _move(items: list[Element], start: int, target: int) -> DragAt:
    """Drag an item to another's place, and then a little back and forth.

    A list makes room before or after the item under the mouse, depending on the mouse's direction;
    moving both ways leaves the gap under the mouse in either case.
    """
    x, y = items[target].center
    forth, back = (x + _NUDGE, y + _NUDGE), (x - _NUDGE, y - _NUDGE)
    return DragAt((items[start].center, forth, back, (x, y)))


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
"""A point beside the cube, which follows the mouse anywhere, with room for the longest stroke."""

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
    """Turn the side that the goal names to the front, and submit.

    A cube released while turning keeps spinning, so the mouse holds it until it is still. The page
    counts the mouse's way to the start of a stroke as part of the stroke, unless the mouse rests at
    the start.
    """
    (side,) = match_goal(r'Move the cube around so that "(\d)" is the active side .+', page.goal)
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
    """Return the mouse movement in pixels."""
    style = (await page.one(".cube")).attributes["style"]
    about_x, about_y = match_goal(r"transform: rotateX\((.+)deg\) rotateY\((.+)deg\);", style)
    front_x, front_y = _FRONTS[side]
    turn_x = front_x - float(about_x)
    turn_y = 0.0 if front_y is None else (front_y - float(about_y) + 180) % 360 - 180
    # Upside down, as it is for all fronts but one and at first, it turns against the mouse.
    return -turn_y / _DEGREES_PER_PIXEL, -turn_x / _DEGREES_PER_PIXEL
