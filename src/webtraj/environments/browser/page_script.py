"""The script that observes pages and prepares actions; and when a page counts as settled."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Protocol

from webtraj import errors as errors_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page, Request

__all__ = [
    "IsolatedWorld",
    "LIVE_SITE",
    "LOCAL_PAGE",
    "SERVED_PAGE",
    "NetworkWatch",
    "PageWorld",
    "SCRIPT_PROPERTY",
    "SettlePolicy",
    "WORLD_NAME",
    "World",
    "call",
    "call_in_world",
    "enter_world",
    "is_no_world",
    "page_script",
]

# When a page counts as settled.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SettlePolicy:
    """Wait until the page has been still for `quiet`, at most `cap`. Times are in seconds.

    Still means: the document is parsed, the DOM does not change, no finite animation runs, no image
    in view is loading, and, if `network_quiet` is given, no request was in flight for that long.
    The end of the wait is part of the observation: `quiet`, `cap`, `navigated`.
    """

    quiet: float = 0.016
    """How long the DOM must not change; one frame is enough for handlers that run at once."""
    cap: float = 3.0
    """The longest wait. Pages that never settle are observed as they are."""
    network_quiet: float | None = None
    """How long no request must be in flight; None ignores the network."""
    pictures: float = 1.0
    """The longest wait for each image in view that is loading; 0 does not wait."""
    departure: float = 0.0
    """The longest wait for the document to which the page is on its way, until it is parsed; 0 does
    not wait."""
    load: float = 10.0
    """The longest wait for a navigation to load."""

    def __post_init__(self) -> None:
        if not 0 <= self.quiet <= self.cap:
            raise errors_lib.InvalidInputError(
                f"SettlePolicy needs 0 <= quiet <= cap; got {self.quiet} and {self.cap}."
            )


LOCAL_PAGE: Final = SettlePolicy()
"""For pages without network traffic, such as MiniWoB++."""

SERVED_PAGE: Final = SettlePolicy(departure=20.0, load=20.0, network_quiet=0.05)
"""For sites on this machine, which answer forms, links and scripts before the next look."""

LIVE_SITE: Final = SettlePolicy(quiet=0.1, cap=10.0, departure=10.0, network_quiet=0.5)
"""For sites that fetch their content; Stagehand also waits for half a second of network quiet."""


# Tracking the requests in flight, and waiting until there are none.

_NEVER_END = frozenset({"websocket", "eventsource", "ping", "media"})
"""Kinds of requests that do not affect whether a page is complete."""

_FORGOTTEN_AFTER = 2.0
"""Seconds after which a request is ignored: long polls, trackers. Stagehand's rule."""


class NetworkWatch:
    """A monitor of a context's requests."""

    def __init__(self, context: BrowserContext) -> None:
        self._begun: dict[Request, float] = {}
        self._changed = asyncio.Event()
        self._last_change = 0.0
        context.on("request", self._on_request)
        context.on("requestfinished", self._on_end)
        context.on("requestfailed", self._on_end)

    async def wait_until_quiet(self, *, quiet: float, cap: float) -> bool:
        """Wait until no request has been in flight for `quiet` seconds, at most `cap` seconds.

        Returns:
            Whether the network became quiet.
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
    "settle",
    "locate",
    "act",
    "secrets",
    "private",
    "marks",
    "foreign",
    "observe",
)

_WRAPPER = """\
(() => {{
"use strict";
if ({property}) return;
const page = {{task: null, furniture: "", lookOptions: {options}}};
{body}
Object.defineProperty(window, Symbol.for("webtraj"), {{value: page}});
}})();
"""


@functools.cache
def page_script(task_script: str = "", *, listening: str = "") -> str:
    """Return the script's source.

    Args:
        listening: The options of a look, as JSON, if the script is to report what is done on the
            page (see `listening`); `null` if there are none before the first look.
        task_script: Source that a task adds. It sees `page`, and sets `page.task` to an object with
            `begin(argument)` and `state()`, and `page.furniture` to a CSS selector of elements that
            are not part of the task, whose changes do not count.
    """
    folder = resources.files("webtraj.environments.browser") / "page"
    files = (*_FILES, "listen") if listening else _FILES
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in files]
    body = "\n".join([*parts, task_script])
    return _WRAPPER.format(property=SCRIPT_PROPERTY, body=body, options=listening or "null")


def call(function: str) -> str:
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

_NO_CONTEXT = "Cannot find context with specified id"

Send = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""A function that sends a debugging-protocol command with options and returns the answer."""

