"""Listening to what is done in a browser's tabs: trusted input, navigation, tabs.

The page script, in its own world, sends messages through a binding that only that world has, so the
page can neither see nor forge them (`page/listen.js`). Tabs and navigations come from the browser.
All messages go into one queue in order of arrival, each with the time of its event. How a tab came
to a document is worked out from the browser's events about that document, even if they are read
late. The kinds of messages from pages:

==========  ====================================================================================
begin       A gesture begins. `what`: press, pick, scroll, key, type. `before`: the page as it is.
            Of a press also `element`, `point`, `button`, `modifiers`, `count`.
up          The mouse button was released: `count`, and `path` if it was dragged.
drop        An element was dropped: `element`, `target`.
key         Keys that do more than edit a text: `keys`, `element`, `repeat`.
text        A field's text changed: `element`, `value`; the `keys` if the field does not keep them;
            `typed`: whether keys alone produced the text; `replaces`: whether they replaced one.
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
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from webtraj import errors as errors_lib
from webtraj.environments.browser import page_script as page_script_lib

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

    from webtraj.environments.browser.session import BrowserSession

__all__ = ["Event", "Listener", "Travel"]

_BINDING: Final = "webtrajTell"
"""The name of the binding, as in `page/listen.js`."""

_TYPED: Final = frozenset(
    {"typed", "auto_bookmark", "generated", "keyword", "keyword_generated", "start_page"}
)
"""Chrome's names for navigations that do not come from a page."""

