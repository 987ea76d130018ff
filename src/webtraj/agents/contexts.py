"""Contexts: what a model is shown of an episode, and in what form."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.agents.models.messages import without_markup

__all__ = [
    "Context",
    "ContextSettings",
    "Conversation",
    "CountTokens",
    "Cut",
    "MODES",
    "Mode",
    "Page",
    "Round",
    "build_context",
    "cut_lines",
    "estimate_tokens",
    "page_of",
]

# What may be set about a model's context, and how it is made smaller when it does not fit.

Mode = Literal["text", "marks", "coordinates"]

MODES: tuple[Mode, ...] = ("text", "marks", "coordinates")

_SMALLEST_PAGE = 200
"""Tokens below which a page is not cut any further: there would be nothing to act on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """How much of an episode a model is shown, and in what form."""

    mode: Mode = "text"
    """How the page is shown and elements are named:

    * `text`: the axtree, elements by their refs.
    * `marks`: numbered boxes drawn on the screenshot, elements by their numbers.
    * `coordinates`: the screenshot, points from 0 to 1000 or as the dialect counts them.
    """
    images: bool | None = None
    """Whether pictures are sent; None for what the mode needs: all but `text` do."""
    full_rounds: int = 4
    """How many earlier rounds (page and reply) are shown in full. Of older ones there is a line."""
    slide: int = 1
    """How many rounds at a time become lines. Up to `slide - 1` more rounds are shown in full then;
    in return, contexts begin with the same messages for `slide` steps, for servers that keep what
    they have computed of them. Give as many more `screenshots` too."""
    older_lines: int = 50
    """How many of those lines there are at most; the oldest are left out first."""
    screenshots: int = 5
    """How many pictures are sent at most, the current one among them; the oldest go first."""
    page_tokens: int = 8_000
    """The budget of the current page's text. What is beyond it is cut, whole lines from the end;
    0 leaves all of it out. (In `coordinates` there is none.)"""
    old_page_tokens: int = 1_000
    """The same for the page of an earlier round."""
    text_tokens: int | None = 24_000
    """The budget of all text but the system message; None for no limit. Beyond it, earlier rounds
    are shown as a line, the oldest first, and then the current page is cut."""
    memory: bool = True
    """Whether what the agent chose to remember is shown to it again at the next step."""
    keep_thinking: bool = False
    """Whether earlier replies are shown with what stands in `<think>...</think>`."""
    cut_harder: int = 2
    """How often the context is made smaller, by half each time, when the model says that it is too
    long; after that the episode is truncated."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise errors.InvalidInputError(
                f"A context's mode is one of {', '.join(MODES)}; got {self.mode!r}."
            )
        if self.mode == "coordinates" and self.images is False:
            raise errors.InvalidInputError(
                "The mode 'coordinates' shows nothing but the screenshot: leave images on, or "
                "choose the mode 'text' or 'marks'."
            )
        for name in _COUNTS:
            value = getattr(self, name)
            if name == "text_tokens" and value is None:
                continue
            least = _LEAST.get(name, 0)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise errors.InvalidInputError(
                    f"ContextSettings.{name} is a whole number of at least {least}; got {value!r}."
                )

    @property
    def with_images(self) -> bool:
        """Whether pictures are sent."""
        return self.mode != "text" if self.images is None else self.images

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels of a browser environment's observations that this needs.

        >>> ContextSettings(mode="marks").channels
        ('goal', 'url', 'title', 'scroll', 'last_action', 'set_of_marks')
        """
        shown = {"text": ("axtree",), "marks": ("set_of_marks",), "coordinates": ()}
        needs_screenshot = self.with_images and self.mode != "marks"
        pictures = ("screenshot",) if needs_screenshot else ()
        return ("goal", "url", "title", "scroll", "last_action", *shown[self.mode], *pictures)

    def shown_in_full(self, rounds: int) -> int:
        """Returns how many of so many earlier rounds are shown in full.

        >>> [ContextSettings(full_rounds=2, slide=3).shown_in_full(n) for n in range(9)]
        [0, 1, 2, 3, 4, 2, 3, 4, 2]
        """
        return rounds - max(rounds - self.full_rounds, 0) // self.slide * self.slide

    def tightened(self) -> ContextSettings | None:
        """Returns settings for a context of about half the size; None if it cannot be smaller."""
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


