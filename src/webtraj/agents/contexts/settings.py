"""What may be set about a model's context, and how it is made smaller when it does not fit."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from webtraj import errors

__all__ = ["MODES", "ContextSettings", "Mode"]

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
