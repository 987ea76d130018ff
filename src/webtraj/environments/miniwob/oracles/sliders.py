"""Oracles of tasks with sliders and spinners, which jQuery UI lets the keyboard work."""

from __future__ import annotations

import json

from webtraj.environments.actions import Check, Press
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched

_STEPS = 50
"""The most arrow keys that a slider of 100 steps needs, from its nearer end."""


@oracle("use-slider")
async def use_slider(page: OracleView) -> Actions:
    """Moves the slider to the value, and submits."""
    (value,) = matched(r"Select (-?\d+) with the slider and hit Submit\.", page.goal)
    async for action in _set_slider(page, "#slider", "#val", int(value)):
        yield action
    yield await submit(page)


@oracle("use-slider-2")
async def use_slider_2(page: OracleView) -> Actions:
    """Moves the three sliders to their values, and submits."""
    (values,) = matched(r"Set the sliders to the combination (\[.+\]) and submit\.", page.goal)
    for number, value in enumerate(json.loads(values), start=1):
        async for action in _set_slider(page, f"#slider-{number}", f"#val-{number}", value):
            yield action
    yield await submit(page)


@oracle("form-sequence")
async def form_sequence(page: OracleView) -> Actions:
    """Moves the slider, ticks the box that the goal counts out, and submits."""
    value, box = matched(
        r"Select (-?\d+) with the slider, click the (\d)\w\w checkbox, then hit Submit\.",
        page.goal,
    )
    async for action in _set_slider(page, "#slider", "#val", int(value)):
        yield action
    yield Check((await page.all("#area input[type=checkbox]"))[int(box) - 1].ref)
    yield await submit(page)


@oracle("use-spinner")
async def use_spinner(page: OracleView) -> Actions:
    """Steps the spinner to the value, and submits."""
    (value,) = matched(r"Select (-?\d+) with the spinner and hit Submit\.", page.goal)
    spinner = await page.one("#spinner")
    steps = int(value) - int(spinner.value)
    if steps:
        yield Press(spinner.ref, _arrows(steps))
    yield await submit(page)


async def _set_slider(page: OracleView, slider: str, output: str, value: int) -> Actions:
    """Moves a slider by arrow keys, from one of its ends where that is near.

    The page shows the value beside the slider, but not its range: that is seen by going to the end.
    """
    handle = (await page.one(f"{slider} .ui-slider-handle")).ref
    steps = value - int((await page.one(output)).text)
    if abs(steps) > _STEPS:
        yield Press(handle, "End" if steps > 0 else "Home")
        steps = value - int((await page.one(output)).text)
    if steps:
        yield Press(handle, _arrows(steps))


def _arrows(steps: int) -> str:
    """Returns the keys that go so many steps up, or down."""
    return " ".join(["ArrowUp" if steps > 0 else "ArrowDown"] * abs(steps))
