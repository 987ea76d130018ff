"""Oracles of tasks with shapes, letters and digits in a grid, and what they read of such a grid."""

from __future__ import annotations

import dataclasses

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

__all__ = ["Description", "Shape", "grid"]

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
    """What a goal says of a shape; an empty text is what it leaves open."""

    size: str
    color: str
    what: str
    """A name, a kind, or `item` for anything."""

    @classmethod
    def parse(cls, text: str) -> Description:
        """Returns what a text such as `small red digit` says.

        Raises:
            OracleError: It says something else.
        """
        return cls(*matched(r"(?:(large|small) )?(?:(\w{3,}) )?(\w+)", text))

    def matches(self, shape: Shape) -> bool:
        """Whether it is true of a shape."""
        return (
            self.size in ("", "large" if shape.large else "small")
            and self.color in ("", shape.color)
            and self.what in ("item", shape.kind, shape.name)
        )


async def grid(page: OracleView) -> list[Shape]:
    """Returns the shapes in the grid."""
    elements = await page.all("#area svg :is(rect:not(#shape-container), circle, polygon, text)")
    return [_shape(element) for element in elements]


@oracle("click-shape")
async def click_shape(page: OracleView) -> Actions:
    """Clicks a shape that the goal describes."""
    (text,) = matched(r"Click on a (.+)", page.goal)
    wanted = Description.parse(text)
    for shape in await grid(page):
        if wanted.matches(shape):
            yield Click(shape.element.ref)
            return
    raise OracleError(f"There is no {text} in the grid.")


@oracle("count-shape")
async def count_shape(page: OracleView) -> Actions:
    """Counts the shapes that the goal describes, and clicks the count."""
    (text,) = matched(r"How many (.+)s are there\?", page.goal)
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
