"""When a page counts as settled after an action: a policy, and which requests are in flight."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Final

from webtraj import errors as errors_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request

__all__ = ["LIVE_SITE", "LOCAL_PAGE", "NetworkWatch", "SettlePolicy"]

# When a page counts as settled after an action: a policy, not a sleep.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettlePolicy:
    """Waits until the page has stood still for `quiet`, at most `cap`. Times are in seconds.

    Standing still means: the document is parsed, no mutation of the DOM, no finite animation, no
    picture in view that is still to come, and, where `network_quiet` is given, no request in flight
    for that long. How the wait ended is part of the observation: `quiet`, `cap`, `navigated`.
    """

    quiet: float = 0.016
    """How long the DOM stands still; a frame is enough for handlers that run at once."""
    cap: float = 3.0
    """The longest wait. Pages that never stand still are observed as they are."""
    network_quiet: float | None = None
    """How long no request is in flight; None does not watch the network."""
    pictures: float = 1.0
    """How long a picture in view that is still to come is waited for; 0 waits for none."""
    load: float = 10.0
    """The longest wait for a navigation to load."""

    def __post_init__(self) -> None:
        if not 0 <= self.quiet <= self.cap:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs 0 <= quiet <= cap; got {self.quiet} and {self.cap}."
            )


LOCAL_PAGE: Final = SettlePolicy()
"""For pages that live in the browser alone, such as MiniWoB++."""

LIVE_SITE: Final = SettlePolicy(quiet=0.1, cap=10.0, network_quiet=0.5)
"""For sites that fetch what they show; half a second of network quiet is Stagehand's rule too."""


# Which requests are in flight, and waiting until there are none.

_NEVER_END = frozenset({"websocket", "eventsource", "ping", "media"})
"""Kinds of requests that say nothing about whether a page has what it shows."""

_FORGOTTEN_AFTER = 2.0
"""Seconds after which a request no longer counts: long polls, trackers. Stagehand's rule."""


class NetworkWatch:
    """Watches the requests of a context."""

    def __init__(self, context: BrowserContext) -> None:
        self._begun: dict[Request, float] = {}
        self._changed = asyncio.Event()
        self._last_change = 0.0
        context.on("request", self._on_request)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    async def wait_until_quiet(self, *, quiet: float, cap: float) -> bool:
        """Waits until no request has been in flight for `quiet` seconds, at most `cap` seconds.

        Returns:
            Whether it came to that.
        """
        clock = asyncio.get_running_loop().time
        begun = clock()
        while (now := clock()) < begun + cap:
            forgotten = [start + _FORGOTTEN_AFTER for start in self._begun.values()]
            in_flight = [end for end in forgotten if end > now]
            since = max([begun, self._last_change, *(end for end in forgotten if end <= now)])
            if not in_flight and now - since >= quiet:
                return True
            wake = min(in_flight, default=since + quiet)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(wake, begun + cap)):
                    await self._changed.wait()
        return False

    def _on_request(self, request: Request) -> None:
        if request.resource_type not in _NEVER_END:
            self._begun[request] = self._note()

    def _on_end(self, request: Request) -> None:
        if self._begun.pop(request, None) is not None:
            self._note()

    def _note(self) -> float:
        self._last_change = asyncio.get_running_loop().time()
        self._changed.set()
        return self._last_change
