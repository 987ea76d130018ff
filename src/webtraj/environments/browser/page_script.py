"""The script that observes pages and prepares actions: its source, its worlds, its frames.

And when a page counts as settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import math
import operator
import re
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from webtraj import errors as errors_lib
from webtraj.environments.browser import clipboard as clipboard_lib
from webtraj.environments.browser import page as page_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Response

    from webtraj.environments.browser.listener import Listener
    from webtraj.environments.browser.session import BrowserSession

__all__ = [
    "LIVE_SITE",
    "LOCAL_PAGE",
    "SCRIPT_PROPERTY",
    "SERVED_PAGE",
    "WORLD_NAME",
    "EnteredWorld",
    "ForeignFrames",
    "IsolatedWorld",
    "NetworkWatch",
    "PageWorld",
    "Send",
    "SettlePolicy",
    "World",
    "is_replaced",
    "merge_frame",
    "page_script",
    "sender",
    "timers_script",
    "to_argument",
]

# When a page counts as settled.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettlePolicy:
    """Wait until the page has been still for `quiet`, at most `cap`. Times are in seconds.

    Still means: the document is parsed, the DOM does not change, no finite animation runs, no image
    in view and no frame is loading, an editor has had 0.11 s to notice text selected in it, no
    timer that `timers` counts is pending, and, if `network_quiet` is given, no request was in
    flight for that long.
    The end of the wait is part of the observation: `quiet`, `cap`, `navigated`.
    """

    quiet: float = 0.016
    """How long the DOM must not change; one frame is enough for handlers that run at once."""
    cap: float = 3.0
    """The longest wait. Pages that never settle are observed as they are."""
    network_quiet: float | None = None
    """How long no request must be in flight; None ignores the network."""
    after_typing: float | None = None
    """The same after an action that typed, as a page may search when the typing pauses; None for no
    difference."""
    restless: float | None = None
    """The longest wait for a page that changes or fetches without an end; what an action made it
    fetch, and a document on its way, are still waited for. None for `cap`."""
    answers: float | None = None
    """The longest wait for the answer to a request that an action caused, beyond `cap`. None for
    `cap`, or 2 s if that is less."""
    pictures: float = 1.0
    """The longest wait for each image in view that is loading; 0 does not wait."""
    timers: float = 0.6
    """The longest wait for the page's timers that are due to what happened since the last
    observation, with all that they lead to. For this, the page's timer functions are replaced,
    which a page can notice; 0 leaves them alone."""
    departure: float = 0.0
    """The longest wait for the document to which the page is on its way, until it is parsed; 0 does
    not wait."""
    load: float = 10.0
    """The longest wait for a navigation to load."""

    def __post_init__(self) -> None:
        if not 0 <= self.timers < math.inf:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs timers of 0 seconds or more, and a finite number; got "
                f"{self.timers}. 0 waits for no timers."
            )
        if not 0 <= self.quiet <= self.cap:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs 0 <= quiet <= cap; got {self.quiet} and {self.cap}."
            )


LOCAL_PAGE: Final = SettlePolicy()
"""For pages without network traffic, such as MiniWoB++."""

SERVED_PAGE: Final = SettlePolicy(departure=20.0, load=20.0, network_quiet=0.05, answers=20.0)
"""For sites on this machine, which answer forms, links and scripts before the next look."""

LIVE_SITE: Final = SettlePolicy(
    quiet=0.1,
    cap=10.0,
    departure=10.0,
    network_quiet=0.35,
    after_typing=0.6,
    restless=1.0,
    timers=0.0,
)
"""For sites that fetch their content. Their short timers run while the network is waited for."""

_TIMERS: Final = f"timers-{secrets.token_hex(8)}"
"""The name of the event by which the page script asks for the page's timers."""


def timers_script(policy: SettlePolicy) -> str:
    """Return the script that notes a page's timers for the page script; empty if none count."""
    script = page_lib.read_script("timers").rstrip()
    return f'{script}("{_TIMERS}", {policy.timers * 1e3});' if policy.timers else ""


# Tracking the requests in flight, and waiting until there are none.

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
"""Seconds after which a request is ignored, unless a policy's `answers` says otherwise: long polls,
trackers. Stagehand's rule."""


_MANY: Final = 2
"""A page that asks for a URL more often than this between two actions does so by itself."""

_WITH_DIGITS: Final = re.compile(r"=[^&]*\d[^&]*")
"""Values of a query that may differ between two requests for the same thing."""

_NO_CONTENT: Final = (204, 205)
"""Answers to a navigation that leave the page as it is."""