_SWAP: Final = (0.0, 0.02, 0.1, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each question about a tab's history: a tab that changes its process has none."""

_ANSWER: Final = 5.0
"""Seconds within which a page that does not hang says that it has told all."""

_NO_INPUT: Final = frozenset({"here", "leave", "navigated", "dialog_closed"})

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One message."""

    page: Page | None
    """The tab; None for what does not come from a browser."""
    kind: str
    message: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    time: float = dataclasses.field(default_factory=time.monotonic)
    """When it was done, by the clock of `time.monotonic`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Travel:
    """How a tab came to its document."""

    kind: str
    """`goto`, `back`, `forward`, `reload`, or `page`: by a link, a form or a script."""
    url: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Course:
    """How a document came, as far as the browser's events say."""

    kind: str
    """Chrome's name for it: `differentDocument`, `reload`, `historyDifferentDocument`."""
    asked_for: str
    """The URL before any redirect."""
    url: str
    by_page: bool
    """Whether a document of the tab asked for it."""
    sent: bool
    """Whether it was sent to the tab, as far as is known: to Chrome a program's `address_bar` is a
    link, too, but one that no page has asked for."""

    @property
    def is_in_history(self) -> bool:
        """Whether the tab went back or forward."""
        return self.kind.startswith("history")


class Listener:
    """A listener to the tabs of one browser session at a time."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Event] = asyncio.Queue()
        """The messages, in order."""
        self.inputs = 0
        """The number of messages about input so far."""
        self._session: BrowserSession | None = None
        self._isolated = True
        self._script = ""
        self._debuggers: dict[Page, CDPSession] = {}
        self._attending: set[asyncio.Task[None]] = set()
        self._histories: dict[Page, tuple[tuple[int, ...], int]] = {}
        """The entries of each tab's history, and the place of its document among them."""
        self._asked: dict[str, str] = {}
        """The URL of the next document of a frame, if its page itself has asked for it."""
        self._started: dict[str, Mapping[str, Any]] = {}
        """What the browser said when the next document of a frame was begun."""
        self._arrived: set[Page] = set()
        """The tabs whose first document since they were opened is told."""
        self._left: dict[Page, float] = {}
        """When the last document of a tab went away."""
        self._delay = math.inf
        """The smallest delay so far of a message from a page, by its clock and ours."""
        self._known_frames: set[CDPSession] = set()
        self._dialogs: set[Page] = set()
        self._on_secret: Callable[[str], None] = lambda text: None
        self._secret = ""
        self._dialog = asyncio.Event()

    async def attend(self, session: BrowserSession, script: str, *, isolated: bool) -> None:
        """Listen to a session's tabs from now on, including future tabs.

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
                await self.note_history(page)

    def forget_heard(self) -> None:
        """Drop the messages that have not been taken."""
        while not self.heard.empty():
            self.heard.get_nowait()

    async def catch_up(self) -> None:
        """Wait until all earlier events in the tabs have arrived.

        A tab's messages come in order, so its answer comes after all earlier messages.
        """
        asked = [
            self._send(page, "Runtime.evaluate", {"expression": "0"}, seconds=_ANSWER)
            for page in self._debuggers.keys() - self._dialogs
        ]
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            expected = (errors_lib.BrowserError, LookupError)
            if isinstance(answer, BaseException) and not isinstance(answer, expected):
                raise answer

    async def dialog(self) -> None:
        """Wait until a JavaScript dialog is open. No page answers until it is closed."""
        await self._dialog.wait()

    @property
    def dialog_is_open(self) -> bool:
        """Whether a JavaScript dialog is open."""
        return bool(self._dialogs)

    def tell_secrets(self, on_secret: Callable[[str], None]) -> None:
        """Report each text that is typed into a password field, once it is complete.

        The report comes before the next message, and so before anything that the page does with it.
        """
        self._on_secret = on_secret

    async def note_history(self, page: Page) -> None:
        """Note a tab's position in its history, to recognise later steps back or forward.

        Raises:
            BrowserError: The browser failed.
        """
        await self._entry(page, None)

    async def _entry(
        self, page: Page, course: _Course | None
    ) -> tuple[Mapping[str, Any], int | None]:
        """Return a document's entry in its tab's history, and its distance from the last entry.

        The tab may have left the document already, or not have reached it yet.

        Args:
            page: The tab.
            course: How the document was reached; None for the document that the tab shows.

        Raises:
            LookupError: There is no such entry.
            BrowserError: The browser failed.
        """
        told = await self._send(page, "Page.getNavigationHistory", {})
        current, entries = told["currentIndex"], told["entries"]
        known, last = self._histories.get(page, ((), 0))
        new = [at for at, entry in enumerate(entries) if entry["id"] not in known]
        old = sorted(set(range(len(entries))) - set(new), key=lambda at: abs(at - last))
        at = current
        if course is not None:
            candidates = [current, *new, *old]
            if course.is_in_history:
                candidates = [each for each in candidates if each in old and each != last]
            elif course.kind:
                candidates = [current, *new]
            fitting = [each for each in candidates if _is_of(entries[each], course)]
            at = fitting[0]
        ids = tuple(entry["id"] for entry in entries)
        # Later ones are not known yet.
        self._histories[page] = (ids[: at + 1] if at in new else ids), at
        return entries[at], at - last if at in old else None

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
            if page not in self._arrived:
                # It may have gone somewhere before anybody listened.
                self._arrived.add(page)
                self._put(page, "navigated", {"travel": self._own(self._find_travel(page, None))})

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
        debugger.on("Page.frameStartedNavigating", self._on_started)
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

    async def _send(
        self, page: Page, method: str, options: dict[str, Any], *, seconds: float | None = None
    ) -> Any:
        assert self._session is not None
        call = self._debuggers[page].send(method, options)
        return await self._session.run(call, "listen", seconds=seconds)

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

    def _on_started(self, told: Mapping[str, Any]) -> None:
        if not str(told["navigationType"]).endswith("ameDocument"):
            self._started[str(told["frameId"])] = told

    def _on_navigated(self, page: Page, told: Mapping[str, Any]) -> None:
        assert self._session is not None
        frame = told["frame"]
        started = self._started.pop(frame["id"], {})
        asked = self._asked.pop(frame["id"], None)
        if frame.get("parentId"):
            return
        if started.get("loaderId") != frame["loaderId"]:
            started = {}
        kept = told.get("type") == "BackForwardCacheRestore"
        url = frame.get("unreachableUrl") or frame["url"] + frame.get("urlFragment", "")
        course = _Course(
            "historyDifferentDocument" if kept else started.get("navigationType", ""),
            started.get("url", url),
            url,
            by_page=asked is not None and asked == started.get("url", asked),
            sent=self._session.lease.borrowed and asked is None,
        )
        self._arrived.add(page)
        self._put(page, "navigated", {"travel": self._own(self._find_travel(page, course))})

    async def _find_travel(self, page: Page, course: _Course | None) -> Travel | None:
        """Return how a tab came to a document. Without a course, only its history is used."""
        entry: Mapping[str, Any] | None = None
        distance: int | None = None
        for wait in _SWAP:
            await asyncio.sleep(wait)
            if page not in self._debuggers:
                break
            with contextlib.suppress(errors_lib.BrowserError, LookupError):
                entry, distance = await self._entry(page, course)
                break
        if course is None:
            if entry is None:
                return None
            typed = entry["transitionType"] in _TYPED
            return Travel("goto" if typed else "page", entry["url"])
        if course.is_in_history or (distance and not course.kind):
            return Travel("forward" if (distance or 0) > 0 else "back", course.url)
        if course.by_page:
            return Travel("page", course.url)
        if course.kind.startswith(("reload", "restore")):
            return Travel("reload", course.url)
        # A tab that changes its process may have no history for seconds.
        typed = entry is None or entry["transitionType"] in _TYPED
        if typed or (course.sent and not await self._has_opener(page)):
            return Travel("goto", course.asked_for)
        return Travel("page", course.url)

    def _own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)
        return task

    def _on_close(self, page: Page) -> None:
        self._dialog_closed(page)
        self._debuggers.pop(page, None)
        self._histories.pop(page, None)
        self._arrived.discard(page)
        self._put(page, "closed")
        self._left.pop(page, None)

    def _put(self, page: Page, kind: str, message: Mapping[str, Any] | None = None) -> None:
        if kind not in _NO_INPUT:
            self.inputs += 1
        message = message or {}
        is_secret = kind == "text" and message["element"]["secret"]
        if self._secret and not is_secret:
            self._on_secret(self._secret)
        self._secret = message["value"] if is_secret else ""
        self.heard.put_nowait(Event(page, kind, message, self._time_of(page, kind, message)))

    def _time_of(self, page: Page, kind: str, message: Mapping[str, Any]) -> float:
        """Return when something happened, by the page's clock if the message has its time."""
        now = time.monotonic()
        if "at" in message:
            # The message that was the fastest tells the difference of the clocks best.
            self._delay = min(self._delay, now - message["at"])
            now = min(now, message["at"] + self._delay)
        if kind == "leave":
            self._left[page] = now
        # What comes after it came of itself only when the last document went away.
        return self._left.pop(page, now) if kind in ("navigated", "closed") else now

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


def _is_of(entry: Mapping[str, Any], course: _Course) -> bool:
    """Return whether a history entry may belong to a document."""
    bare = {url.partition("#")[0] for url in (course.url, course.asked_for)}
    return not bare.isdisjoint(str(entry[key]).partition("#")[0] for key in ("url", "userTypedURL"))
