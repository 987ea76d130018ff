"""Which requests are in flight, and waiting until there are none."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request

__all__ = ["NetworkWatch"]

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