@dataclasses.dataclass(slots=True)
class _Fetching:
    """A page's requests."""

    begun: dict[Request, float] = dataclasses.field(default_factory=dict)
    """When each request in flight began."""
    changed: float = 0.0
    """When a request last began or ended."""
    asked: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often each place was asked for since the last action began, see `_place`."""
    habits: frozenset[str] = frozenset()
    """The places that the page asks for by itself: more than `_MANY` times between two actions, or
    without an answer in time."""
    acted: float = 0.0
    """When the last action began."""
    caused: float = 0.0
    """When the last request began that an action caused."""
    leaving: Request | None = None
    """The request for the document to which the page is on its way."""
    coming: dict[str, float] = dataclasses.field(default_factory=dict)
    """The frames that will ask for a document, by id, and until when that is expected."""

    def is_coming(self, now: float) -> bool:
        """Return whether a frame will ask for a document."""
        return any(end > now for end in self.coming.values())

    def is_caused(self, request: Request) -> bool:
        """Return whether an action caused a request, as far as that can be known."""
        place = _place(request)
        return place not in self.habits and self.asked[place] <= _MANY

    def awaits(self, request: Request) -> bool:
        """Return whether the last action caused a request, and it began since."""
        return self.begun[request] >= self.acted and self.is_caused(request)


class NetworkWatch:
    """A monitor of the requests of a context's pages.

    Args:
        context: The context.
        answers: See `SettlePolicy.answers`.
    """

    def __init__(self, context: BrowserContext, *, answers: float | None = None) -> None:
        self._answers = answers
        self._pages: WeakKeyDictionary[Page, _Fetching] = WeakKeyDictionary()
        self._changed = asyncio.Event()
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    async def attend(self, page: Page, debugger: CDPSession) -> None:
        """Hear from a tab's debugging session that a frame will ask for a document.

        A frame asks some time after a script or a form sends it to another document. In a frame
        that was just made, the page script cannot see this. Frames of other processes are not
        heard.
        """
        debugger.on(
            "Page.frameRequestedNavigation", lambda told: self._on_frame_will_ask(page, told)
        )
        for event in _NO_LONGER_COMING:
            debugger.on(f"Page.{event}", lambda told: self._on_frame_has_asked(page, told))
        await debugger.send("Page.enable")

    def begin_action(self, page: Page) -> None:
        """Note that what a page asked for again and again is not caused by what comes now."""
        fetching = self._of(page)
        fetching.habits |= {url for url, count in fetching.asked.items() if count > _MANY}
        fetching.asked.clear()
        fetching.acted = asyncio.get_running_loop().time()

    def note_arrival(self, page: Page) -> None:
        """Note that a page shows another document, or that one on its way became a download."""
        fetching = self._of(page)
        fetching.leaving = None
        self._note(fetching)

    def is_leaving(self, page: Page) -> bool:
        """Return whether a page is on its way to another document."""
        return self._of(page).leaving is not None

    def has_asked_since(self, page: Page, since: float) -> bool:
        """Return whether an action caused a request since then, or a frame will ask for one.

        A request that was answered counts too: the page used the answer later.
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
            cap: The longest wait; it begins anew with the answer to what an action asked.
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

    def _end_of(self, fetching: _Fetching, request: Request) -> float:
        """Return when a request in flight is ignored."""
        if self._answers is None or not fetching.awaits(request):
            return fetching.begun[request] + _FORGOTTEN_AFTER
        return fetching.begun[request] + self._answers

    def _of(self, page: Page) -> _Fetching:
        return self._pages.setdefault(page, _Fetching())

    def _on_frame_will_ask(self, page: Page, told: Mapping[str, Any]) -> None:
        here = told["disposition"] == "currentTab"
        if here and told["url"].startswith(("http:", "https:")):
            fetching = self._of(page)
            fetching.coming[told["frameId"]] = self._note(fetching) + _FORGOTTEN_AFTER

    def _on_frame_has_asked(self, page: Page, told: Mapping[str, Any]) -> None:
        fetching = self._of(page)
        if fetching.coming.pop(told.get("frameId") or told["frame"]["id"], None) is not None:
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

    def _fetching_of(self, request: Request) -> _Fetching | None:
        try:
            return self._of(request.frame.page)
        except Exception:  # Playwright's: a service worker's, or the tab has no frame yet.
            return None

    def _note(self, fetching: _Fetching) -> float:
        fetching.changed = asyncio.get_running_loop().time()
        self._changed.set()
        return fetching.changed


