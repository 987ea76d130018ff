"""The pages that an exploring episode saw, and the actions between them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from webtraj.environments.actions import base as actions_lib
from webtraj.environments.actions import dialects as dialects_lib
from webtraj.environments.actions import read_action
from webtraj.environments.browser.recorded_channels import last_action_of, number_of, text_of
from webtraj.trajectory import EpisodeTrajectory, StepRecord

__all__ = [
    "CHANNELS",
    "Seen",
    "Sight",
    "channels_with",
    "page_key",
    "read_seen",
    "site_key",
]

CHANNELS = ("goal", "url", "title", "axtree", "http_status", "last_action")
"""The observation channels that proposers read."""


def channels_with(channels: Iterable[str]) -> list[str]:
    """Return the channels to observe: those of an agent, those that proposers read, and times."""
    return list(dict.fromkeys((*channels, *CHANNELS, "timings", "info")))


_UNREADABLE = "an action that has no words"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One step: the action, and the page seen after it."""

    index: int
    """The step's index in the episode."""
    url: str
    title: str = ""
    axtree: str = ""
    """The page as text (`webtraj.environments.browser.observation`); empty if not observed."""
    http_status: int = 0
    """The HTTP status; 0 if unknown."""
    action: str = ""
    """The action in webtraj's notation; empty on the first step."""
    verb: str = ""
    """The action's verb: `click`."""
    text: str = ""
    """The text that the action typed or chose, if any."""
    role: str = ""
    """The role of the target element."""
    name: str = ""
    """The name of the target element."""
    error: str = ""
    """Why the action failed; empty if it did not."""

    @property
    def is_sound(self) -> bool:
        """Whether the page belongs to a site and is not an error page."""
        return self.http_status < 400 and urlsplit(self.url).scheme in ("http", "https")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The pages and actions of one episode."""

    episode_id: str
    task: str
    """The coarse task's name."""
    goal: str
    """The coarse task's description."""
    sites: tuple[str, ...]
    """The `site_key` of the site to explore, and of the site it redirected to, if another."""
    sights: tuple[Sight, ...]
    """The steps in order, without those whose observation shows no page."""

    @property
    def site(self) -> str:
        """The site's name."""
        return self.sites[0] if self.sites else ""

    def at(self, index: int) -> Sight | None:
        """Return the step with an index; None if there is none."""
        return next((sight for sight in self.sights if sight.index == index), None)

    def is_inside(self, url: str) -> bool:
        """Return whether a URL belongs to the site."""
        return site_key(url) in self.sites


def read_seen(trajectory: EpisodeTrajectory) -> Seen:
    """Return the pages and actions of an episode. Text on disk is read; pictures are not."""
    task = trajectory.info.metadata.get("task")
    spec: Mapping[str, Any] = task if isinstance(task, Mapping) else {}
    found = (_sight(step) for step in trajectory.steps)
    sights = tuple(sight for sight in found if sight is not None)
    places = [str(spec.get("start_url") or ""), *(sight.url for sight in sights[:1])]
    sites = dict.fromkeys(site for place in places if (site := site_key(place)))
    return Seen(
        episode_id=trajectory.info.episode_id,
        task=trajectory.info.task,
        goal=trajectory.info.goal or str(spec.get("goal") or ""),
        sites=tuple(sites),
        sights=sights,
    )


def site_key(url: str) -> str:
    """Return a key shared by all URLs of a site; empty if it is not a web address.

    >>> site_key("https://www.Example.org/shop"), site_key("http://localhost:80/"), site_key("x")
    ('example.org', 'localhost', '')
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https"):
        return ""
    usual = port in (None, {"http": 80, "https": 443}[parts.scheme])
    return host if usual or not host else f"{host}:{port}"


def page_key(url: str) -> str:
    """Return a key shared by all URLs of a page.

    >>> page_key("https://www.example.org/shop/?q=a#top") == page_key("http://example.org/shop?q=a")
    True
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    query = f"?{parts.query}" if parts.query else ""
    return f"{site_key(url)}{parts.path.rstrip('/')}{query}"


def _sight(step: StepRecord) -> Sight | None:
    observation = step.observation
    if not isinstance(observation, Mapping) or not isinstance(observation.get("url"), str):
        return None
    last = last_action_of(observation)
    action = read_action(step.action)
    is_action = isinstance(action, actions_lib.Action)
    return Sight(
        index=step.index,
        url=text_of(observation, "url"),
        title=text_of(observation, "title"),
        axtree=text_of(observation, "axtree"),
        http_status=int(number_of(observation, "http_status") or 0),
        action="" if action is None else _describe_action(action),
        verb=action.verb if is_action else "",
        text=_find_typed(action) if is_action else "",
        role=last.get("role", ""),
        name=last.get("name", ""),
        error=last.get("error", ""),
    )


def _describe_action(action: Any) -> str:
    if not isinstance(action, actions_lib.Action):
        return str(action) if isinstance(action, str) else _UNREADABLE
    try:
        return str(dialects_lib.make_dialect("webtraj").format(action))
    except ValueError:  # The dialect cannot express it.
        return repr(action)


def _find_typed(action: actions_lib.Action) -> str:
    for name in ("value", "text", "options"):
        typed = getattr(action, name, "")
        if typed:
            return typed if isinstance(typed, str) else ", ".join(map(str, typed))
    return ""
