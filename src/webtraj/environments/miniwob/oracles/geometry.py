"""Oracles of tasks that are done by the eye: numbers that vanish, sides of a polygon."""

from __future__ import annotations

import cmath
import math

from webtraj.environments.actions import Click
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import OracleView

__all__ = ["sides_of"]

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
    """Remembers where the numbers are, clicks the 1, and then the boxes that hide the rest."""
    numbers = await page.all("#area svg text")
    numbers.sort(key=lambda number: int(number.text))
    yield Click(numbers[0].ref)
    for number in numbers[1:]:
        boxes = await page.all("#area svg rect")
        nearest = min(boxes, key=lambda box: math.dist(box.center, number.center))
        yield Click(nearest.ref)


@oracle("count-sides")
async def count_sides(page: OracleView) -> Actions:
    """Looks at the drawing, and clicks the number of its sides."""
    outline = [(float(x), float(y)) for x, y in await page.evaluate(_DARK_PIXELS)]
    yield await click(page, "#form button", str(sides_of(outline)))


def sides_of(outline: list[tuple[float, float]]) -> int:
    """Returns how many sides a regular polygon has: how often its radius swells in a round.

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
