"""Oracles of tasks that book flights and buy tickets."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from webtraj.environments.actions import Click, Fill, Press
from webtraj.environments.miniwob.oracles.dates import pick_date
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import Element, OracleError, OracleView, matched

__all__ = ["is_airport"]


@oracle("buy-ticket")
async def buy_ticket(page: OracleView) -> Actions:
    """Buys the ticket that costs or takes the least or the most."""
    (which,) = matched(r"Buy the ticket with the (.+)\.", page.goal)
    best, quantity = {
        "cheapest cost": (min, _prices),
        "most expensive cost": (max, _prices),
        "shortest duration": (min, _minutes),
        "longest duration": (max, _minutes),
    }[which]
    yield await _book(page, "button.buy-ticket", best, quantity)


@oracle("book-flight", "book-flight-nodelay")
async def book_flight(page: OracleView) -> Actions:
    """Looks the flights up, and books the cheapest or the shortest."""
    which, origin, destination, month, day, year = matched(
        r"Book the (cheapest|shortest) one-way flight from: (.+) to: (.+) "
        r"on (\d\d)/(\d\d)/(\d{4})\.",
        page.goal,
    )
    for field, place in (("#flight-from", origin), ("#flight-to", destination)):
        async for action in _enter_airport(page, field, place):
            yield action
    async for action in pick_date(page, int(year), int(month), int(day)):
        yield action
    yield await click(page, "#search")
    quantity = _prices if which == "cheapest" else _minutes
    yield await _book(page, "button.flight-price", min, quantity)


async def _enter_airport(page: OracleView, selector: str, place: str) -> Actions:
    """Types what only the airport's name holds, `Reno, NV (` or `(RNO)`, and takes the suggestion.

    Suggestions come after a while, or at once when the arrow down asks for them. Where they come
    in between the keys pass them by, so then it types again and clicks.
    """
    field = (await page.one(selector)).ref
    typed = f"({place})" if re.fullmatch("[A-Z]{3}", place) else f"{place} ("
    yield Fill(field, typed)
    suggestion = await _suggestion(page, place)
    if suggestion is None:
        yield Press(field, "ArrowDown ArrowDown Enter")
        if is_airport((await page.one(selector)).value, place):
            return
        yield Fill(field, typed)
        yield Press(field, "ArrowDown")
        suggestion = await _suggestion(page, place)
    if suggestion is None:
        raise OracleError(f"The page suggests no airport for {place!r}.")
    yield Click(suggestion.ref)


async def _suggestion(page: OracleView, place: str) -> Element | None:
    for item in await page.all(".ui-autocomplete li"):
        if item.visible and is_airport(item.text, place):
            return item
    return None


def is_airport(name: str, place: str) -> bool:
    """Whether an airport, `Reno, NV (RNO)`, is the one of a city, `Reno, NV`, or code, `RNO`."""
    return name.startswith(f"{place} (") or name.endswith(f" ({place})")


async def _book(
    page: OracleView,
    buttons: str,
    best: Callable[[list[int]], int],
    quantity: Callable[[OracleView], Awaitable[list[int]]],
) -> Click:
    """Returns a click on the button of the flight whose price or duration is the best."""
    amounts = await quantity(page)
    flights = await page.all(f"#area .flight {buttons}")
    return Click(flights[amounts.index(best(amounts))].ref)


async def _prices(page: OracleView) -> list[int]:
    """Returns what the flights cost, in dollars."""
    buttons = await page.all("#area .flight .book button")
    return [int(matched(r"Book (?:flight )?for \$(\d+)", button.text)[0]) for button in buttons]


async def _minutes(page: OracleView) -> list[int]:
    """Returns how long the flights take."""
    texts = [duration.text for duration in await page.all("#area .flight .time-duration")]
    durations = [matched(r"(\d+)h (\d+)m", text) for text in texts]
    return [60 * int(hours) + int(minutes) for hours, minutes in durations]
