"""Oracles of tasks with small applications: mail, posts, search, calendar, travel."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from webtraj.environments.actions import Click, DragAt, Fill, Hover, Press, Scroll
from webtraj.environments.miniwob.oracles.base import (
    Actions,
    Element,
    OracleError,
    OracleView,
    click,
    match_goal,
    oracle,
    wait_until_painted,
)
from webtraj.environments.miniwob.oracles.widgets import pick_date


@oracle(
    "email-inbox",
    "email-inbox-delete",
    "email-inbox-forward",
    "email-inbox-important",
    "email-inbox-noscroll",
    "email-inbox-reply",
    "email-inbox-star-reply",
)
async def email_inbox(page: OracleView) -> Actions:
    """Do what the goal says with an email."""
    sender, text, to, icon = match_goal(
        r"Find the email by (.+?) and (?:"
        r'reply to them with the text "(.+)"|'
        r"forward that email to (.+?)|"
        r"click the (trash|star) icon to (?:delete it|mark it as important))\.",
        page.goal,
    )
    if icon:
        actions = _click_icon(page, sender, f".{icon}")
    elif to:
        actions = _forward(page, sender, to)
    else:
        actions = _reply(page, sender, text)
    async for action in actions:
        yield action


@oracle("email-inbox-forward-nl", "email-inbox-forward-nl-turk", "email-inbox-nl-turk")
async def email_inbox_in_many_words(page: OracleView) -> Actions:
    """Do what the goal says, in one of many wordings, with an email.

    It takes the names from extra fields of the page, because some wordings of the goal swap the two
    people, and no reader could tell.
    """
    fields = await page.evaluate("() => core.getUtterance().fields")
    sender = fields["by"]
    match fields.get("task", "forward"):
        case "forward":
            actions = _forward(page, sender, fields["to"])
        case "reply":
            actions = _reply(page, sender, fields["message"])
        case "delete":
            actions = _click_icon(page, sender, ".trash")
        case "star":
            actions = _click_icon(page, sender, ".star")
        case task:
            raise OracleError(f"The page names an unknown task, {task!r}.")
    async for action in actions:
        yield action


async def _click_icon(page: OracleView, sender: str, icon: str) -> Actions:
    """Click an icon beside the email."""
    yield await _click_in_mail_by(page, sender, icon)


async def _forward(page: OracleView, sender: str, to: str) -> Actions:
    """Open the mail and forward it."""
    yield await _click_in_mail_by(page, sender, "")
    yield await click(page, ".email-forward")
    yield Fill((await page.one(".forward-sender")).ref, to)
    yield await click(page, "#send-forward")


async def _reply(page: OracleView, sender: str, text: str) -> Actions:
    """Open the mail and reply to it."""
    yield await _click_in_mail_by(page, sender, "")
    yield await click(page, ".email-reply")
    yield Fill((await page.one("#reply-text")).ref, text)
    yield await click(page, "#send-reply")


async def _click_in_mail_by(page: OracleView, sender: str, selector: str) -> Click:
    """Click an icon of a sender's first email, or the email itself."""
    senders = [line.text for line in await page.all("#main .email-sender")]
    if sender not in senders:
        raise OracleError(f"There is no mail by {sender!r}; there is some by {senders}.")
    return Click((await page.all(f"#main .email-thread {selector}"))[senders.index(sender)].ref)


_ICONS = {"Reply": ".reply", "Retweet": ".retweet", "Like": ".like", "Share": ".share"}


@oracle("social-media")
async def social_media(page: OracleView) -> Actions:
    """Click an icon of the user's post, or an item of its menu.

    An icon under the mouse changes its image, and has no area while that loads.
    """
    user, button = match_goal(r'For the user (@\w+), click on the "(.+)" button\.', page.goal)
    icon = (await _parts_of_posts(page, user, _ICONS.get(button, ".more")))[0]
    for _ in range(3):  # On a busy machine the image may still be missing when the click comes.
        yield Hover(icon.ref)
        await wait_until_painted(page)
        yield Click(icon.ref)
        if button in _ICONS:
            return
        for item in await page.all("#area .media ul li"):
            if item.visible and item.text in (button, f"{button} {user}"):
                yield Click(item.ref)
                return
    raise OracleError(f"The menu of {user}'s post has no {button!r}.")


@oracle("social-media-all", "social-media-some")
async def social_media_all(page: OracleView) -> Actions:
    """Click an icon of all the user's posts, or of the given number, and submit."""
    button, count, user = match_goal(
        r'Click the "(\w+)" button on (?:all|(\d+)) posts? by (@\w+) and then click Submit\.',
        page.goal,
    )
    icons = await _parts_of_posts(page, user, _ICONS[button])
    for icon in icons[: int(count) if count else None]:
        yield Click(icon.ref)
    yield await click(page, "#submitRow button")


async def _parts_of_posts(page: OracleView, user: str, selector: str) -> list[Element]:
    """Return the element that the selector matches in each of a user's posts.

    Raises:
        OracleError: The user has no post.
    """
    users = await page.all("#area .media .username")
    parts = await page.all(f"#area .media {selector}")
    found = [part for name, part in zip(users, parts, strict=True) if name.text == user]
    if not found:
        names = sorted({name.text for name in users})
        raise OracleError(f"There is no post by {user}; there are posts by {', '.join(names)}.")
    return found