def _place(request: Request) -> str:
    """Return what a request asks for: the method and the URL, without what counts or is drawn.

    >>> class Poll: method, url = "GET", "http://a.test/?_action=refresh&_unlock=0&_=1795"
    >>> _place(Poll())
    'GET http://a.test/?_action=refresh&_unlock=&_='
    """
    url, mark, query = request.url.partition("?")
    return f"{request.method} {url}{mark}{_WITH_DIGITS.sub('=', query)}"


# The script has one source, the files in `page/`.
#
# It writes nothing into the DOM, and is reached through one non-enumerable property of `window`,
# keyed by a symbol. The world it runs in (see below) decides whether the page can see that
# property.

SCRIPT_PROPERTY = 'window[Symbol.for("webtraj")]'
"""JavaScript for the object that holds the script's functions."""

_FILES = (
    "natives",
    "refs",
    "roles",
    "tree",
    "unseen",
    "settle",
    "locate",
    "covers",
    "act",
    "secrets",
    "clipboard",
    "private",
    "marks",
    "foreign",
    "observe",
)

_WRAPPER = """\
(() => {{
"use strict";
if ({property}) return;
const page = {{
  task: null, furniture: "", clipboard: "{clipboard}", timers: "{timers}", lookOptions: {options},
}};
{body}
Object.defineProperty(window, Symbol.for("webtraj"), {{value: page}});
}})();
"""


@functools.cache
def page_script(task_script: str = "", *, listening: str = "") -> str:
    """Return the script's source.

    Args:
        listening: The options of a look, as JSON, if the script is to report what is done on the
            page (see `listener`); `null` if there are none before the first look.
        task_script: Source that a task adds. It sees `page`, and sets `page.task` to an object with
            `begin(argument)` and `state()`, and `page.furniture` to a CSS selector of elements that
            are not part of the task, whose changes do not count.
    """
    files = (*_FILES, "listen") if listening else _FILES
    body = "\n".join([*map(page_lib.read_script, files), task_script])
    return _WRAPPER.format(
        property=SCRIPT_PROPERTY,
        body=body,
        clipboard=clipboard_lib.TOKEN,
        timers=_TIMERS,
        options=listening or "null",
    )


def _call_of(function: str) -> str:
    """Return the JavaScript that calls one of the script's functions with one argument.

    In a page older than the script it gives null.
    """
    return f"argument => {SCRIPT_PROPERTY}?.{function}(argument) ?? null"


def to_argument(value: Any) -> str:
    """Return a value as the JSON text that the script's functions accept."""
    return json.dumps(value, separators=(",", ":"))


# Where the page script runs: in an isolated world, or in the page's.
#
# An isolated world shares only the document with the page: the page cannot see the script, and
# changes to its own globals and prototypes (`JSON`, `Array.prototype`, `Element.prototype`) do not
# affect the script. The page's own world is for tasks whose script must reach the page's objects,
# and so only for trusted pages.

WORLD_NAME = "webtraj"
"""The name of the isolated worlds."""

_NO_WORLD = ("Cannot find context with specified id", "Could not find object with given id")
_ENTRIES = 3
"""Tries to enter a document; one that is replaced that fast shows nothing."""

_NEED_A_GESTURE: Final = frozenset({"open_files"})
"""Preparations that the browser allows only as a person's doing."""

Send = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""A function that sends a debugging-protocol command with options and returns the answer."""


def sender(session: BrowserSession, debugger: CDPSession, *, seconds: float | None = None) -> Send:
    """Return the function that sends commands to a debugging session, each with a deadline."""

    async def send(method: str, options: dict[str, Any]) -> Any:
        call = debugger.send(method, options)
        return await session.run(call, what="answer the page script", seconds=seconds)

    return send


@dataclasses.dataclass(slots=True)
class EnteredWorld:
    """An isolated world of one document, in which the page script runs."""

    script: str
    """The id of the script's object."""
    context: int
    """The id of the world in its process."""
    unexplained: int = 0
    """How many nodes of its process the page script cannot know (see `unseen`)."""

    async def call(self, send: Send, function: str, argument: Any = None) -> Any:
        """See `World.call`."""
        given = [{"value": to_argument(argument)}]
        gesture = function == "prepare" and argument.get("kind") in _NEED_A_GESTURE
        return await self._call(send, function, given, gesture=gesture)

    async def show(
        self, send: Send, function: str, nodes: Sequence[int], group: Mapping[str, str]
    ) -> Any:
        """Call a page script function with nodes; return its result, parsed.

        Args:
            send: Sends a command to the world's process.
            function: The function.
            nodes: Their backend ids. Those of other worlds' documents are left out.
            group: The group of objects to which they are added.
        """
        options = {"executionContextId": self.context, **group}
        found = await asyncio.gather(
            *(send("DOM.resolveNode", {"backendNodeId": node, **options}) for node in nodes)
        )
        objects = [told["object"].get("objectId") for told in found]
        given = [{"objectId": each} for each in objects if each is not None]
        return await self._call(send, function, given)

    async def _call(
        self, send: Send, function: str, given: list[dict[str, Any]], *, gesture: bool = False
    ) -> Any:
        answer = await send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": f"function(...given) {{ return this.{function}(...given) }}",
                "objectId": self.script,
                "arguments": given,
                "awaitPromise": True,
                "returnByValue": True,
                "userGesture": gesture,
            },
        )
        return json.loads(_value_of(answer))


