"""Oracles of tasks with jQuery UI's date picker, and how they use it."""

from __future__ import annotations

import calendar

from webtraj.environments.actions import Click, Press
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click, still, submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched

__all__ = ["pick_date"]

_MONTHS = list(calendar.month_name)


@oracle("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def choose_date(page: OracleView) -> Actions:
    """Picks the date, and submits."""
    month, day, year = matched(
        r"Select (\d\d)/(\d\d)/(\d{4}) as the date and hit submit\.", page.goal
    )
    async for action in pick_date(page, int(year), int(month), int(day)):
        yield action
    yield await submit(page)


async def pick_date(page: OracleView, year: int, month: int, day: int) -> Actions:
    """Opens the date picker, turns to the month by the keyboard, and clicks the day.

    A year is eleven pages, so its arrows would take eleven clicks.
    """
    field = await page.one("#datepicker")
    yield Click(field.ref)
    await still(page)
    shown_month, shown_year = matched(
        r"([A-Z][a-z]+) (\d{4})", (await page.one(".ui-datepicker-title")).text
    )
    ahead = (int(year) - int(shown_year)) * 12 + month - _MONTHS.index(shown_month)
    if ahead:
        key = "PageDown" if ahead > 0 else "PageUp"
        yield Press(field.ref, " ".join([key] * abs(ahead)))
    yield await click(page, ".ui-datepicker-calendar a", str(day))
    await still(page)
