"""Listening to what is done in a browser's tabs: trusted input, navigation, tabs.

The page script, in its own world, sends messages through a binding that only that world has, so the
page can neither see nor forge them (`page/listen.js`). Tabs and navigations come from the browser.
All go into one queue, in order of arrival. The kinds of messages from pages:

==========  ====================================================================================
begin       A gesture begins. `what`: press, pick, scroll, key, type. `before`: the page as it is.
            Of a press also `element`, `point`, `button`, `modifiers`, `count`.
up          The mouse button was released: `count`, and `path` if it was dragged.
drop        An element was dropped: `element`, `target`.
key         A key that does more than edit a text: `keys`, `element`, `lines`, `repeat`.
text        A field's text changed: `element`, `value`, `newline`.
toggle      A check box or radio button changed: `element`, `on`.
choose      A select element changed: `element`, `options`.
files       Files were chosen: `element`, `names`.
scroll      A scroll is over: `element` (None for the page), `dx`, `dy`, `point`, `turned`.
here        The mouse came into the tab.
leave       The document goes away: `before`, the page as it is.
==========  ====================================================================================

And from the browser: `navigated` (`travel`, a future), `opened` (`by_page`), `closed`,
`dialog_closed`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from webtraj import errors as errors_lib
from webtraj.environments.browser import page_script as page_script_lib

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

    from webtraj.environments.browser.session import BrowserSession

__all__ = ["Heard", "Listener", "Travel"]

_BINDING: Final = "webtrajTell"
"""The name of the binding, as in `page/listen.js`."""

_TYPED: Final = frozenset(
    {"typed", "auto_bookmark", "generated", "keyword", "keyword_generated", "start_page"}
)
"""Chrome's names for navigations that do not come from a page."""

