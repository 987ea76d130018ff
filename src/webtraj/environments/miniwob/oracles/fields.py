"""Oracles of tasks whose goal says what goes into which field."""

from __future__ import annotations

import datetime

from webtraj.environments.actions import Click, Fill, Focus
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleView, matched


@oracle("enter-text-dynamic")
async def enter_text_dynamic(page: OracleView) -> Actions:
    """Types the word and submits."""
    (word,) = matched(r'Enter "(.+)" into the text field and press Submit\.', page.goal)
    yield Fill((await page.one("#tt")).ref, word)
    yield await submit(page)


@oracle("enter-text-2")
async def enter_text_2(page: OracleView) -> Actions:
    """Types the word in the letter case that the goal asks for, and submits."""
    word, case = matched(
        r'Type "(.+)" in all (upper|lower) case letters in the text input and press Submit\.',
        page.goal,
    )
    yield Fill((await page.one("#tt")).ref, word.upper() if case == "upper" else word.lower())
    yield await submit(page)


@oracle("enter-password")
async def enter_password(page: OracleView) -> Actions:
    """Types the password into both fields and submits."""
    (password,) = matched(
        r'Enter the password "(.+)" into both text fields and press submit\.', page.goal
    )
    for field in ("#password", "#verify"):
        yield Fill((await page.one(field)).ref, password)
    yield await submit(page)


@oracle("enter-date")
async def enter_date(page: OracleView) -> Actions:
    """Sets the date, which a date field takes in ISO form, and submits."""
    month, day, year = matched(r"Enter (\d+)/(\d+)/(\d+) as the date and hit submit\.", page.goal)
    date = datetime.date(int(year), int(month), int(day))
    yield Fill((await page.one("#tt")).ref, date.isoformat())
    yield await submit(page)


@oracle("enter-time")
async def enter_time(page: OracleView) -> Actions:
    """Sets the time, which a time field takes by the 24-hour clock, and submits."""
    hour, minute, half = matched(
        r"Enter (\d+):(\d\d) (AM|PM) as the time and press submit\.", page.goal
    )
    hours = int(hour) % 12 + (12 if half == "PM" else 0)
    yield Fill((await page.one("#tt")).ref, f"{hours:02}:{minute}")
    yield await submit(page)


@oracle("focus-text-2")
async def focus_text_2(page: OracleView) -> Actions:
    """Gives the field that the goal counts out the focus."""
    (nth,) = matched(r"Focus into the (\d)\w\w input textbox\.", page.goal)
    yield Focus((await page.all("#area input"))[int(nth) - 1].ref)


@oracle("login-user-popup")
async def login_user_popup(page: OracleView) -> Actions:
    """Logs in, and waves away the popup that may open when a field gets the focus."""
    user, password = matched(
        r'Enter the username "(.+)" and the password "(.+)" into the text fields and press login\.',
        page.goal,
    )
    for selector, value in (("#username", user), ("#password", password)):
        field = await page.one(selector)
        yield Click(field.ref)
        for cancel in await page.all("#popup-cancel"):
            yield Click(cancel.ref)
        yield Fill(field.ref, value)
    yield Click((await page.one("#subbtn")).ref)
