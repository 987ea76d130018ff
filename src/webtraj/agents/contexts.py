"""Contexts: the part of an episode that a model sees, and its form."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text, ToolCall
from webtraj.agents.models.messages import without_markup
from webtraj.environments.browser import recorded_channels

__all__ = [
    "Context",
    "ContextSettings",
    "Conversation",
    "CountTokens",
    "Cut",
    "MODES",
    "NOT_PLAYED",
    "Mode",
    "Page",
    "Round",
    "build_context",
    "cut_lines",
    "estimate_tokens",
    "page_of",
]

# Settings of a model's context, and how it shrinks when it does not fit.

Mode = Literal["text", "aria", "marks", "coordinates"]

MODES: tuple[Mode, ...] = ("text", "aria", "marks", "coordinates")

_SMALLEST_PAGE = 200
"""A page is not cut below this many tokens: there would be nothing left to act on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """Settings for how much of an episode a model sees, and in what form."""

    mode: Mode = "text"
    """The form of the page, and the names of elements:

    * `text`: the axtree, with refs as names.
    * `aria`: Playwright's ARIA snapshot, with the same refs as names.
    * `marks`: numbered boxes drawn on the screenshot, with the numbers as names.
    * `coordinates`: the screenshot, with points from 0 to 1000 or in the dialect's units.
    """
    images: bool | None = None
    """Whether to send pictures. None: as the mode needs, that is in `marks` and `coordinates`."""
    full_rounds: int = 4
    """The number of earlier rounds (page and reply) shown in full; older ones become one line."""
    slide: int = 1
    """The number of rounds that become lines at a time. Up to `slide - 1` more rounds are then
    shown in full; in return, contexts start with the same messages for `slide` steps, which helps
    servers with a prefix cache. Raise `screenshots` by as many."""
    older_lines: int = 50
    """The most such lines; the oldest are dropped first."""
    screenshots: int = 5
    """The most pictures, including the current one; the oldest are dropped first."""
    page_tokens: int = 8_000
    """The token budget of the current page's text. Whole lines beyond it are cut from the end; 0
    leaves all text out. (The mode `coordinates` has no text.)"""
    old_page_tokens: int = 1_000
    """The same for the page of an earlier round."""
    changes: bool = False
    """Whether a page after the first shown is given by its changes, as long as that is shorter and
    the browser has not navigated. Pages of earlier rounds then have the budget `page_tokens` too.
    For the modes `text` and `aria`."""
    text_tokens: int | None = 24_000
    """The token budget of all text except the system message; None for no limit. Beyond it, earlier
    rounds become lines, the oldest first, and then the current page is cut."""
    memory: bool = True
    """Whether the next step shows the agent's memory."""
    keep_thinking: bool = False
    """Whether earlier replies are shown with their `<think>...</think>`."""
    cut_harder: int = 2
    """The number of times to halve the context when the model reports that it is too long; after
    that the episode is truncated."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise errors.InvalidInputError(
                f"Unknown context mode {self.mode!r}; expected one of {', '.join(MODES)}."
            )
        if self.mode == "coordinates" and self.images is False:
            raise errors.InvalidInputError(
                "The mode 'coordinates' shows only the screenshot, so it needs images. Leave "
                "images on, or choose the mode 'text' or 'marks'."
            )
        if self.changes and self.mode not in ("text", "aria"):
            raise errors.InvalidInputError(
                f"The mode {self.mode!r} has no lines to compare, so it cannot show changes. Leave "
                "changes off, or choose the mode 'text' or 'aria'."
            )
        for name in _COUNTS:
            value = getattr(self, name)
            if name == "text_tokens" and value is None:
                continue
            least = _LEAST.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise errors.InvalidInputError(
                    f"ContextSettings.{name} must be an integer of at least {least}; got {value!r}."
                )

    @property
    def with_images(self) -> bool:
        """Whether pictures are sent."""
        return self.mode in ("marks", "coordinates") if self.images is None else self.images

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that these settings need.

        >>> ContextSettings(mode="marks").channels
        ('goal', 'url', 'title', 'scroll', 'last_action', 'set_of_marks')
        """
        shown = {
            "text": ("axtree",),
            "aria": ("aria",),
            "marks": ("set_of_marks",),
            "coordinates": (),
        }
        needs_screenshot = self.with_images and self.mode != "marks"
        pictures = ("screenshot",) if needs_screenshot else ()
        return ("goal", "url", "title", "scroll", "last_action", *shown[self.mode], *pictures)

    def count_full_rounds(self, rounds: int) -> int:
        """Return how many of the earlier rounds are shown in full.

        >>> [ContextSettings(full_rounds=2, slide=3).count_full_rounds(n) for n in range(9)]
        [0, 1, 2, 3, 4, 2, 3, 4, 2]
        """
        return rounds - max(rounds - self.full_rounds, 0) // self.slide * self.slide

    def tighten(self) -> ContextSettings | None:
        """Return settings for about half the context; None if it cannot shrink further."""
        if self.full_rounds == 0 and self.page_tokens <= _SMALLEST_PAGE and self.older_lines == 0:
            return None
        halved: dict[str, Any] = {
            name: getattr(self, name) // 2
            for name in ("full_rounds", "older_lines", "old_page_tokens")
        }
        if self.text_tokens is not None:
            halved["text_tokens"] = max(self.text_tokens // 2, 1)
        return dataclasses.replace(
            self,
            **halved,
            slide=1,
            screenshots=max(self.screenshots // 2, min(self.screenshots, 1)),
            page_tokens=max(self.page_tokens // 2, min(self.page_tokens, _SMALLEST_PAGE)),
        )


_COUNTS = (
    "full_rounds",
    "slide",
    "older_lines",
    "screenshots",
    "page_tokens",
    "old_page_tokens",
    "text_tokens",
    "cut_harder",
)
_LEAST = {"slide": 1, "text_tokens": 1}


# Visibly cutting text to a token budget.

CountTokens = Callable[[str], int]
"""Counts a text's tokens. Longer texts must not have fewer."""

_BYTES_PER_TOKEN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """A part that was left out of a context."""

    what: str
    """The cut part: `page`, `round 3`, `earlier steps`, `screenshots`."""
    left_out: int
    """The number of lines, steps or pictures left out; characters if one line was too long."""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: one per three bytes of UTF-8.

    Byte-pair vocabularies average three to four characters per token in English or markup, and
    about one character (three bytes) in Chinese or Japanese. So the estimate tends to be high. For
    exact budgets, use the model's own tokenizer.

    >>> estimate_tokens('[12] button "Submit"')
    7
    """
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def cut_lines(text: str, budget: int, count: CountTokens) -> tuple[str, int]:
    r"""Cut a text to whole lines within a budget, and add a last line that says so.

    >>> cut_lines("one\ntwo\nthree\nfour", 11, len)
    ('[... 4 lines cut]', 4)
    >>> cut_lines("one\ntwo\nthree\nfour", 18, len)
    ('one\ntwo\nthree\nfour', 0)
    >>> cut_lines("one\n" * 100, 30, len)
    ('one\none\none\n[... 97 lines cut]', 97)

    Args:
        text: The text to cut.
        budget: The most tokens of the result, including the last line if possible.
        count: Counts tokens.

    Returns:
        The text, and how many lines were left out. For a text of one line, how many characters.
    """
    if count(text) <= budget:
        return text, 0
    lines = text.splitlines()
    if len(lines) == 1:
        kept = _most(
            len(text), lambda n: count(text[:n] + _cut(len(text) - n, "character")), budget
        )
        return text[:kept] + _cut(len(text) - kept, "character"), len(text) - kept

    def shorten(n: int) -> str:
        return "\n".join([*lines[:n], _cut(len(lines) - n, "line")])

    kept = _most(len(lines) - 1, lambda n: count(shorten(n)), budget)
    return shorten(kept), len(lines) - kept


def _cut(number: int, unit: str) -> str:
    return f"[... {number} {unit}{'s' * (number != 1)} cut]"


def _most(limit: int, cost: Callable[[int], int], budget: int) -> int:
    """Return the largest number up to `limit` whose cost is within the budget, or 0."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if cost(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


# The visible part of an observation: the page's text, its picture, and recent events.
#
# Page content is data for the model to read, never an instruction. Lines from pages have a maximum
# length, and markup that would end a turn or stand for a picture is broken up
# (`webtraj.agents.models.messages`).

_LONGEST_LINE = 300
_MOST_LINES = 10
_INVALID = "invalid_"
"""The prefix of a browser environment's `error_kind` for an `InvalidAction`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """The visible part of an observation."""

    heading: str = ""
    """The page's title and URL, if observed."""
    text: str = ""
    """The page itself, one line per element."""
    image: bytes = b""
    """The encoded picture; empty if there is none."""
    notices: tuple[str, ...] = ()
    """Events since the last step, one line each."""
    marks: tuple[str, ...] | None = None
    """The ref of each mark, in mode `marks`; mark n is at index n - 1."""
    aria: bool = False
    """Whether the text is an ARIA snapshot."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of elements: the marks' numbers, or the refs in the text."""
        if self.marks is not None:
            return tuple(str(number) for number in range(1, len(self.marks) + 1))
        from webtraj.environments.browser.observation import aria_refs_in, refs_in

        if self.aria:
            return tuple(aria_refs_in(self.text))
        return tuple(element.ref for element in refs_in(self.text))


def page_of(observation: Any, settings: ContextSettings) -> Page:
    """Return the visible part of an observation.

    Raises:
        AgentError: The observation lacks a channel that the settings need, or holds something else
            there.
    """
    if not isinstance(observation, Mapping):
        raise errors.AgentError(
            "A model agent needs mappings as observations, such as those of a browser environment; "
            f"got a {type(observation).__name__}."
        )
    text = ""
    image = b""
    marks: tuple[str, ...] | None = None
    if settings.mode in ("text", "aria"):
        text = _channel(observation, "axtree" if settings.mode == "text" else "aria", settings, str)
    elif settings.mode == "marks":
        marked = _channel(observation, "set_of_marks", settings, Mapping)
        marks = tuple(recorded_channels.texts_of(marked, "refs") or ())
        text = "\n".join(_marks(marked))
        if settings.with_images:
            image = _channel(marked, "image", settings, bytes)
    if settings.with_images and settings.mode != "marks":
        image = _channel(observation, "screenshot", settings, bytes)
    return Page(
        heading=without_markup(_heading(observation)),
        text=without_markup(text),
        image=image,
        notices=tuple(map(without_markup, _notices(observation))),
        marks=marks,
        aria=settings.mode == "aria",
    )


def _channel(
    observation: Mapping[str, Any], name: str, settings: ContextSettings, kind: Any
) -> Any:
    value = recorded_channels.channel_of(observation, name)
    if not isinstance(value, kind):
        raise errors.AgentError(
            f"The context mode {settings.mode!r} needs the channel {name!r}, but the observation "
            f"has only {', '.join(sorted(map(str, observation)))}. Make the environment with "
            f"observe={list(settings.channels)}."
            if value is None
            else f"The channel {name!r} holds a {type(value).__name__}; expected "
            f"{kind.__name__}, as browser environments observe it."
        )
    return value


def _marks(marked: Mapping[str, Any]) -> Iterator[str]:
    roles, names = (
        recorded_channels.texts_of(marked, "roles") or (),
        recorded_channels.texts_of(marked, "names") or (),
    )
    for number, (role, name) in enumerate(zip(roles, names, strict=False), 1):
        named = f" {json.dumps(_line(name), ensure_ascii=False)}" if name else ""
        yield f"[{number}] {role}{named}"


def _heading(observation: Mapping[str, Any]) -> str:
    title, url = (_line(recorded_channels.text_of(observation, name)) for name in ("title", "url"))
    if title and url:
        return f"{title} ({url})"
    return title or url


def _notices(observation: Mapping[str, Any]) -> Iterator[str]:
    last = recorded_channels.last_action_of(observation)
    unread = last.get("error_kind", "").startswith(_INVALID)  # The agent reports those itself.
    if (error := last.get("error", "")) and not unread:
        yield f"The last action was not done: {_line(error)}"
    for channel, said in _EVENTS.items():
        events = recorded_channels.texts_of(observation, channel) or []
        for event in events[:_MOST_LINES]:
            yield f"{said}: {_line(event)}"
        if len(events) > _MOST_LINES:
            yield f"{said}: [... {len(events) - _MOST_LINES} more]"
    downloads = recorded_channels.channel_of(observation, "downloads")
    for name in (recorded_channels.texts_of(downloads, "names") or [])[:_MOST_LINES]:
        yield f"A file has arrived: {_line(name)}"
    if (status := recorded_channels.number_of(observation, "http_status") or 0) >= 400:
        yield f"The site answered with the HTTP status {status:.0f}."
    tabs = recorded_channels.texts_of(observation, "tabs") or []
    if len(tabs) > 1:
        active = recorded_channels.number_of(observation, "active_tab")
        for index, url in enumerate(tabs[:_MOST_LINES]):
            here = " (this one)" if index == active else ""
            yield f"Tab {index}{here}: {_line(url)}"


_EVENTS = {
    "dialogs": "A dialog was shown and answered",
    "blocked": "Kept from the page",
}


def _line(text: Any) -> str:
    """Return a page's text as one line of limited length."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


# Building a context: goal, history and page in, messages out. Pure functions.
#
# The order suits servers' prefix caches: what stays the same comes first.
#
# 1. The system message: the prompt, the same in all episodes.
# 2. The goal, and a line for each step that is not shown in full, oldest first.
# 3. The earlier rounds shown in full: page and reply.
# 4. The current page, the agent's memory, and the question.
#
# Turn and picture markup in text from a task, a page or an earlier step is broken up
# (`webtraj.agents.models.messages`); the model's own replies are shown unchanged.
#
# Whatever a limit leaves out is marked in the text at that place, and listed in `Context.cuts`.


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One finished step."""

    page: Page
    """The page that was seen."""
    reply: str
    """The reply, in the form to show again."""
    line: str
    """A one-line summary: the action and its result."""
    notice: str = ""
    """For an invalid reply, the reason, shown with the next page; else empty."""
    calls: tuple[ToolCall, ...] = ()
    """The reply's tool calls. The next page is the result of the first; no other is played."""
    items: tuple[Any, ...] = ()
    """The reply in the provider's format; see `Message.items`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """The input of a context."""

    system: str
    """The system message; not sent if empty."""
    goal: str
    """The agent's goal."""
    page: Page
    """The current page."""
    rounds: tuple[Round, ...] = ()
    """The steps so far, in order."""
    memory: str = ""
    """The text that the agent chose to remember."""
    ask: str = ""
    """The question at the end."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The messages for the model."""

    messages: tuple[Message, ...]
    page: Page
    """The current page, as shown."""
    cuts: tuple[Cut, ...] = ()
    """The parts left out."""


def build_context(
    conversation: Conversation,
    settings: ContextSettings,
    *,
    count: CountTokens = estimate_tokens,
) -> Context:
    """Return the messages for a conversation, within the limits of the settings."""
    full = settings.count_full_rounds(len(conversation.rounds))
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
    opening = "\n\n".join(_opening_lines(conversation.goal, older, settings, cuts))
    images = _keep_images([*(round_.page for round_ in recent), conversation.page], settings, cuts)
    messages = [Message.of("system", conversation.system)] if conversation.system else []
    notice = older[-1].notice if older else ""
    calls: tuple[ToolCall, ...] = ()  # A call that is not shown has no result.
    old_tokens = page_tokens if settings.changes else settings.old_page_tokens or None
    pages = [
        _cut_text(round_.page, old_tokens, f"round {number}", count, cuts)
        for number, round_ in enumerate(recent, len(older) + 1)
    ]
    page = _cut_text(conversation.page, page_tokens, "page", count, cuts)
    pages.append(page)
    if settings.changes:
        pages[1:] = [_by_changes(before, after) for before, after in itertools.pairwise(pages)]
    for position, round_ in enumerate(recent):
        said = [opening] if position == 0 else []
        said += _describe_page(pages[position], notice)
        messages += _results(calls, _user(said, images[position]))
        messages.append(_assistant(round_))
        notice, calls = round_.notice, round_.calls
    said = [opening] if not recent else []
    said += _describe_page(pages[-1], notice)
    if settings.memory and conversation.memory:
        said.append(f"What you chose to remember:\n{without_markup(conversation.memory)}")
    said.append(conversation.ask)
    messages += _results(calls, _user(said, images[-1]))
    return Context(tuple(messages), page, tuple(cuts))


def _opening_lines(
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


def _cut_text(
    page: Page, budget: int | None, what: str, count: CountTokens, cuts: list[Cut]
) -> Page:
    """Return a page with its text cut to the budget; without text if the budget is None."""
    if budget is None or not page.text:
        return dataclasses.replace(page, text="")
    text, left_out = cut_lines(page.text, budget, count)
    if left_out:
        cuts.append(Cut(what, left_out))
    return dataclasses.replace(page, text=text)


_CHANGED = "What changed since the page above (+ new, ~ changed, - removed):"
_UNCHANGED = "The page is the same as above."


def _by_changes(before: Page, after: Page) -> Page:
    """Return a page as a list of changes; whole if that is shorter, or if the page is new."""
    from webtraj.environments.browser.observation import page_changes

    if not before.text or not after.text or before.heading != after.heading:
        return after
    if before.text == after.text:
        text = _UNCHANGED
    else:
        text = f"{_CHANGED}\n{page_changes(before.text, after.text)}"
    return after if len(text) >= len(after.text) else dataclasses.replace(after, text=text)


def _describe_page(page: Page, notice: str) -> Iterator[str]:
    events = [without_markup(notice)] if notice else []
    events += page.notices
    if events:
        yield "\n".join(events)
    lines = [f"Page: {page.heading}"] if page.heading else []
    if page.text:
        lines.append(page.text)
    if lines:
        yield "\n".join(lines)


def _keep_images(
    pages: Sequence[Page], settings: ContextSettings, cuts: list[Cut]
) -> tuple[bytes, ...]:
    """Return the picture of each page, without the oldest ones beyond the limit."""
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


def _assistant(round_: Round) -> Message:
    parts = (Text(round_.reply),) if round_.reply or not round_.calls else ()
    return Message("assistant", parts, calls=round_.calls, items=round_.items)


def _results(calls: tuple[ToolCall, ...], page: Message) -> Iterator[Message]:
    """Yield a result for each tool call: the page for the first, a short note for the others."""
    if not calls:
        yield page
        return
    yield dataclasses.replace(page, role="tool", calls=calls[:1])
    for call in calls[1:]:
        yield Message("tool", (Text(NOT_PLAYED),), calls=(call,), failed=True)


NOT_PLAYED = "Not carried out: only the first tool call of a reply is. Call it again if needed."
"""The result of the other tool calls of a reply."""


def _cost(context: Context, count: CountTokens) -> int:
    return sum(
        count(part.text)
        for message in context.messages
        if message.role != "system"
        for part in message.parts
        if isinstance(part, Text)
    )