Run = Callable[[Awaitable[Any], str], Awaitable[Any]]
"""A function that awaits a browser call; the second argument describes it in messages."""


class World(Protocol):
    """A JavaScript world that runs the page script in the top documents of a context's pages."""

    async def start(self, context: BrowserContext) -> None:
        """Prepare a context before it opens any page."""

    async def call(self, page: Page, function: str, argument: str) -> str:
        """Call a page script function with a text; return its result, also a text."""

    def context_of(self, page: Page) -> int | None:
        """Return the id of the last execution context; None for the page's own."""

    def forget(self, page: Page) -> None:
        """Forget a closed page."""


class PageWorld:
    """The page's own world.

    Args:
        script: The page script.
        run: Awaits calls into the browser.
    """

    def __init__(self, script: str, run: Run) -> None:
        self._script = script
        self._run = run

    async def start(self, context: BrowserContext) -> None:
        """See `World.start`."""
        await self._run(context.add_init_script(self._script), "take the page script")

    async def call(self, page: Page, function: str, argument: str) -> str:
        """See `World.call`."""
        javascript = call(function)
        text = await self._run(page.evaluate(javascript, argument), "answer the page script")
        if text is None:
            # The document predates the script: the blank page of a new tab.
            await self._run(page.evaluate(self._script), "take the page script")
            text = await self._run(page.evaluate(javascript, argument), "answer the page script")
        return str(text)

    def context_of(self, page: Page) -> int | None:
        """See `World.context_of`."""
        return None

    def forget(self, page: Page) -> None:
        """See `World.forget`."""


class IsolatedWorld:
    """An isolated world in each document, created when it is first used.

    Args:
        script: The page script.
        run: Awaits calls into the browser.
        debugger: Returns the debugging session of a page.
    """

    def __init__(
        self, script: str, run: Run, debugger: Callable[[Page], Awaitable[CDPSession]]
    ) -> None:
        self._script = script
        self._run = run
        self._debugger = debugger
        self._worlds: dict[Page, int] = {}

    async def start(self, context: BrowserContext) -> None:
        """See `World.start`."""

    async def call(self, page: Page, function: str, argument: str) -> str:
        """See `World.call`."""
        session = await self._debugger(page)
        world = self._worlds.get(page)
        if world is not None:
            try:
                return await self._call(session, world, function, argument)
            except errors_lib.BrowserError as error:
                # The page has navigated since the last call. Nothing was called.
                if not is_no_world(error):
                    raise
        world = self._worlds[page] = await self._enter(session)
        return await self._call(session, world, function, argument)

    def context_of(self, page: Page) -> int | None:
        """See `World.context_of`."""
        return self._worlds.get(page)

    def forget(self, page: Page) -> None:
        """See `World.forget`."""
        self._worlds.pop(page, None)

    async def _enter(self, session: CDPSession) -> int:
        """Return the isolated world of the current top document, with the page script."""
        tree = await self._send(session, "Page.getFrameTree", {})
        frame = tree["frameTree"]["frame"]["id"]
        return await enter_world(functools.partial(self._send, session), self._script, frame)

    async def _call(self, session: CDPSession, world: int, function: str, argument: str) -> str:
        send = functools.partial(self._send, session)
        return await call_in_world(send, world, function, argument)

    async def _send(self, session: CDPSession, method: str, options: dict[str, Any]) -> Any:
        return await self._run(session.send(method, options), "answer the page script")


async def enter_world(send: Send, script: str, frame_id: str) -> int:
    """Create an isolated world in a frame's current document, with a script."""
    made = await send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": WORLD_NAME})
    world = int(made["executionContextId"])
    _value_of(await send("Runtime.evaluate", {"expression": script, "contextId": world}))
    return world


async def call_in_world(send: Send, world: int, function: str, argument: str) -> str:
    """Call a page script function in a world with a text; return its result, also a text."""
    answer = await send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": call(function),
            "executionContextId": world,
            "arguments": [{"value": argument}],
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    return str(_value_of(answer))


def is_no_world(error: errors_lib.BrowserError) -> bool:
    """Return whether a call failed because its world's document was replaced."""
    return _NO_CONTEXT in str(error)


def _value_of(answer: Mapping[str, Any]) -> Any:
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        told = details.get("exception", {}).get("description") or details.get("text", "")
        raise errors_lib.BrowserError(f"The page script failed: {told:.2000}")
    return answer["result"].get("value")