class World(Protocol):
    """A JavaScript world that runs the page script in the top documents of a context's pages."""

    async def start(self, context: BrowserContext) -> None:
        """Prepare a context before it opens any page."""

    async def call(self, page: Page, function: str, argument: Any) -> Any:
        """Call a page script function with a value as JSON; return its result, parsed."""

    def find_entered(self, page: Page) -> EnteredWorld | None:
        """Return the world of the last document; None if it is the page's."""

    def forget(self, page: Page) -> None:
        """Forget a closed page."""


class PageWorld:
    """The page's own world.

    Args:
        session: The session of the pages.
        script: The page script.
    """

    def __init__(self, session: BrowserSession, script: str) -> None:
        self._script = script
        self._run = session.run

    async def start(self, context: BrowserContext) -> None:
        """See `World.start`."""
        await self._run(context.add_init_script(self._script), "take the page script")

    async def call(self, page: Page, function: str, argument: Any) -> Any:
        """See `World.call`."""
        javascript, given = _call_of(function), to_argument(argument)
        text = await self._run(page.evaluate(javascript, given), "answer the page script")
        if text is None:
            # The document predates the script: the blank page of a new tab.
            await self._run(page.evaluate(self._script), "take the page script")
            text = await self._run(page.evaluate(javascript, given), "answer the page script")
        return json.loads(text)

    def find_entered(self, page: Page) -> EnteredWorld | None:
        """See `World.find_entered`."""
        return None

    def forget(self, page: Page) -> None:
        """See `World.forget`."""


class IsolatedWorld:
    """An isolated world in each document, created when it is first used.

    Args:
        session: The session of the pages.
        script: The page script.
    """

    def __init__(self, session: BrowserSession, script: str) -> None:
        self._session = session
        self._script = script
        self._worlds: dict[Page, EnteredWorld] = {}

    async def start(self, context: BrowserContext) -> None:
        """See `World.start`."""

    async def call(self, page: Page, function: str, argument: Any) -> Any:
        """See `World.call`."""
        send = sender(self._session, await self._session.debugger(page))
        world = self._worlds.get(page)
        if world is not None:
            try:
                return await world.call(send, function, argument)
            except errors_lib.BrowserError as error:
                # The page has navigated since the last call. Nothing was called.
                if not is_replaced(error):
                    raise
        world = self._worlds[page] = await _enter_world(send, self._script)
        return await world.call(send, function, argument)

    def find_entered(self, page: Page) -> EnteredWorld | None:
        """See `World.find_entered`."""
        return self._worlds.get(page)

    def forget(self, page: Page) -> None:
        """See `World.forget`."""
        self._worlds.pop(page, None)


async def _enter_world(send: Send, script: str, frame_id: str = "") -> EnteredWorld:
    """Run the script in an isolated world of a frame's current document.

    Each process of the browser numbers its JavaScript contexts anew, so after a navigation the same
    number may be the page's own world. So the world is known by the id of the script's object,
    which no other process has, and the document must be the same before and after.

    Args:
        send: Sends a command to the frame's process.
        script: The page script.
        frame_id: The frame; the top one by default.

    Raises:
        BrowserError: The frame is not in that process, or its document is replaced again and again.
    """
    for _ in range(_ENTRIES):
        frame, document = await _document_in(send, frame_id)
        try:
            made = await send(
                "Page.createIsolatedWorld", {"frameId": frame, "worldName": WORLD_NAME}
            )
            told = await send(
                "Runtime.evaluate",
                {
                    "expression": script + SCRIPT_PROPERTY,
                    "contextId": made["executionContextId"],
                },
            )
        except errors_lib.BrowserError as error:
            if not is_replaced(error):
                raise
            continue
        _value_of(told)
        if await _document_in(send, frame_id) == (frame, document):
            return EnteredWorld(told["result"]["objectId"], made["executionContextId"])
    raise errors_lib.BrowserError(f"The page is replaced too fast to be read. {_NO_WORLD[0]}.")