_SWAP: Final = (0.0, 0.02, 0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each question about a tab's history: a tab that changes its process has none."""

_NO_INPUT: Final = frozenset({"here", "leave", "navigated", "dialog_closed"})

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Heard:
    """One message."""

    page: Page | None
    """The tab; None for what does not come from a browser."""
    kind: str
    message: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Travel:
    """How a tab came to its document."""

    kind: str
    """`goto`, `back`, `forward`, `reload`, or `page`: by a link, a form or a script."""
    url: str


class Listener:
    """A listener to the tabs of one browser session at a time."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Heard] = asyncio.Queue()
        """The messages, in order."""
        self.inputs = 0
        """The number of messages about input so far."""
        self._session: BrowserSession | None = None
        self._isolated = True
        self._script = ""
        self._debuggers: dict[Page, CDPSession] = {}
        self._attending: set[asyncio.Task[None]] = set()
        self._histories: dict[Page, tuple[int, tuple[int, ...]]] = {}
        self._asked: dict[str, str] = {}
        """The URL of the next document of a frame, if its page itself has asked for it."""
        self._known_frames: set[CDPSession] = set()
        self._dialogs: set[Page] = set()
        self._on_secret: Callable[[str], None] = lambda text: None
        self._secret = ""
        self._dialog = asyncio.Event()

    async def attend(self, session: BrowserSession, script: str, *, isolated: bool) -> None:
        """Listen to a session's tabs from now on, those to come included.

        Args:
            session: The session, with the debugging session of each tab.
            script: The page script, with `listen.js`.
            isolated: Whether the script runs in a world of its own.
        """
        self._session, self._script, self._isolated = session, script, isolated
        session.lease.context.on("page", self._on_page)
        for page in session.tabs:
            page.on("close", self._on_close)
        await asyncio.gather(*(self._attend(page) for page in session.tabs))
        with contextlib.suppress(errors_lib.BrowserError, LookupError):
            for page in session.tabs:
                await self.travel(page)

    def forget_heard(self) -> None:
        """Drop the messages that have not been taken."""
        while not self.heard.empty():
            self.heard.get_nowait()

    async def catch_up(self) -> None:
        """Wait until all that was done in the tabs so far has been heard.

        A tab's messages come in order, so those before its answer have come before it.
        """
        for page in self._debuggers.keys() - self._dialogs:
            with contextlib.suppress(errors_lib.BrowserError, LookupError):
                await self._send(page, "Runtime.evaluate", {"expression": "0"})

    async def dialog(self) -> None:
        """Wait until a JavaScript dialog is open: no page answers until it is closed."""
        await self._dialog.wait()

    @property
    def dialog_is_open(self) -> bool:
        """Whether a JavaScript dialog is open."""
        return bool(self._dialogs)

    def tell_secrets(self, on_secret: Callable[[str], None]) -> None:
        """Have each text that was typed into a password field told, once it is complete.

        It is told when the next message comes, so before anything that the page made of it.
        """
        self._on_secret = on_secret

    async def travel(self, page: Page) -> Travel:
        """Return how a tab came to the document it shows, since the last call for it.

        Raises:
            BrowserError: The browser failed.
        """
        told = await self._send(page, "Page.getNavigationHistory", {})
        index, entries = told["currentIndex"], told["entries"]
        ids = tuple(entry["id"] for entry in entries)
        before = self._histories.get(page)
        self._histories[page] = (index, ids)
        entry = entries[index]
        url, how = entry["userTypedURL"] or entry["url"], entry["transitionType"]
        if before is not None and before[1] == ids and before[0] != index:
            return Travel("back" if index < before[0] else "forward", url)
        if before is not None and before[1] == ids and how == "reload":
            return Travel("reload", url)
        return Travel("goto" if how in _TYPED else "page", entry["url"])

    def _on_page(self, page: Page) -> None:
        page.on("close", self._on_close)
        self._put(page, "opened", {"by_page": self._own(self._has_opener(page))})
        self._own(self._attend_opened(page))

    async def _has_opener(self, page: Page) -> bool:
        with contextlib.suppress(errors_lib.BrowserError):
            assert self._session is not None
            return await self._session.run(page.opener(), "name its opener") is not None
        return True

    async def _attend_opened(self, page: Page) -> None:
        with contextlib.suppress(errors_lib.BrowserError, LookupError):  # It was closed at once.
            await self._attend(page)
            if page not in self._histories:
                # It may have gone somewhere before anybody listened.
                self._put(page, "navigated", {"travel": self._own(self._travelled(page))})

    async def _attend(self, page: Page) -> None:
        assert self._session is not None
        debugger = self._debuggers[page] = await self._session.debugger(page)
        debugger.on("Page.javascriptDialogOpening", lambda _: self._dialog_opened(page))
        debugger.on("Page.javascriptDialogClosed", lambda _: self._dialog_closed(page))
        debugger.on("Page.frameNavigated", lambda told: self._on_navigated(page, told))
        debugger.on(
            "Page.frameRequestedNavigation",
            lambda told: self._asked.update({str(told["frameId"]): str(told["url"])}),
        )
        await self.hear_frame(page, debugger)
        await self._send(page, "Page.enable", {})
        if self._isolated:
            await self._send(
                page,
                "Page.addScriptToEvaluateOnNewDocument",
                {
                    "source": self._script,
                    "worldName": page_script_lib.WORLD_NAME,
                    "runImmediately": True,
                },
            )

    async def hear_frame(self, page: Page, debugger: CDPSession) -> None:
        """Prepare the debugging session of a tab, or of a frame of another process in it."""
        if debugger in self._known_frames:
            return
        self._known_frames.add(debugger)
        debugger.on("Runtime.bindingCalled", lambda told: self._on_told(page, told))
        options = {"name": _BINDING}
        if self._isolated:
            options["executionContextName"] = page_script_lib.WORLD_NAME
        assert self._session is not None
        await self._session.run(debugger.send("Runtime.enable"), "listen")
        await self._session.run(debugger.send("Runtime.addBinding", options), "listen")

    async def _send(self, page: Page, method: str, options: dict[str, Any]) -> Any:
        assert self._session is not None
        return await self._session.run(self._debuggers[page].send(method, options), "listen")

    def _on_told(self, page: Page, told: Mapping[str, Any]) -> None:
        if told.get("name") != _BINDING:
            return
        try:
            message = json.loads(told["payload"])
            kind = str(message.pop("kind"))
        except (ValueError, LookupError, AttributeError):
            return
        if kind == "trouble":
            _LOGGER.warning("An input event was not understood: %s", message.get("text"))
            return
        self._put(page, kind, message)

    def _on_navigated(self, page: Page, told: Mapping[str, Any]) -> None:
        assert self._session is not None
        frame = str(told["frame"]["id"])
        # To Chrome a program's `address_bar` is a link, too, but one that no page has asked for.
        sent = self._session.lease.borrowed and frame not in self._asked
        asked = self._asked.pop(frame, "").partition("#")[0] == told["frame"]["url"]
        if not told["frame"].get("parentId"):
            # Asked now: when the message is read, the tab may be elsewhere.
            travel = self._own(self._travelled(page, sent, asked))
            self._put(page, "navigated", {"travel": travel})

    async def _travelled(
        self, page: Page, sent: bool = False, asked: bool = False
    ) -> Travel | None:
        """Return how a tab came to its document; `asked`: its page itself led there."""
        for wait in _SWAP:
            await asyncio.sleep(wait)
            if page not in self._debuggers:
                break
            with contextlib.suppress(errors_lib.BrowserError, LookupError):
                travel = await self.travel(page)
                if asked and travel.kind in ("goto", "reload"):
                    return Travel("page", travel.url)
                if sent and travel.kind == "page" and not await self._has_opener(page):
                    return Travel("goto", travel.url)
                return travel
        return None

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)
        return task

    def _on_close(self, page: Page) -> None:
        self._dialog_closed(page)
        self._debuggers.pop(page, None)
        self._histories.pop(page, None)
        self._put(page, "closed")

    def _put(self, page: Page, kind: str, message: Mapping[str, Any] | None = None) -> None:
        if kind not in _NO_INPUT:
            self.inputs += 1
        message = message or {}
        is_secret = kind == "text" and message["element"]["secret"]
        if self._secret and not is_secret:
            self._on_secret(self._secret)
        self._secret = message["value"] if is_secret else ""
        self.heard.put_nowait(Heard(page, kind, message))

    def _dialog_opened(self, page: Page) -> None:
        self._dialogs.add(page)
        self._dialog.set()

    def _dialog_closed(self, page: Page) -> None:
        if page not in self._dialogs:
            return
        self._dialogs.discard(page)
        if not self._dialogs:
            self._dialog.clear()
            self._put(page, "dialog_closed")
