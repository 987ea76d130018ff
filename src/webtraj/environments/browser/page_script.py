"""The script that observes pages and prepares actions: its source, and the worlds it runs in."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from webtraj import errors as errors_lib
from webtraj.environments.browser import clipboard as clipboard_lib
from webtraj.environments.browser import page as page_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

    from webtraj.environments.browser.session import BrowserSession
    from webtraj.environments.browser.settle_policy import SettlePolicy

__all__ = [
    "SCRIPT_PROPERTY",
    "WORLD_NAME",
    "EnteredWorld",
    "IsolatedWorld",
    "PageWorld",
    "Send",
    "World",
    "enter_world",
    "is_replaced",
    "page_script",
    "sender",
    "timers_script",
    "to_argument",
]

# The script has one source, the files in `page/`.
#
# It writes nothing into the DOM, and is reached through one non-enumerable property of `window`,
# keyed by a symbol. The world it runs in (see below) decides whether the page can see that
# property.

SCRIPT_PROPERTY = 'window[Symbol.for("webtraj")]'
"""JavaScript for the object that holds the script's functions."""

_TIMERS: Final = f"timers-{secrets.token_hex(8)}"
"""The name of the event by which the page script asks for the page's timers."""

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
        listening: The options of a look as JSON, or `null` before the first look, if the script is
            to report what is done on the page (see `listener`). Empty if it is not.
        task_script: Source that a task adds. It sees `page`. It sets `page.task` to an object with
            `begin(argument)` and `state()`, and `page.furniture` to a CSS selector of elements that
            are not part of the task. Changes in these do not count.
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


def timers_script(policy: SettlePolicy) -> str:
    """Return the script that notes a page's timers; empty if the policy ignores timers."""
    script = page_lib.read_script("timers").rstrip()
    return f'{script}("{_TIMERS}", {policy.timers * 1e3});' if policy.timers else ""


def _call_of(function: str) -> str:
    """Return the JavaScript that calls one of the script's functions with one argument.

    The result is null in a page that is older than the script.
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
            nodes: The backend ids of nodes. Nodes of other worlds' documents are left out.
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
        """Return the isolated world of the last document; None if the script runs in the page's."""

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
        world = self._worlds[page] = await enter_world(send, self._script)
        return await world.call(send, function, argument)

    def find_entered(self, page: Page) -> EnteredWorld | None:
        """See `World.find_entered`."""
        return self._worlds.get(page)

    def forget(self, page: Page) -> None:
        """See `World.forget`."""
        self._worlds.pop(page, None)


async def enter_world(send: Send, script: str, frame_id: str = "") -> EnteredWorld:
    """Run the script in an isolated world of a frame's current document.

    Each browser process numbers its JavaScript contexts separately, so after a navigation the same
    number may mean the page's own world. So the world is identified by the id of the script's
    object, which is unique over processes, and the document must be the same before and after.

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
    """Return the ids of a frame (by default the top one) and of its document."""
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