async def _document_in(send: Send, frame_id: str) -> tuple[str, str]:
    """Return the ids of a frame, the top one by default, and of its document."""
    trees = [(await send("Page.getFrameTree", {}))["frameTree"]]
    while trees:
        tree = trees.pop()
        if frame_id in ("", tree["frame"]["id"]):
            return str(tree["frame"]["id"]), str(tree["frame"]["loaderId"])
        trees += tree.get("childFrames", ())
    raise errors_lib.BrowserError(f"There is no frame {frame_id!r} in this process.")


def is_replaced(error: errors_lib.BrowserError) -> bool:
    """Return whether a call failed because its world's document was replaced."""
    return any(text in str(error) for text in _NO_WORLD)


def _value_of(answer: Mapping[str, Any]) -> Any:
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        told = details.get("exception", {}).get("description") or details.get("text", "")
        raise errors_lib.BrowserError(f"The page script failed: {told:.2000}")
    return answer["result"].get("value")


# Frames of another origin: their lines in the observation, and acting on their elements.
#
# The page script of a document cannot look into such a frame. So it also runs in each frame, in an
# isolated world, and its result is merged in at the frame's place. Refs of a frame's document begin
# with a prefix (`f2e`) that leads an action back to it. A frame that hangs, disappears or crashes
# shows nothing inside and affects nothing else.

_NO_ANSWER: Final = {"axtree": "... no answer"}
"""The content shown for a frame that does not answer."""


def _outward(box: Sequence[float], matrix: Sequence[float]) -> list[float]:
    """Return the box around a frame's box in the surrounding window.

    Args:
        box: x, y, width and height in the frame's window.
        matrix: Nine numbers, column by column, from the frame's window to the surrounding one.

    >>> _outward([1, 2, 30, 40], [2, 0, 0, 0, 2, 0, 100, 200, 1])
    [102.0, 204.0, 60.0, 80.0]
    """
    columns = (matrix[:3], matrix[3:6], matrix[6:])
    x, y, width, height = box
    corners = [(x, y), (x + width, y), (x, y + height), (x + width, y + height)]
    seen = [
        [sum(map(operator.mul, row, (px, py, 1))) for row in zip(*columns, strict=True)]
        for px, py in corners
    ]
    in_front = [(across / depth, down / depth) for across, down, depth in seen if depth > 0]
    xs, ys = [x for x, _ in in_front] or [0.0], [y for _, y in in_front] or [0.0]
    return [round(n, 3) for n in (min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))]


def merge_frame(seen: dict[str, Any], place: Mapping[str, Any], inside: Mapping[str, Any]) -> None:
    """Merge a frame's content into that of the document around it.

    Args:
        seen: What the page script's `observe` gave for the document around. It is changed.
        place: Where the frame is: its `ref`, its `line` in the axtree from 0, that line's `depth`,
            and the `matrix` from its window to the window around.
        inside: What `observe` gave in the frame.
    """
    if "axtree" in seen:
        _merge_axtree(seen, place, inside["axtree"])
    if "boxes" in inside:
        _merge_boxes(seen["boxes"], place, inside["boxes"])
    if "marks" in inside:
        for column in ("refs", "roles", "names"):
            seen["marks"][column] += inside["marks"][column]
        seen["marks"]["boxes"] += [
            _outward(box, place["matrix"]) for box in inside["marks"]["boxes"]
        ]
    if seen.get("focused") == place["ref"] and inside.get("focused"):
        seen["focused"] = inside["focused"]
    if inside.get("copied") is not None:
        seen["copied"] = inside["copied"]
    if inside.get("text"):
        seen["text"] = "\n".join(filter(None, [seen["text"], inside["text"]]))
    if "passwords" in inside:
        passwords, more = seen["passwords"], inside["passwords"]
        passwords["refs"] += more["refs"]
        passwords["values"] += more["values"]
        passwords["boxes"] += [_outward(box, place["matrix"]) for box in more["boxes"]]
        passwords["focused"] = passwords["focused"] or more["focused"]
    if "private" in inside:
        private, more = seen["private"], inside["private"]
        private["lines"] += more["lines"]
        private["pieces"] += more["pieces"]
        private["fields"] += [
            [name, ref, _outward(box, place["matrix"])] for name, ref, box in more["fields"]
        ]
        private["focused"] = private["focused"] or more["focused"]
        private["overflow"] = private["overflow"] or more["overflow"]


