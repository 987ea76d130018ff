"""The requests that a page has in flight, and the wait until there are none."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Response

__all__ = ["NetworkWatch"]

_NEVER_END = frozenset({"websocket", "eventsource", "ping", "media"})
"""Kinds of requests that do not affect whether a page is complete."""

_NO_LONGER_COMING: Final = (
    "frameStartedNavigating",
    "frameNavigated",
    "frameStoppedLoading",
    "frameDetached",
)
"""Events after which a frame has asked for its document, or will not."""

_FORGOTTEN_AFTER = 2.0
"""Seconds after which a request, such as a long poll or a tracker, is ignored, unless a policy's
`answers` says otherwise. Stagehand has the same rule."""


_MANY: Final = 2
"""If a page asks for a URL more often than this between two actions, no action caused it."""

_WITH_DIGITS: Final = re.compile(r"=[^&]*\d[^&]*")
"""Values of a query that may differ between two requests for the same thing."""

_NO_CONTENT: Final = (204, 205)
"""Answers to a navigation that leave the page as it is."""


@dataclasses.dataclass(slots=True)
class _PageRequests:
    """A page's requests."""

    begun: dict[Request, float] = dataclasses.field(default_factory=dict)
    """When each request in flight began."""
    changed: float = 0.0
    """When a request last began or ended."""
    asked: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often each place was asked for since the last action began, see `_place`."""
    habits: frozenset[str] = frozenset()
    """The places that the page asks for by itself: those asked for more than `_MANY` times between
    two actions, or not answered in time."""
    acted: float = 0.0
    """When the last action began."""
    caused: float = 0.0
    """When the last request that an action caused began."""
    leaving: Request | None = None
    """The request for the document to which the page is on its way."""
    coming: dict[str, float] = dataclasses.field(default_factory=dict)
    """The frames that will ask for a document, by id, and how long to expect that."""

    def is_coming(self, now: float) -> bool:
        """Return whether a frame will ask for a document."""
        return any(end > now for end in self.coming.values())

    def is_caused(self, request: Request) -> bool:
        """Return whether an action probably caused a request."""
        place = _place(request)
        return place not in self.habits and self.asked[place] <= _MANY

    def awaits(self, request: Request) -> bool:
        """Return whether a request began since the last action, and that action caused it."""
        return self.begun[request] >= self.acted and self.is_caused(request)


class NetworkWatch:
    """A monitor of the requests of a context's pages.

    Args:
        context: The context.
        answers: See `SettlePolicy.answers`.
    """

    def __init__(self, context: BrowserContext, *, answers: float | None = None) -> None:
        self._answers = answers
        self._pages: WeakKeyDictionary[Page, _PageRequests] = WeakKeyDictionary()
        self._changed = asyncio.Event()
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    async def attend(self, page: Page, debugger: CDPSession) -> None:
        """Learn from a tab's debugging session when a frame will ask for a document.

        A frame asks some time after a script or a form sends it to another document. The page
        script cannot see this in a new frame. Frames of other processes are not covered.
        """
        debugger.on(
            "Page.frameRequestedNavigation", lambda event: self._on_frame_will_ask(page, event)
        )
        for name in _NO_LONGER_COMING:
            debugger.on(f"Page.{name}", lambda event: self._on_frame_has_asked(page, event))
        await debugger.send("Page.enable")

    def begin_action(self, page: Page) -> None:
        """Begin an action. What the page has requested repeatedly does not count as its effect."""
        fetching = self._of(page)
        fetching.habits |= {url for url, count in fetching.asked.items() if count > _MANY}
        fetching.asked.clear()
        fetching.acted = asyncio.get_running_loop().time()

    def note_arrival(self, page: Page) -> None:
        """Note that a page shows another document, or that a navigation became a download."""
        fetching = self._of(page)
        fetching.leaving = None
        self._note(fetching)

    def is_leaving(self, page: Page) -> bool:
        """Return whether a page is on its way to another document."""
        return self._of(page).leaving is not None

    def has_asked_since(self, page: Page, since: float) -> bool:
        """Return whether an action caused a request since then, or a frame will ask for one.

        Answered requests count too, because the page may use the answer later.
        """
        fetching = self._of(page)
        return fetching.caused > since or fetching.is_coming(asyncio.get_running_loop().time())

    async def wait_until_quiet(
        self, page: Page, *, quiet: float, cap: float, restless: float, departure: float
    ) -> bool:
        """Wait until a page has had no request in flight for `quiet` seconds.

        Args:
            page: The page.
            quiet: Seconds.
            cap: The longest wait. It starts again when a request that the action caused is
                answered.
            restless: The longest wait for requests that the page makes by itself.
            departure: The longest wait for a document on its way.

        Returns:
            Whether the network became quiet.
        """
        clock = asyncio.get_running_loop().time
        fetching = self._of(page)
        begun = resumed = clock()
        answering = False
        while (now := clock()) < begun + max(cap, departure, self._answers or 0.0):
            leaving = fetching.leaving is not None and now < begun + departure
            ends = {request: self._end_of(fetching, request) for request in fetching.begun}
            in_flight = {request: end for request, end in ends.items() if end > now}
            if self._answers is not None:
                awaited = [request for request in ends if fetching.awaits(request)]
                if answering and not awaited:
                    resumed = now  # What the page does with the answer gets its own time.
                answering = any(request in in_flight for request in awaited)
                # One that was not answered in time may be a long poll.
                fetching.habits |= {_place(one) for one in awaited if one not in in_flight}
            since = max([begun, fetching.changed, *(end for end in ends.values() if end <= now)])
            coming = fetching.is_coming(now)
            if not leaving:
                if not in_flight and not coming and now - since >= quiet:
                    return True
                if now >= resumed + cap and not answering:
                    return False
                caused = [
                    request
                    for request in in_flight
                    if fetching.begun[request] < resumed + restless and fetching.is_caused(request)
                ]
                if now >= resumed + restless and not caused:
                    return False
            wakes = [begun + departure if leaving else resumed + cap, *in_flight.values()]
            wakes += fetching.coming.values()
            if not in_flight and not leaving and not coming:
                wakes.append(since + quiet)
            if now < resumed + restless:
                wakes.append(resumed + restless)
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(wake for wake in wakes if wake > now)):
                    await self._changed.wait()
        return False

    def _end_of(self, fetching: _PageRequests, request: Request) -> float:
        """Return when a request in flight is ignored."""
        if self._answers is None or not fetching.awaits(request):
            return fetching.begun[request] + _FORGOTTEN_AFTER
        return fetching.begun[request] + self._answers

    def _of(self, page: Page) -> _PageRequests:
        return self._pages.setdefault(page, _PageRequests())

    def _on_frame_will_ask(self, page: Page, event: Mapping[str, Any]) -> None:
        here = event["disposition"] == "currentTab"
        if here and event["url"].startswith(("http:", "https:")):
            fetching = self._of(page)
            fetching.coming[event["frameId"]] = self._note(fetching) + _FORGOTTEN_AFTER

    def _on_frame_has_asked(self, page: Page, event: Mapping[str, Any]) -> None:
        fetching = self._of(page)
        if fetching.coming.pop(event.get("frameId") or event["frame"]["id"], None) is not None:
            self._note(fetching)

    def _on_request(self, request: Request) -> None:
        fetching = self._fetching_of(request)
        if fetching is None or request.resource_type in _NEVER_END:
            return
        if request.is_navigation_request() and request.frame.parent_frame is None:
            fetching.leaving = request
        fetching.asked[_place(request)] += 1
        fetching.begun[request] = self._note(fetching)
        if fetching.is_caused(request):
            fetching.caused = fetching.begun[request]

    def _on_response(self, response: Response) -> None:
        fetching = self._fetching_of(response.request)
        left = fetching is not None and fetching.leaving is response.request
        if fetching is not None and left and response.status in _NO_CONTENT:
            fetching.leaving = None
            self._note(fetching)

    def _on_end(self, request: Request) -> None:
        fetching = self._fetching_of(request)
        if fetching is None:
            return
        if fetching.leaving is request and request.failure:
            fetching.leaving = None
            self._note(fetching)
        if fetching.begun.pop(request, None) is not None:
            self._note(fetching)

    def _fetching_of(self, request: Request) -> _PageRequests | None:
        try:
            return self._of(request.frame.page)
        except Exception:  # Playwright's: a service worker's, or the tab has no frame yet.
            return None

    def _note(self, fetching: _PageRequests) -> float:
        fetching.changed = asyncio.get_running_loop().time()
        self._changed.set()
        return fetching.changed


def _place(request: Request) -> str:
    """Return a request's method and URL, without query values that contain digits.

    >>> class Poll: method, url = "GET", "http://a.test/?_action=refresh&_unlock=0&_=1795"
    >>> _place(Poll())
    'GET http://a.test/?_action=refresh&_unlock=&_='
    """
    url, mark, query = request.url.partition("?")
    return f"{request.method} {url}{mark}{_WITH_DIGITS.sub('=', query)}"
