"""What of an observation a model is shown: a page's text, its picture, and what has happened.

Whatever a page says is text for the model to read. Nothing here takes any of it for an instruction,
lines that come from pages are bounded in length, and markup that would end a turn or stand for a
picture (`webtraj.agents.models.markup`) is broken up.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.contexts.settings import ContextSettings
from webtraj.agents.models.markup import without_markup

__all__ = ["Page", "page_of"]

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
