"""Oracles of tasks that enter events in a calendar."""

from __future__ import annotations

from webtraj.environments.actions import DragAt, Fill, Scroll
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

_HALF_HOURS = {
    "0.5 hours": 1,
    "30 mins": 1,
    "1 hour": 2,
    "60 mins": 2,
    "1.5 hours": 3,
    "90 mins": 3,
}
_MARGIN = 6.0
"""Pixels between the ends of a stroke and those of the time it spans."""


@oracle("daily-calendar")
async def daily_calendar(page: OracleView) -> Actions:
    """Scrolls to a time that is free, drags over it, names the event and creates it."""
    length, name, begin, begin_half, end, end_half = matched(
        r'Create a (.+) event named "(\w+)", between (\d+)(AM|PM) and (\d+)(AM|PM)\.', page.goal
    )
    duration = _HALF_HOURS[length]
    first = await _free_time(page, _slot(begin, begin_half), _slot(end, end_half), duration)
    area = await page.one("#area")
    down = (await page.all("#area .half-hour"))[first].box[1] - area.box[1]
    yield Scroll(0, down, area.ref)
    slots = (await page.all("#area .half-hour"))[first : first + duration]
    x, bottom = slots[0].center[0], slots[-1].box[1] + slots[-1].box[3]
    yield DragAt(((x, slots[0].box[1] + _MARGIN), (x, bottom - _MARGIN)))
    yield Fill((await page.one("#event-name")).ref, name)
    yield await click(page, "#controls .create")


async def _free_time(page: OracleView, begin: int, end: int, duration: int) -> int:
    """Returns the first half-hour of a time without events."""
    slots = await page.all("#area .half-hour")
    events = await page.all("#area .event")
    free = [not any(_overlap(slot, event) for event in events) for slot in slots]
    for first in range(begin, end - duration + 1):
        if all(free[first : first + duration]):
            return first
    raise OracleError(f"The calendar has no {duration} half-hours left between {begin} and {end}.")


def _overlap(slot: Element, event: Element) -> bool:
    """Whether more of a half-hour than its border is taken."""
    common = min(slot.box[1] + slot.box[3], event.box[1] + event.box[3]) - max(
        slot.box[1], event.box[1]
    )
    return common > slot.box[3] / 4


def _slot(hour: str, half: str) -> int:
    """Returns the half-hour of the day that begins at an hour such as 12, PM."""
    return 2 * (int(hour) % 12 + (12 if half == "PM" else 0))