_RESULTS_A_PAGE = 3


@oracle("phone-book")
async def phone_book(page: OracleView) -> Actions:
    """Turn the pages until the person appears, and click the phone number, mail or address."""
    name, item = match_goal(
        r"Find (.+) in the contact book and click on their (phone|email|address)(?: number)?\.",
        page.goal,
    )
    while (await page.one("#contact .name")).text != name:
        yield await click(page, "#pagination li:not(.disabled) a", ">")
    yield await click(page, f"#contact .{item}")


@oracle("search-engine")
async def search_engine(page: OracleView) -> Actions:
    """Search, turn to the page with the result that the goal numbers, and click it."""
    text, nth = match_goal(
        r'Use the textbox to enter "(.+)" and press "Search", '
        r"then find and click the (\d)\w\w search result\.",
        page.goal,
    )
    yield Fill((await page.one("#search-text")).ref, text)
    yield await click(page, "#search")
    turns, row = divmod(int(nth) - 1, _RESULTS_A_PAGE)
    if turns:
        yield await click(page, "#pagination a", str(turns + 1))
    yield Click((await page.all("#page-content .search-title"))[row].ref)


@oracle("navigate-tree")
async def navigate_tree(page: OracleView) -> Actions:
    """Open one folder after another until the file or folder appears, and click it."""
    (name,) = match_goal(
        r"Navigate through the file tree\. Find and click on the folder or file "
        r'named "(\w+)"\.',
        page.goal,
    )
    opened: set[str] = set()
    while True:
        names = [element for element in await page.all("#tree li > span") if element.visible]
        for element in names:
            if element.text == name:
                yield Click(element.ref)
                return
        folder = _next_folder(names, opened)
        opened.add(folder.ref)
        yield Click(folder.ref)


def _next_folder(names: list[Element], opened: set[str]) -> Element:
    """Return the first folder that was not opened yet."""
    for element in names:
        if "folder" in element.attributes["class"].split() and element.ref not in opened:
            return element
    raise OracleError("The tree has no more folders to open.")


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
    """Scroll to a free time, drag over it, name the event and create it."""
    length, name, begin, begin_half, end, end_half = match_goal(
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
    """Return the first half-hour of a free time."""
    slots = await page.all("#area .half-hour")
    events = await page.all("#area .event")
    free = [not any(_overlap(slot, event) for event in events) for slot in slots]
    for first in range(begin, end - duration + 1):
        if all(free[first : first + duration]):
            return first
    raise OracleError(f"The calendar has no {duration} half-hours left between {begin} and {end}.")


def _overlap(slot: Element, event: Element) -> bool:
    """Return whether more of a half-hour than its border is taken."""
    common = min(slot.box[1] + slot.box[3], event.box[1] + event.box[3]) - max(
        slot.box[1], event.box[1]
    )
    return common > slot.box[3] / 4


def _slot(hour: str, half: str) -> int:
    """Return the half-hour of the day that begins at an hour such as 12, PM."""
    return 2 * (int(hour) % 12 + (12 if half == "PM" else 0))


@oracle("buy-ticket")
async def buy_ticket(page: OracleView) -> Actions:
    """Buy the ticket that costs or takes the least or the most."""
    (which,) = match_goal(r"Buy the ticket with the (.+)\.", page.goal)
    best, quantity = {
        "cheapest cost": (min, _prices),
        "most expensive cost": (max, _prices),
        "shortest duration": (min, _minutes),
        "longest duration": (max, _minutes),
    }[which]
    yield await _book(page, "button.buy-ticket", best, quantity)


@oracle("book-flight", "book-flight-nodelay")
async def book_flight(page: OracleView) -> Actions:
    """Look the flights up, and book the cheapest or the shortest."""
    which, origin, destination, month, day, year = match_goal(
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
    """Type a text unique to the airport, `Reno, NV (` or `(RNO)`, and take the suggestion.

    Suggestions appear after a delay, or at once after the arrow down key. If they appear while keys
    are being pressed, the keys miss them. Then the text is typed again and the suggestion clicked.
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
    """Return whether an airport, `Reno, NV (RNO)`, has this city, `Reno, NV`, or code, `RNO`."""
    return name.startswith(f"{place} (") or name.endswith(f" ({place})")


async def _book(
    page: OracleView,
    buttons: str,
    best: Callable[[list[int]], int],
    quantity: Callable[[OracleView], Awaitable[list[int]]],
) -> Click:
    """Return a click on the button of the flight with the best price or duration."""
    amounts = await quantity(page)
    flights = await page.all(f"#area .flight {buttons}")
    return Click(flights[amounts.index(best(amounts))].ref)


async def _prices(page: OracleView) -> list[int]:
    """Return the flights' prices in dollars."""
    buttons = await page.all("#area .flight .book button")
    return [int(match_goal(r"Book (?:flight )?for \$(\d+)", button.text)[0]) for button in buttons]


async def _minutes(page: OracleView) -> list[int]:
    """Return the flights' durations in minutes."""
    texts = [duration.text for duration in await page.all("#area .flight .time-duration")]
    durations = [match_goal(r"(\d+)h (\d+)m", text) for text in texts]
    return [60 * int(hours) + int(minutes) for hours, minutes in durations]