# Cutting text to a budget of tokens, visibly.

CountTokens = Callable[[str], int]
"""Says how many tokens a text takes. Longer texts must not take fewer."""

_BYTES_PER_TOKEN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """Something that was left out of a context."""

    what: str
    """What it was cut from: `page`, `round 3`, `earlier steps`, `screenshots`."""
    left_out: int
    """How many lines, steps or pictures of it; characters where one line was too long."""


def estimate_tokens(text: str) -> int:
    """Returns about how many tokens a text takes: one for each three bytes of UTF-8.

    Byte-pair vocabularies take three to four characters of English or of markup for a token, and
    about one character of Chinese or Japanese, which is three bytes. So this rather counts too many
    than too few. Where it matters, give the model's own tokenizer instead.

    >>> estimate_tokens('[12] button "Submit"')
    7
    """
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def cut_lines(text: str, budget: int, count: CountTokens) -> tuple[str, int]:
    r"""Cuts a text after as many whole lines as a budget allows, and says so in its last line.

    >>> cut_lines("one\ntwo\nthree\nfour", 11, len)
    ('[... 4 lines cut]', 4)
    >>> cut_lines("one\ntwo\nthree\nfour", 18, len)
    ('one\ntwo\nthree\nfour', 0)
    >>> cut_lines("one\n" * 100, 30, len)
    ('one\none\none\n[... 97 lines cut]', 97)

    Args:
        text: What to cut.
        budget: How many tokens it may take, the last line included where that is possible.
        count: Counts tokens.

    Returns:
        The text, and how many lines were left out; of a text of one line, how many characters.
    """
    if count(text) <= budget:
        return text, 0
    lines = text.splitlines()
    if len(lines) == 1:
        kept = _most(
            len(text), lambda n: count(text[:n] + _cut(len(text) - n, "character")), budget
        )
        return text[:kept] + _cut(len(text) - kept, "character"), len(text) - kept

    def shortened(n: int) -> str:
        return "\n".join([*lines[:n], _cut(len(lines) - n, "line")])

    kept = _most(len(lines) - 1, lambda n: count(shortened(n)), budget)
    return shortened(kept), len(lines) - kept


def _cut(number: int, unit: str) -> str:
    return f"[... {number} {unit}{'s' * (number != 1)} cut]"


def _most(limit: int, cost: Callable[[int], int], budget: int) -> int:
    """Returns the largest number up to `limit` whose cost is within the budget; 0 if none is."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if cost(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


# What of an observation a model is shown: a page's text, its picture, and what has happened.
#
# Whatever a page says is text for the model to read. Nothing here takes any of it for an
# instruction, lines that come from pages are bounded in length, and markup that would end a turn or
# stand for a picture (`webtraj.agents.models.messages`) is broken up.

_LONGEST_LINE = 300
_MOST_LINES = 10
_INVALID = "invalid_"
"""How a browser environment's `error_kind` begins where the action was an `InvalidAction`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One observation, as far as it is shown."""

    heading: str = ""
    """The page's title and URL, where they are observed."""
    text: str = ""
    """The page itself, a line for each element."""
    image: bytes = b""
    """The encoded picture; empty if there is none."""
    notices: tuple[str, ...] = ()
    """What has happened since the last step, a line each."""
    marks: tuple[str, ...] | None = None
    """The ref of each mark, where elements go by marks; mark n is at index n - 1."""

    @property
    def names(self) -> tuple[str, ...]:
        """What elements go by: the marks' numbers, or the refs in the text."""
        if self.marks is not None:
            return tuple(str(number) for number in range(1, len(self.marks) + 1))
        from webtraj.environments.browser.observation import refs_in

        return tuple(element.ref for element in refs_in(self.text))


