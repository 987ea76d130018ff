"""Oracles of tasks with a mailbox."""

from __future__ import annotations

from webtraj.environments.actions import Click, Fill
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import click
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched


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
    """Does with the mail what the goal says."""
    sender, text, to, icon = matched(
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
    """Does with the mail what the goal says in one of many wordings.

    It takes the names from the fields that the page gives beside its goal: some of the wordings
    name the two people the wrong way round, and no reader could know.
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
    """Clicks an icon beside the mail."""
    yield await _click_in_mail_by(page, sender, icon)


async def _forward(page: OracleView, sender: str, to: str) -> Actions:
    """Opens the mail and forwards it."""
    yield await _click_in_mail_by(page, sender, "")
    yield await click(page, ".email-forward")
    yield Fill((await page.one(".forward-sender")).ref, to)
    yield await click(page, "#send-forward")


async def _reply(page: OracleView, sender: str, text: str) -> Actions:
    """Opens the mail and replies to it."""
    yield await _click_in_mail_by(page, sender, "")
    yield await click(page, ".email-reply")
    yield Fill((await page.one("#reply-text")).ref, text)
    yield await click(page, "#send-reply")


async def _click_in_mail_by(page: OracleView, sender: str, selector: str) -> Click:
    """Clicks an icon of the first mail by a sender, or the mail itself."""
    senders = [line.text for line in await page.all("#main .email-sender")]
    if sender not in senders:
        raise OracleError(f"There is no mail by {sender!r}; there is some by {senders}.")
    return Click((await page.all(f"#main .email-thread {selector}"))[senders.index(sender)].ref)