def _merge_axtree(seen: dict[str, Any], place: Mapping[str, Any], axtree: str) -> None:
    if not axtree:
        return
    lines = seen["axtree"].split("\n")
    indent = "  " * (place["depth"] + 1)
    at = place["line"] + 1
    lines[at:at] = [indent + line for line in axtree.split("\n")]
    seen["axtree"] = "\n".join(lines)


def _merge_boxes(
    boxes: dict[str, list[Any]], place: Mapping[str, Any], inside: Mapping[str, list[Any]]
) -> None:
    if place["ref"] not in boxes["refs"]:
        return  # The frame is outside the viewport, and so is all in it.
    at = boxes["refs"].index(place["ref"]) + 1
    boxes["refs"][at:at] = inside["refs"]
    boxes["boxes"][at:at] = [_outward(box, place["matrix"]) for box in inside["boxes"]]


_MAX_FRAMES: Final = 10
"""The most frames read at once, over all depths; pages with advertisements have dozens."""

_MAX_DEPTH: Final = 3

_FIRST_CALL: Final = 2.0
"""Seconds that a frame gets to answer, beyond settling time."""

_AFTER_SILENCE: Final = 0.1
"""Seconds for a frame that did not answer last time."""

_REF = re.compile(r"(f\d+)e\d+")
_GONE: Final = "Element [{ref}] is no longer in the page."


@dataclasses.dataclass(eq=False, slots=True)
class _Frame:
    """One document in a frame of another origin."""

    page: Page
    parent: _Frame | None
    """The frame around it, if that is of another origin too; else the page's top document."""
    ref: str
    """The frame element's ref in the parent's document."""
    frame_id: str
    session: CDPSession
    world: EnteredWorld
    prefix: str
    url: str = ""
    silent: bool = False
    """Whether it did not answer when it was last read."""
    found: bool = False
    """Whether the last look found its element."""
    answered: bool = False
    """Whether it answered the last look."""


