"""Building a context: goal, history and page in, messages out. Pure functions.

The order serves the prefix caches of servers: what stays the same comes first.

1. The system message: the prompt, the same in all episodes.
2. The goal, and a line for each step that is not shown in full, the oldest first.
3. The earlier rounds that are shown in full: what was seen, what was replied.
4. The current page, what the agent remembers, and the question.

Markup of turns and pictures in what comes from a task, a page or an earlier step is broken up
(`webtraj.agents.models.markup`); what the model itself replied is shown again as it was.

What is left out, by whichever limit, is said in the text where it was, and told in `Context.cuts`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from webtraj.agents.contexts.cutting import CountTokens, Cut, cut_lines, estimate_tokens
from webtraj.agents.contexts.pages import Page
from webtraj.agents.contexts.settings import ContextSettings
from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.agents.models.markup import without_markup

__all__ = ["Context", "Conversation", "Round", "build_context"]


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One step that has been made."""

    page: Page
    """What was seen,"""
    reply: str
    """what was replied, as it is to be shown again,"""
    line: str
    """and the same in a line: what was done and what came of it."""
    notice: str = ""
    """What the next page's message says of the reply: why it was no action. Empty if it was."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """All that a context is made of."""

    system: str
    """The system message; none is sent if it is empty."""
    goal: str
    """What the agent is to do."""
    page: Page
    """What is seen now."""
    rounds: tuple[Round, ...] = ()
    """The steps so far, in order."""
    memory: str = ""
    """What the agent chose to remember."""
    ask: str = ""
    """The question at the end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What goes to the model."""

    messages: tuple[Message, ...]
    page: Page
    """The current page, as far as it is shown."""
    cuts: tuple[Cut, ...] = ()
    """What was left out."""


def build_context(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    count: CountTokens = estimate_tokens,
) -> Context:
    """Returns the messages that show a conversation within the limits of the settings."""
    full = settings.shown_in_full(len(conversation.rounds))
    budget = settings.page_tokens or None
    draft = _draft(conversation, settings, full, budget, count)
    if settings.text_tokens is None:
        return draft
    while full and _cost(draft, count) > settings.text_tokens:
        full -= 1
        draft = _draft(conversation, settings, full, budget, count)
    surplus = _cost(draft, count) - settings.text_tokens
    if surplus > 0 and budget is not None:
        shown, _ = cut_lines(conversation.page.text, budget, count)
        draft = _draft(conversation, settings, full, max(count(shown) - surplus, 0), count)
    return draft


def _draft(
    conversation: Conversation,
    settings: ContextSettings,
    full: int,
    page_tokens: int | None,
    count: CountTokens,
) -> Context:
    rounds = conversation.rounds
    older, recent = rounds[: len(rounds) - full], rounds[len(rounds) - full :]
    cuts: list[Cut] = []
    opening = "\n\n".join(_opening(conversation.goal, older, settings, cuts))
    images = _images_kept([*(round_.page for round_ in recent), conversation.page], settings, cuts)
    messages = [Message.of("system", conversation.system)] if conversation.system else []
    notice = older[-1].notice if older else ""
    for position, round_ in enumerate(recent):
        what = f"round {len(older) + position + 1}"
        said = [opening] if position == 0 else []
        old_budget = settings.old_page_tokens or None
        said += _said_of(_cut(round_.page, old_budget, what, count, cuts), notice)
        messages.append(_user(said, images[position]))
        messages.append(Message.of("assistant", round_.reply))
        notice = round_.notice
    said = [opening] if not recent else []
    page = _cut(conversation.page, page_tokens, "page", count, cuts)
    said += _said_of(page, notice)
    if settings.memory and conversation.memory:
        said.append(f"What you chose to remember:\n{without_markup(conversation.memory)}")
    said.append(conversation.ask)
    messages.append(_user(said, images[-1]))
    return Context(tuple(messages), page, tuple(cuts))


def _opening(
    goal: str, older: Sequence[Round], settings: ContextSettings, cuts: list[Cut]
) -> Iterator[str]:
    yield f"Task: {without_markup(goal)}"
    if not older:
        return
    shown = older[max(len(older) - settings.older_lines, 0) :]
    lines = ["Earlier steps:"]
    if left_out := len(older) - len(shown):
        cuts.append(Cut("earlier steps", left_out))
        lines.append(f"[... {left_out} steps cut]")
    lines += [
        f"{number}. {without_markup(round_.line)}"
        for number, round_ in enumerate(shown, len(older) - len(shown) + 1)
    ]
    yield "\n".join(lines)


def _cut(page: Page, budget: int | None, what: str, count: CountTokens, cuts: list[Cut]) -> Page:
    """Returns a page whose text fits the budget; without its text if that is None."""
    if budget is None or not page.text:
        return dataclasses.replace(page, text="")
    text, left_out = cut_lines(page.text, budget, count)
    if left_out:
        cuts.append(Cut(what, left_out))
    return dataclasses.replace(page, text=text)


def _said_of(page: Page, notice: str) -> Iterator[str]:
    events = [without_markup(notice)] if notice else []
    events += page.notices
    if events:
        yield "\n".join(events)
    lines = [f"Page: {page.heading}"] if page.heading else []
    if page.text:
        lines.append(page.text)
    if lines:
        yield "\n".join(lines)


def _images_kept(
    pages: Sequence[Page], settings: ContextSettings, cuts: list[Cut]
) -> tuple[bytes, ...]:
    """Returns the picture of each page, the oldest ones left out."""
    pictured = [index for index, page in enumerate(pages) if page.image]
    kept = set(pictured[max(len(pictured) - settings.screenshots, 0) :])
    if left_out := len(pictured) - len(kept):
        cuts.append(Cut("screenshots", left_out))
    return tuple(page.image if index in kept else b"" for index, page in enumerate(pages))


def _user(said: Sequence[str], image: bytes) -> Message:
    parts: list[Part] = [Image(image)] if image else []
    text = "\n\n".join(part for part in said if part)
    if text or not parts:
        parts.append(Text(text or "[no page text]"))
    return Message("user", tuple(parts))


def _cost(context: Context, count: CountTokens) -> int:
    return sum(
        count(part.text)
        for message in context.messages
        if message.role != "system"
        for part in message.parts
        if isinstance(part, Text)
    )