def page_of(observation: Any, settings: ContextSettings) -> Page:
    """Returns what of an observation is shown.

    Raises:
        AgentError: The observation lacks a channel that the settings need.
    """
    if not isinstance(observation, Mapping):
        raise errors.AgentError(
            "A model agent needs observations that are mappings, such as a browser environment's; "
            f"got a {type(observation).__name__}."
        )
    text = ""
    marks: tuple[str, ...] | None = None
    if settings.mode == "text":
        text = str(_channel(observation, "axtree", settings))
    elif settings.mode == "marks":
        marked = _channel(observation, "set_of_marks", settings)
        marks = tuple(str(ref) for ref in marked["refs"])
        text = "\n".join(_marks(marked))
    image = b""
    if settings.with_images and settings.mode == "marks":
        image = _channel(observation, "set_of_marks", settings)["image"]
    elif settings.with_images:
        image = _channel(observation, "screenshot", settings)
    return Page(
        heading=without_markup(_heading(observation)),
        text=without_markup(text),
        image=image,
        notices=tuple(map(without_markup, _notices(observation))),
        marks=marks,
    )


def _channel(observation: Mapping[str, Any], name: str, settings: ContextSettings) -> Any:
    if name not in observation:
        raise errors.AgentError(
            f"The context mode {settings.mode!r} needs the channel {name!r}, which the observation "
            f"lacks; it has {', '.join(sorted(map(str, observation)))}. Make the environment with "
            f"observe={list(settings.channels)}."
        )
    return observation[name]


def _marks(marked: Mapping[str, Any]) -> Iterator[str]:
    for number, (role, name) in enumerate(zip(marked["roles"], marked["names"], strict=True), 1):
        named = f" {json.dumps(_line(name), ensure_ascii=False)}" if name else ""
        yield f"[{number}] {role}{named}"


def _heading(observation: Mapping[str, Any]) -> str:
    title, url = _line(observation.get("title", "")), _line(observation.get("url", ""))
    if title and url:
        return f"{title} ({url})"
    return title or url


def _notices(observation: Mapping[str, Any]) -> Iterator[str]:
    last = observation.get("last_action") or {}
    unread = last.get("error_kind", "").startswith(_INVALID)  # That, the agent says itself.
    if (error := last.get("error", "")) and not unread:
        yield f"The last action was not done: {_line(error)}"
    for channel, said in _EVENTS.items():
        events = list(observation.get(channel, ()))
        for event in events[:_MOST_LINES]:
            yield f"{said}: {_line(event)}"
        if len(events) > _MOST_LINES:
            yield f"{said}: [... {len(events) - _MOST_LINES} more]"
    downloads = observation.get("downloads") or {}
    for name in list(downloads.get("names", ()))[:_MOST_LINES]:
        yield f"A file has arrived: {_line(name)}"
    if (status := observation.get("http_status", 0)) >= 400:
        yield f"The site answered with the HTTP status {status}."
    tabs = list(observation.get("tabs", ()))
    if len(tabs) > 1:
        active = observation.get("active_tab", -1)
        for index, url in enumerate(tabs[:_MOST_LINES]):
            here = " (this one)" if index == active else ""
            yield f"Tab {index}{here}: {_line(url)}"


_EVENTS = {
    "dialogs": "A dialog was shown and answered",
    "blocked": "Kept from the page",
}


def _line(text: Any) -> str:
    """Returns a text of the page's as one line of bounded length."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


# Building a context: goal, history and page in, messages out. Pure functions.
#
# The order serves the prefix caches of servers: what stays the same comes first.
#
# 1. The system message: the prompt, the same in all episodes.
# 2. The goal, and a line for each step that is not shown in full, the oldest first.
# 3. The earlier rounds that are shown in full: what was seen, what was replied.
# 4. The current page, what the agent remembers, and the question.
#
# Markup of turns and pictures in what comes from a task, a page or an earlier step is broken up
# (`webtraj.agents.models.messages`); what the model itself replied is shown again as it was.
#
# What is left out, by whichever limit, is said in the text where it was, and told in
# `Context.cuts`.


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
        said += _said_of(_building_cut(round_.page, old_budget, what, count, cuts), notice)
        messages.append(_user(said, images[position]))
        messages.append(Message.of("assistant", round_.reply))
        notice = round_.notice
    said = [opening] if not recent else []
    page = _building_cut(conversation.page, page_tokens, "page", count, cuts)
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


def _building_cut(
    page: Page, budget: int | None, what: str, count: CountTokens, cuts: list[Cut]
) -> Page:
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