class ForeignFrames:
    """The frames of another origin in the pages of one lease.

    Args:
        session: The session of the pages.
        top: The world of the page script in top documents.
        seconds: How long settling may take.
        listener: Listens to what is done in the frames.
    """

    def __init__(
        self,
        session: BrowserSession,
        top: World,
        *,
        seconds: float,
        listener: Listener | None = None,
    ) -> None:
        self._session = session
        self._top = top
        self._seconds = seconds + _FIRST_CALL
        self._script = page_script(listening="null" if listener else "")
        self._listener = listener
        self._frames: dict[tuple[Page, str], _Frame] = {}
        self._by_prefix: dict[str, _Frame] = {}
        self._made = 0

    def owns(self, ref: str) -> bool:
        """Return whether a ref belongs to a frame of another origin."""
        return _REF.fullmatch(ref) is not None

    def knows(self, page: Page) -> bool:
        """Return whether a page had frames of another origin when it was last looked at."""
        return any(frame.page is page for frame in self._frames.values())

    def find_entered(self, page: Page) -> Iterator[tuple[CDPSession, EnteredWorld]]:
        """Yield the debugging session and world of each frame that answered the last look."""
        for frame in self._frames.values():
            if frame.page is page and frame.answered:
                yield frame.session, frame.world

    def forget(self, page: Page) -> None:
        """Forget a closed page."""
        for key in [key for key in self._frames if key[0] is page]:
            self._drop(self._frames[key])

    def forget_all(self) -> None:
        """Forget all frames, and number those to come from 1."""
        self._frames.clear()
        self._by_prefix.clear()
        self._made = 0

    async def look_into(self, page: Page, seen: dict[str, Any], options: Mapping[str, Any]) -> None:
        """Add the content of a page's frames to what the page script saw of the top document.

        Args:
            page: The page.
            seen: The result of `observe` for the document. Modified in place.
            options: The options of that call.

        Raises:
            BrowserCrashedError: The page died.
        """
        for frame in self._frames.values():
            if frame.page is page:
                frame.found = frame.answered = False
        await self._look_into(page, seen, options, None, 1, [_MAX_FRAMES])
        # One that was not found may be hidden, or gone with its document.
        left = [each for each in self._frames.values() if each.page is page and not each.found]
        await asyncio.gather(*map(self._drop_if_gone, left))

    async def _look_into(
        self,
        page: Page,
        seen: dict[str, Any],
        options: Mapping[str, Any],
        parent: _Frame | None,
        depth: int,
        budget: list[int],
    ) -> None:
        """Add the content of a document's frames; `budget` is how many more may be read."""
        found = seen.pop("foreign", [])
        for place in found:
            if known := self._frames.get((page, place["ref"])):
                known.found = True
        if depth > _MAX_DEPTH:
            return
        chosen = found[: budget[0]]
        budget[0] -= len(chosen)
        told = await asyncio.gather(
            *(self._look_at(page, parent, place, options, depth, budget) for place in chosen)
        )
        # From last to first, because each insertion moves the lines after it.
        for place, inside in reversed(list(zip(chosen, told, strict=True))):
            merge_frame(seen, place, inside)

    async def prepare(self, page: Page, options: Mapping[str, Any]) -> Any:
        """Call the page script's `prepare` in the frame of a ref.

        Returns:
            Its answer, with points and boxes in the top window.

        Raises:
            BrowserError: The browser failed.
        """
        ref = options["ref"]
        match = _REF.fullmatch(ref)
        frame = self._by_prefix.get(match[1]) if match else None
        if frame is None or frame.page is not page:
            return {"refused": "gone", "message": _GONE.format(ref=ref), "element": None}
        try:
            answer = await self._call(frame, "prepare", options)
            if answer.get("element"):
                answer["element"]["frame"] = answer["element"]["frame"] or frame.url
            return await self._in_top_window(frame, answer)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            gone = is_replaced(error)
            kind = "gone" if gone else "no_answer"
            message = _GONE.format(ref=ref) if gone else f"The frame of [{ref}] does not answer."
            return {"refused": kind, "message": message, "element": None}

    async def _look_at(
        self,
        page: Page,
        parent: _Frame | None,
        place: Mapping[str, Any],
        options: Mapping[str, Any],
        depth: int,
        budget: list[int],
    ) -> dict[str, Any]:
        """Return one frame's content, in the coordinates of its own window."""
        known = self._frames.get((page, place["ref"]))
        try:
            async with asyncio.timeout(
                _AFTER_SILENCE if known is not None and known.silent else self._seconds
            ):
                options = {**options, "all_covered": place["covered"]}
                if "private" in place:
                    options["all_private"] = place["private"]
                frame, inside = await self._observe(page, parent, place["ref"], options)
        except TimeoutError:
            if known := self._frames.get((page, place["ref"])):
                known.silent = True
            return dict(_NO_ANSWER)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            if known := self._frames.get((page, place["ref"])):
                self._drop(known)
            return dict(_NO_ANSWER)
        frame.silent, frame.found, frame.answered = False, True, True
        frame.url = inside["url"]
        await self._look_into(page, inside, options, frame, depth + 1, budget)
        if inside.get("marks", {}).get("refs"):
            await self._keep_marks_in_sight(page, frame, inside["marks"])
        return inside

    async def _observe(
        self, page: Page, parent: _Frame | None, ref: str, options: Mapping[str, Any]
    ) -> tuple[_Frame, dict[str, Any]]:
        """Return a frame and the page script's view of it."""
        for last_try in (False, False, True):
            frame = self._frames.get((page, ref))
            if frame is None:
                frame = await self._enter(page, parent, ref)
            inner = {k: v for k, v in options.items() if k not in ("begin", "first_ref")}
            inner["ref_prefix"] = f"{frame.prefix}e"
            try:
                return frame, await self._call(frame, "observe", inner)
            except errors_lib.BrowserError:
                # It navigated meanwhile, possibly to another process.
                self._drop(frame)
                if last_try:
                    raise
        raise AssertionError("unreachable")

    async def _enter(self, page: Page, parent: _Frame | None, ref: str) -> _Frame:
        """Inject the page script into a frame's current document."""
        outer, world = await self._world_of(page, parent)
        frame_id = await self._frame_id(outer, world, ref)
        script = self._script
        try:
            session = outer
            entered = await _enter_world(self._sender(session), script, frame_id)
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            # A frame of another process has a debugging session of its own.
            session = await self._session_of(page, frame_id)
            if self._listener is not None:
                await self._listener.hear_frame(page, session)
            entered = await _enter_world(self._sender(session), script, frame_id)
        self._made += 1
        frame = _Frame(page, parent, ref, frame_id, session, entered, f"f{self._made}")
        self._frames[page, ref] = frame
        self._by_prefix[frame.prefix] = frame
        return frame

    async def _world_of(
        self, page: Page, frame: _Frame | None
    ) -> tuple[CDPSession, EnteredWorld | None]:
        if frame is not None:
            return frame.session, frame.world
        return await self._session.debugger(page), self._top.find_entered(page)

    async def _frame_id(self, session: CDPSession, world: EnteredWorld | None, ref: str) -> str:
        """Return the browser's id of the frame that a frame element shows."""
        send = self._sender(session)
        element = f"elementOf({json.dumps(ref)})"
        group = {"objectGroup": "webtraj"}
        try:
            if world is None:
                expression = f"{SCRIPT_PROPERTY}.{element}"
                answer = await send("Runtime.evaluate", {"expression": expression, **group})
            else:
                function = f"function() {{ return this.{element} }}"
                answer = await send(
                    "Runtime.callFunctionOn",
                    {"functionDeclaration": function, "objectId": world.script, **group},
                )
            object_id = answer["result"].get("objectId", "")
            told = await send("DOM.describeNode", {"objectId": object_id})
            return str(told["node"].get("frameId", ""))
        finally:
            await send("Runtime.releaseObjectGroup", {"objectGroup": "webtraj"})

    async def _session_of(self, page: Page, frame_id: str) -> CDPSession:
        """Return the debugging session of a frame that has a process of its own."""
        for frame in page.frames[1:]:
            try:
                session = await self._session.run(
                    page.context.new_cdp_session(frame), what="open a debugging session"
                )
            except errors_lib.BrowserError as error:
                self._raise_if_lost(error)
                continue  # In its parent's process, or gone.
            tree = await self._sender(session)("Page.getFrameTree", {})
            if tree["frameTree"]["frame"]["id"] == frame_id:
                return session
            await self._session.run(session.detach(), what="close a debugging session")
        raise errors_lib.BrowserError(f"The page at {page.url} has no frame {frame_id!r} now.")

    def _sender(self, debugger: CDPSession) -> Send:
        return sender(self._session, debugger, seconds=self._seconds)

    async def _call(self, frame: _Frame, function: str, argument: Any) -> Any:
        return await frame.world.call(self._sender(frame.session), function, argument)

    async def _call_around(self, frame: _Frame, function: str, argument: Any) -> Any:
        """Call the page script of the document around a frame."""
        if frame.parent is not None:
            return await self._call(frame.parent, function, argument)
        return await self._top.call(frame.page, function, argument)

    async def _in_top_window(self, frame: _Frame, answer: dict[str, Any]) -> Any:
        """Convert an answer's point and box to the top window, if the point is not covered."""
        inner: _Frame | None = frame
        while inner is not None:
            asked = {"ref": inner.ref, "points": answer.get("points")}
            outside = await self._call_around(inner, "throughFrame", asked)
            if "refused" in outside:
                return {**outside, "element": answer.get("element")}
            if "points" in answer:
                answer["points"] = outside["points"]
                answer["point"] = answer["points"][0]
            if answer.get("element"):
                answer["element"]["box"] = _outward(answer["element"]["box"], outside["matrix"])
            inner = inner.parent
        return answer

    async def _keep_marks_in_sight(
        self, page: Page, frame: _Frame, marks: dict[str, list[Any]]
    ) -> None:
        """Drop marks whose middle is covered or outside in the surrounding document."""
        points = [(x + width / 2, y + height / 2) for x, y, width, height in marks["boxes"]]
        asked = {"ref": frame.ref, "points": points}
        in_sight = await self._call_around(frame, "seenThroughFrame", asked)
        for column, values in marks.items():
            marks[column] = [v for v, keep in zip(values, in_sight, strict=True) if keep]

    async def _drop_if_gone(self, frame: _Frame) -> None:
        """Drop a frame whose document is gone."""
        try:
            async with asyncio.timeout(_AFTER_SILENCE):
                await self._call(frame, "seenThroughFrame", {"ref": "", "points": []})
            frame.answered = True
        except TimeoutError:
            pass  # Busy, so not gone.
        except errors_lib.BrowserError as error:
            self._raise_if_lost(error)
            self._drop(frame)

    def _drop(self, frame: _Frame) -> None:
        self._frames.pop((frame.page, frame.ref), None)
        self._by_prefix.pop(frame.prefix, None)

    def _raise_if_lost(self, error: errors_lib.BrowserError) -> None:
        """Raise an error that affects more than a frame."""
        if isinstance(error, errors_lib.BrowserCrashedError) and not self._session.lease.healthy:
            raise error
