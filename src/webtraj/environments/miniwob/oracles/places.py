"""Oracles of tasks that are about where something is, or what it looks like."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from webtraj.environments.actions import Click, ClickAt, MoveMouse
from webtraj.environments.miniwob.oracles import shapes as shapes_lib
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import OracleView, matched

_SIGNALS = ("HOT", "WARM", "COLD", "ICE COLD")
_LIMITS = (5.0, 10.0, 40.0)
"""The distances in pixels at which the area's signal changes."""

_PROBE_STEP = 10
"""Pixels between the points that it thinks of moving to, while many spots are left."""

_SAMPLE = 500
"""How many of the spots left are enough to judge a point by."""


@oracle("grid-coordinate")
async def grid_coordinate(page: OracleView) -> Actions:
    """Clicks the point; the grid goes from -2 to 2, x to the right and y upwards."""
    x, y = matched(r"Click on the grid coordinate \((-?\d),(-?\d)\)\.", page.goal)
    points = await page.all("#area circle")
    columns = sorted({point.center[0] for point in points})
    rows = sorted({point.center[1] for point in points}, reverse=True)
    wanted = (columns[int(x) + 2], rows[int(y) + 2])
    nearest = min(points, key=lambda point: math.dist(point.center, wanted))
    yield Click(nearest.ref)


@oracle("identify-shape")
async def identify_shape(page: OracleView) -> Actions:
    """Clicks the name of the only figure."""
    (shape,) = await shapes_lib.grid(page)
    names = {"letter": "Letter", "digit": "Number", "shape": shape.name.capitalize()}
    yield await click(page, "#area-buttons button", names[shape.kind])


@oracle("hot-cold")
async def hot_cold(page: OracleView) -> Actions:
    """Moves the mouse about until the area says HOT, and clicks there.

    It keeps in mind all spots that agree with what the area said so far, and moves to the point
    from which they differ most.
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
    """Returns the points of a grid over a box, of shape (points, 2)."""
    left, top, width, height = box
    axes = np.arange(round(left), left + width, step), np.arange(round(top), top + height, step)
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)


def _signals(
    points: npt.NDArray[np.float64], spots: npt.NDArray[np.float64]
) -> npt.NDArray[np.intp]:
    """Returns the signal at every point for every spot, of shape (points, spots)."""
    distances = np.linalg.norm(points[:, None] - spots, axis=-1)
    signals: npt.NDArray[np.intp] = np.searchsorted(_LIMITS, distances, side="right")
    return signals


def _entropies(signals: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Returns how many nats each row of signals tells: how evenly its values are spread."""
    counts = np.stack([np.sum(signals == value, axis=1) for value in range(len(_SIGNALS))])
    shares = counts / signals.shape[1]
    surprise = -np.log(np.where(shares > 0, shares, 1))
    entropies: npt.NDArray[np.float64] = np.sum(shares * surprise, axis=0)
    return entropies
