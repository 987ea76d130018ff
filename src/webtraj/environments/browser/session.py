"""A browser session: the tabs of one lease, their events, and calls into the page script."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.environments.browser import clipboard as clipboard_lib
from webtraj.environments.browser import foreign_frames as foreign_frames_lib
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import network_watch as network_watch_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import page_script as page_script_lib
from webtraj.environments.browser import settle_policy as settle_policy_lib
from webtraj.environments.browser import traffic as traffic_lib
from webtraj.environments.browser.network import BLANK

if TYPE_CHECKING:
    from playwright.async_api import (
        CDPSession,
        ConsoleMessage,
        Dialog,
        Download,
        FileChooser,
        Frame,
        Page,
        Request,
        Response,
    )

    from webtraj.environments.browser import listener as listener_lib
    from webtraj.environments.browser.secret_keeper import SecretKeeper

__all__ = ["BLANK", "BrowserSession", "LoadFailure"]

_MAX_NAVIGATIONS = 5
"""The most navigations in a row that one look follows: script redirects, login chains."""

_CLOSE: Final = 5.0
"""Seconds within which a tab that does not answer must close."""

_QUESTION: Final = 2.0
"""Deadline in seconds of a question to the debugger of a page."""

_ASKS_WITHIN: Final = 0.3
"""Seconds within which a page that leaves asks for the next document."""

_DOWNLOAD: Final = "Download is starting"
"""What Playwright says of opening a URL that answers with a file."""

_MAX_EVENTS = 100
"""The most dialogs and console errors kept between two steps."""

_UNDRAWN: Final = 0.05
"""Seconds until a screenshot is asked for again after the document was replaced."""

_CLOSE_NOTICE = 1.0
"""Seconds within which the browser reports that a tab was closed."""

_ERROR_PAGE: Final = "chrome-error:"
"""The scheme of the browser's error page."""

_ABORTED: Final = "net::ERR_ABORTED"
"""A navigation replaced by another or by a download: the tab still shows its page."""

_UNKNOWN_ERROR: Final = "net::ERR_FAILED"

_NETWORK_CHANGED: Final = "net::ERR_NETWORK_CHANGED"
"""This machine got or lost a network, as when a container starts: all connections are dropped."""

_NETWORK_CHANGES: Final = 5
"""How many changes of the network in a row `open` sits out."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadFailure:
    """A page that did not load completely."""

    url: str
    error: str
    """The browser's error name: `net::ERR_CONNECTION_RESET`."""
    reason: str = ""
    """Why the proxy's connection failed; empty if it did not."""
    denied: bool = False
    """Whether the network policy denied the connection."""

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        # A password in a URL is for the site, not for records.
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return f"{url:.1000} did not load: {self.reason or self.error}."


class BrowserSession:
    """The tabs of one lease.

    Args:
        lease: The session's lease.
        boundary: The lease's boundary.
        observe: What to observe; other events are ignored.
        settle: When a page counts as settled.
        keeper: The secrets that looks report.
        listener: Listens to what a person or another program does in the tabs. Then the session
            answers no dialogs and intercepts no file choosers.
        script: JavaScript of the task, which is added to the page script. May be empty.
        hidden: A CSS selector of elements left out of the axtree. May be empty.
        surroundings: JavaScript to run in each document before its own; empty for none.
    """

    def __init__(
        self,
        lease: lease_lib.Lease,
        boundary: network_lib.Boundary,
        *,
        observe: observation_lib.Observe,
        settle: settle_policy_lib.SettlePolicy,
        keeper: SecretKeeper,
        listener: listener_lib.Listener | None = None,
        script: str = "",
        hidden: str = "",
        surroundings: str = "",
    ) -> None:
        self.lease = lease
        self.run = lease.run
        self.boundary = boundary
        """What the session may reach."""
        self.dialogs: list[str] = []
        """JavaScript dialogs since the last `take_events`."""
        self.console: list[str] = []
        """Console errors since the last `take_events`."""
        self.chooser_opened = False
        """Whether a page asked for files since this was last set to False."""
        self.lost_tab = False
        """Whether a tab that was not active crashed since this was last set to False."""
        self.downloads = traffic_lib.DownloadShelf(limit=observe.download_limit)
        self._observe = observe
        self._settle = settle
        self._keeper = keeper
        self._listener = listener
        self._surroundings = surroundings
        listening = ""
        if listener is not None:
            listening = page_script_lib.to_argument(self._look_options(hidden))
        self._script = page_script_lib.page_script(script, listening=listening)
        # A task's own script needs the page's world, so its pages must be trusted.
        self._isolated = not script
        self._world: page_script_lib.World = (
            page_script_lib.IsolatedWorld(self, self._script)
            if self._isolated
            else page_script_lib.PageWorld(self, self._script)
        )
        self.foreign_frames = foreign_frames_lib.ForeignFrames(
            self, self._world, seconds=settle.cap, listener=listener
        )
        self._opened: Page | None = None
        self._failures: dict[Page, LoadFailure] = {}
        self._failures_of_new_tabs: list[LoadFailure] = []
        self._failed = asyncio.Event()
        self._network_changed = False
        self._statuses: dict[Page, int] = {}
        self._cdp: dict[Page, CDPSession] = {}
        self._attaching = asyncio.Lock()
        self._copied: Mapping[str, str] = {}
        self._next_ref = 1
        self._typed = False
        self._tab_closed = asyncio.Event()
        self._network = (
            None
            if settle.network_quiet is None
            else network_watch_lib.NetworkWatch(lease.context, answers=settle.answers)
        )
        self._traffic = (
            traffic_lib.TrafficLog(lease.context, body_limit=observe.body_limit)
            if "network" in observe.channels
            else None
        )

    async def start(self) -> None:
        """Prepare the lease's context."""
        for page in self.tabs:
            self._listen(page)
        self.lease.context.on("page", self._on_new_page)
        self.lease.context.on("requestfailed", self._on_request_failed)
        if not self.lease.borrowed and self._listener is None:
            script = clipboard_lib.async_clipboard()
            await self.run(self.lease.context.add_init_script(script), "take the clipboard")
        if self._surroundings:
            script = self._surroundings
            await self.run(self.lease.context.add_init_script(script), "change the surroundings")
        await self._world.start(self.lease.context)
        timers = page_script_lib.timers_script(self._settle)
        if timers and not self.lease.borrowed and self._listener is None:
            # After the page script, whose own timers do not count.
            await self.run(self.lease.context.add_init_script(timers), "take the timers")
        if self._listener is not None:
            await self._listener.attend(self, self._script, isolated=self._isolated)

    def serve(self, owner: str, keeper: SecretKeeper) -> None:
        """Change to another environment."""
        self.lease.owner = owner
        self._keeper = keeper

    async def close(self) -> None:
        """Release the lease, and close the boundary."""
        try:
            await self.lease.release()
        finally:
            await self.boundary.gateway.close()

    @property
    def page(self) -> Page:
        """The active tab."""
        return self._active

    @property
    def _active(self) -> Page:
        return self.lease.active

    @_active.setter
    def _active(self, page: Page) -> None:
        self.lease.turn_to(page)

    @property
    def tabs(self) -> list[Page]:
        """All tabs, in order of opening."""
        return self.lease.context.pages

    @property
    def next_ref(self) -> int:
        """The number of the next new ref."""
        return self._next_ref

    @property
    def http_status(self) -> int:
        """HTTP status of the active tab's document; 0 if there is none."""
        return self._statuses.get(self._active, 0)

    async def begin_episode(self) -> None:
        """Forget what an earlier episode left: tabs, events, files, traffic, refs."""
        if len(self.tabs) > 1 and not self.lease.borrowed:
            first, *others = self.tabs
            for page in others:
                await self.run(page.close(), what="close a tab")
            self._active, self._opened = first, None
            self._tab_closed.clear()
        self.forget_events()
        self._copied = {}
        self._next_ref = 1
        self.foreign_frames.forget_all()

    def forget_events(self) -> None:
        """Forget what happened since the last look: events, files, traffic, blocked pages."""
        self.boundary.take_blocked()
        self.take_events()
        self.downloads.take()
        self.chooser_opened = False
        if self._traffic is not None:
            self._traffic.clear()

    async def forget_history(self) -> None:
        """Make the active tab's page the first of its history."""
        session = await self.debugger(self._active)
        await self.run(session.send("Page.resetNavigationHistory"), what="forget its history")

    async def open(self, url: str) -> None:
        """Open a URL in the active tab and wait for it to load, within the policy's limit.

        Raises:
            PageLoadError: The page did not load.
            BrowserTimeoutError: The site did not answer in time.
            BrowserError: The browser failed or rejected the URL.
        """
        await self.lease.turns.pace(url)
        async with self.lease.turns.at("navigate"):
            for left in reversed(range(_NETWORK_CHANGES)):
                failure = await self._open_once(url)
                if failure is None:
                    return
                if failure.error != _NETWORK_CHANGED or not left:
                    raise self._load_error(failure)

    async def _open_once(self, url: str) -> LoadFailure | None:
        page = self._active
        self._failures.pop(page, None)
        self._statuses.pop(page, None)
        self._network_changed = False
        try:
            response = await self.run(page.goto(url, wait_until="commit"), what=f"open {url}")
        except errors.BrowserError as error:
            if not _is_plain(error):
                raise
            await self._check_alive(page, what=f"open {url}")
            if page in self._failures:
                return self._failures[page]
            if _DOWNLOAD in str(error):
                return None
            if _ERROR_PAGE in str(error):  # The error page of the last attempt came in between.
                return LoadFailure(url, _NETWORK_CHANGED)
            raise
        if response is not None:
            self._statuses[page] = response.status
        await self._wait_for_load("load")
        if self._network_changed:  # A script or a picture of the page was lost.
            return LoadFailure(url, _NETWORK_CHANGED)
        return self._failures.get(page)  # It broke off, or redirected to one that does not load.

    async def _check_alive(self, page: Page, *, what: str) -> None:
        """Raise an error if a page died, which at first looks like an aborted load."""
        try:
            await self.run(page.evaluate("0"), what=what)
        except errors.BrowserError as error:
            if not _is_plain(error):
                raise

    def take_failure(self, page: Page, *, refused: bool = False) -> LoadFailure | None:
        """Return why a tab's page did not load completely; None if it did, or was asked before.

        Args:
            page: The tab.
            refused: Whether its navigation has just failed, even if the page does not show that
                yet.
        """
        failure = self._failures.get(page)
        shows_error = page.url.startswith(_ERROR_PAGE)
        if failure is None and shows_error and self._failures_of_new_tabs:
            failure = self._failures_of_new_tabs.pop(0)
        elif failure is None or not (
            refused or shows_error or _same_document(page.url, failure.url)
        ):
            return None
        self._failures.pop(page, None)
        return self._with_reason(failure)

    def _with_reason(self, failure: LoadFailure) -> LoadFailure:
        reason, denied = self.boundary.gateway.failure(failure.url)
        return dataclasses.replace(failure, reason=reason, denied=denied)

    def _load_error(self, failure: LoadFailure) -> errors.PageLoadError:
        return errors.PageLoadError(str(self._with_reason(failure)))

    async def focus(self, page: Page) -> None:
        """Make a tab the active one."""
        self._active, self._opened = page, None
        await self.run(page.bring_to_front(), what="switch tabs")

    async def replace_page(self) -> None:
        """Close the tabs that crashed, or else the active one, which does not answer.

        A blank tab replaces the active one.

        Raises:
            BrowserError: The browser failed.
        """
        active = self._active
        stuck, self.lease.crashed = self.lease.crashed or {active}, set()
        if active in stuck:
            active = await self.run(self.lease.context.new_page(), what="open a tab")
            await self.focus(active)
        for page in stuck:
            with contextlib.suppress(errors.BrowserError):
                await self.run(page.close(), what="close a tab", seconds=_CLOSE)
        self._active, self._opened = active, None
        self._tab_closed.clear()
        self.lease.timed_out = False  # The page was at fault, not the browser.

    def turn_to(self, page: Page) -> None:
        """Observe another tab from now on, after somebody else has switched to it."""
        self._active, self._opened = page, None

    async def call(self, function: str, argument: Any) -> Any:
        """Call a page script function that returns JSON text; return the parsed value."""
        return await self._world.call(self._active, function, argument)

    async def prepare(self, kind: str, ref: str | None, details: Mapping[str, Any]) -> Any:
        """Ask the page script to prepare an element for an action; return its answer."""
        options = {"kind": kind, "ref": ref, **details}
        if ref is not None and self.foreign_frames.owns(ref):
            return await self.foreign_frames.prepare(self._active, options)
        return await self.call("prepare", options)

    async def elements_at(self, paths: list[Any], *, hidden: str) -> list[Any]:
        """Return for each path the ref, whether it is a password field, and whether it is hidden.

        Args:
            paths: Lists of child numbers from the document on, with "shadow" and "frame" between
                them.
            hidden: A CSS selector of hidden elements.
        """
        answer = await self.call("elementsAt", {"paths": paths, "hidden": hidden})
        self._next_ref = max(self._next_ref, answer["next_ref"])
        elements: list[Any] = answer["elements"]
        return elements

    async def rename_refs(self, pairs: Iterable[tuple[str, str]], following: int) -> None:
        """Give elements of the active tab other refs.

        Args:
            pairs: Pairs of an old and a new ref.
            following: The number of the next new ref.
        """
        await self.call("renameRefs", {"pairs": list(pairs), "next": following})
        self._next_ref = following

    async def look(
        self,
        *,
        hidden: str = "",
        begin: Mapping[str, Any] | None = None,
        capture: bool = False,
        moments: bool = False,
    ) -> Any:
        """Wait until the page has settled, and observe it.

        A tab opened by a page becomes active here and stays active until the next look: an
        observation and the action that follows it concern the same tab.

        Args:
            hidden: A CSS selector of elements left out of the axtree.
            begin: The argument for the task script's `begin`, to begin an episode first.
            capture: Whether to take a screenshot while the page settles, since most pages do not
                change meanwhile.
            moments: Whether to report what the page shows after each change from now on.

        Returns:
            The result of the page script's `observe`. Its `settle.ended` is `navigated` if the page
            navigated meanwhile. `capture` is an early screenshot, absent if the page moved after
            it. `tabs` are the URLs of all tabs, and `active_tab` is the index of the observed one.
            `moments` are the URL, title and axtree after each change since the last look, if that
            look or this one asked.
        """
        noted: list[Any] = []
        navigated = False
        begun = time.monotonic()
        network_quiet = await self._network_settled()
        waited = looked = time.monotonic()
        shown = False
        for left in reversed(range(_MAX_NAVIGATIONS)):
            if self._opened is not None:
                await self._take_copied()
                self._active, self._opened = self._opened, None
            options = {
                **self._look_options(hidden),
                "first_ref": self._next_ref,
                "clipboard": self._copied,
                "moments": moments,
                "settle": {
                    "quiet": self._settle.quiet * 1e3,
                    "cap": self._time_left(begun) * 1e3,
                    "pictures": self._settle.pictures * 1e3,
                    # A clock that an episode begins with has no end to wait for.
                    "timers": self._settle.timers * 1e3 if begin is None else 0,
                    "departure": self._settle.departure * 1e3,
                    "leaving": self._grace * 1e3,
                    "waited": (time.monotonic() - begun) * 1e3 if self._network else 0,
                    "brokeOff": self._active in self._failures,
                },
            }
            if begin is not None:
                options["begin"] = begin
            try:
                async with self.lease.turns.at("observe"):
                    seen = await self._observe_page(options, capture=capture and begin is None)
            except errors.BrowserCrashedError:
                if not await self.tab_was_closed():
                    raise
                navigated = True
                continue
            except errors.BrowserError as error:
                replaced = page_script_lib.is_replaced(error)
                if not replaced and not lease_lib.is_navigation_error(error.__cause__):
                    raise
                navigated = True
                await self._wait_for_load("domcontentloaded")
                continue
            if "bad_selector" in seen:
                name = seen["bad_selector"]
                raise errors.InvalidInputError(
                    f"The redaction rule {name!r} is {self._keeper.selectors.get(name)!r}, which "
                    "the browser rejects as a CSS selector."
                )
            self._next_ref = seen["next_ref"]
            noted += seen["moments"]
            if "foreign" in seen or self.foreign_frames.knows(self._active):
                async with self.lease.turns.at("observe"):
                    await self.foreign_frames.look_into(self._active, seen, options)
            self._keep_copied(seen.pop("copied", None))
            # Once a look: on a lively page there is always something new.
            if left and not shown and await self._show_unseen():
                shown = True
                continue
            if self._active not in self.tabs or (left and self._opened is not None):
                navigated = True
                continue
            if left and self._network is not None and self._network.is_leaving(self._active):
                await self._network_settled()
                if not self._network.is_leaving(self._active):
                    continue
            # Not after `begin`, which would begin the episode a second time.
            if left and begin is None and network_quiet and self._began_to_fetch(waited, looked):
                network_quiet = await self._network_settled()
                looked = time.monotonic()
                continue
            await self.downloads.settle()
            if self.lease.crashed and not self.lease.borrowed:
                self.lost_tab = True
                await self.replace_page()
            seen["moments"] = noted
            seen["tabs"] = [page.url for page in self.tabs]
            seen["active_tab"] = self.tabs.index(self._active)
            if navigated:
                seen["settle"]["ended"] = "navigated"
            elif not network_quiet:
                seen["settle"]["ended"] = "cap"
            return seen
        raise errors.BrowserTimeoutError(
            f"The page at {self._active.url} navigated {_MAX_NAVIGATIONS} times in a row without "
            "settling."
        )

    @contextlib.asynccontextmanager
    async def own_clipboard(self) -> AsyncIterator[None]:
        """Hold the browser's clipboard, with what this session's pages copied last."""
        if self.lease.borrowed:
            yield
            return
        await self._take_copied()
        async with self.lease.browser.clipboard.holding(self._copied, self.lease):
            yield

    async def _take_copied(self) -> None:
        """Keep what the active page copied since it was asked last."""
        if self.lease.borrowed:
            return
        with contextlib.suppress(errors.BrowserError):  # A page that left has been asked before.
            self._keep_copied(await self.call("takeCopied", None))
            for debugger, world in self.foreign_frames.find_entered(self._active):
                ask = page_script_lib.sender(self, debugger, seconds=_QUESTION)
                self._keep_copied(await world.call(ask, "takeCopied"))

    def _keep_copied(self, content: Mapping[str, str] | None) -> None:
        if content is not None:
            self._copied = content

    async def _show_unseen(self) -> bool:
        """Show the page script what it cannot see by itself; return whether any of it is new."""
        from webtraj.environments.browser import unseen as unseen_lib  # Few pages need it.

        page = self._active
        world = self._world.find_entered(page)
        if world is None:
            return False
        worlds = {await self.debugger(page): [world]}
        for debugger, inner in self.foreign_frames.find_entered(page):
            worlds.setdefault(debugger, []).append(inner)
        shows = [unseen_lib.show_closed_roots]
        if "set_of_marks" in self._observe.channels:
            shows.append(unseen_lib.show_click_handlers)
        news = await asyncio.gather(
            *(
                show(page_script_lib.sender(self, debugger, seconds=_QUESTION), entered)
                for debugger, entered in worlds.items()
                for show in shows
            ),
            return_exceptions=True,
        )
        for result in news:
            if isinstance(result, BaseException) and not isinstance(result, errors.BrowserError):
                raise result
        return True in news

    def _look_options(self, hidden: str) -> dict[str, Any]:
        """Return the options of the page script that are the same for every look."""
        return {
            "channels": self._observe.channels,
            "hidden": hidden,
            "axtree_limit": self._observe.axtree_limit,
            "passwords": self._keeper.watches_passwords,
            "private": list(self._keeper.selectors.items()),
        }

    def make_look(self, seen: Mapping[str, Any]) -> dict[str, Any]:
        """Turn an observation of the page script into the result of a `look`, without a picture.

        Frames of another origin show nothing inside.
        """
        self._next_ref = max(self._next_ref, seen["next_ref"])
        settle = {"ended": "cap", "ms": 0, "moved": True}
        kept = {key: value for key, value in seen.items() if key != "foreign"}
        tabs = {"tabs": [page.url for page in self.tabs], "active_tab": self._index_of_active()}
        return {**kept, **tabs, "settle": settle, "capture": b""}

    def blank_look(self) -> dict[str, Any]:
        """Return the observation of a page that does not answer: an empty page."""
        extents = ("x", "y", "width", "height", "page_width", "page_height")
        return {
            "url": self._active.url,
            "title": "",
            "axtree": "... no answer",
            "text": "",
            "focused": "",
            "scroll": dict.fromkeys(extents, 0),
            "boxes": {"refs": [], "boxes": []},
            "marks": {"refs": [], "roles": [], "names": [], "boxes": []},
            "task": None,
            "next_ref": self._next_ref,
            "ms": 0,
        }

    def _index_of_active(self) -> int:
        return self.tabs.index(self._active) if self._active in self.tabs else 0

    async def _observe_page(self, options: Mapping[str, Any], *, capture: bool) -> Any:
        if not capture:
            return await self.call("observe", options)
        # Starts at the first await below: after the page script's call, not before it.
        early = asyncio.ensure_future(self.screenshot())
        try:
            seen = await self.call("observe", options)
            looked = time.perf_counter()
            if not seen["settle"]["moved"]:
                with contextlib.suppress(errors.BrowserError):  # It is taken again later.
                    seen["capture"] = await early
                    seen["capture_seconds"] = time.perf_counter() - looked
            return seen
        finally:
            early.cancel()
            await asyncio.wait({early})
            if not early.cancelled():
                early.exception()  # Retrieved, so that asyncio does not complain.

    async def tab_was_closed(self) -> bool:
        """Return whether a call failed because the page closed its own tab, which is not an error.

        Another tab then becomes active; if it was the last, a blank tab.
        """
        if not self.lease.healthy:
            return False
        # The call may fail shortly before the event that explains it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_NOTICE):
                await self._tab_closed.wait()
        if not self._tab_closed.is_set() or not self.lease.healthy:
            return False
        self._tab_closed.clear()
        if not self.tabs:
            self._active = await self.run(self.lease.context.new_page(), what="open a tab")
        return True

    async def screenshot(
        self, picture_format: observation_lib.PictureFormat | None = None
    ) -> bytes:
        """Return the active tab's viewport as an image. Default: in the format of observations."""
        session = await self.debugger(self._active)
        options: dict[str, Any] = {
            "format": picture_format or self._observe.screenshot_format,
            "optimizeForSpeed": True,
        }
        if options["format"] != "png":
            options["quality"] = self._observe.screenshot_quality
        async with self.lease.turns.at("screenshot"):
            # Between two documents Chromium refuses, and at times never answers.
            limit = self.lease.seconds
            deadline = time.monotonic() + limit / 2
            while True:
                again = time.monotonic() < deadline
                try:
                    answer = await self.run(
                        session.send("Page.captureScreenshot", options),
                        what="take a screenshot",
                        seconds=limit / 10 if again else None,
                    )
                    return base64.b64decode(answer["data"])
                except errors.BrowserTimeoutError:
                    if not again:
                        raise
                except errors.BrowserError as error:
                    if not again or not lease_lib.is_navigation_error(error.__cause__):
                        raise
                    await self._wait_for_load("domcontentloaded")
                    await asyncio.sleep(_UNDRAWN)

    async def viewport(self) -> tuple[float, float]:
        """Return the width and height of the active tab's viewport in CSS pixels."""
        size = self._active.viewport_size
        if size is not None:
            return size["width"], size["height"]
        session = await self.debugger(self._active)
        told = await self.run(session.send("Page.getLayoutMetrics"), what="tell its size")
        return told["cssVisualViewport"]["clientWidth"], told["cssVisualViewport"]["clientHeight"]

    async def history(self) -> tuple[int, int]:
        """Return the active tab's place in its history, from 0, and the history's length.

        The first blank page of a tab does not count, unless it is the only one.
        """
        session = await self.debugger(self._active)
        told = await self.run(session.send("Page.getNavigationHistory"), what="tell its history")
        place, entries = told["currentIndex"], told["entries"]
        blank = int(place > 0 and entries[0]["url"] == BLANK)
        return place - blank, len(entries) - blank

    def take_events(self) -> tuple[list[str], list[str]]:
        """Return the dialogs and console errors since the last call."""
        taken = self.dialogs, self.console
        self.dialogs, self.console = [], []
        return taken

    async def take_traffic(self) -> str:
        """Return the HTTP exchanges since the last call; empty if they are not observed."""
        return "" if self._traffic is None else await self._traffic.take()

    async def debugger(self, page: Page) -> CDPSession:
        """Return a tab's debugging session, created once."""
        if page not in self._cdp:
            async with self._attaching:
                if page not in self._cdp:
                    debugger = await self.run(
                        self.lease.context.new_cdp_session(page), what="open a debugging session"
                    )
                    if self._network is not None:
                        hears = self._network.attend(page, debugger)
                        await self.run(hears, what="tell of its frames")
                    self._cdp[page] = debugger
        return self._cdp[page]

    def begin_action(self, *, types: bool) -> None:
        """Note that an action begins, so that its effects are waited for.

        Args:
            types: Whether the action types.
        """
        self._typed = types
        if self._network is not None:
            self._network.begin_action(self._active)

    def _time_left(self, begun: float) -> float:
        """Return the seconds that a restless page has left to settle."""
        if self._settle.restless is None:
            return self._settle.cap
        left = self._settle.restless - (time.monotonic() - begun)
        return min(self._settle.cap, max(left, self._settle.quiet))

    @property
    def _grace(self) -> float:
        """Seconds within which a page that is leaving asks for its next document."""
        departure = self._settle.departure
        return departure if self._network is None else min(departure, _ASKS_WITHIN)

    def _began_to_fetch(self, waited: float, looked: float) -> bool:
        """Return whether the page has sent requests since the last look, and has time left.

        A timer, or a script that started late, may have sent them.

        Args:
            waited: When the first wait for the network ended.
            looked: When the last wait for the network ended, before the last look.
        """
        if self._network is None or not self._network.has_asked_since(self._active, looked):
            return False
        settle = self._settle
        limit = settle.cap if settle.restless is None else settle.restless
        return time.monotonic() - waited < max(limit, settle.answers or 0.0)

    async def _network_settled(self) -> bool:
        settle = self._settle
        if self._network is None or settle.network_quiet is None:
            return True
        quiet = settle.network_quiet
        if self._typed and settle.after_typing is not None:
            quiet = max(quiet, settle.after_typing)
        return await self._network.wait_until_quiet(
            self._active,
            quiet=quiet,
            cap=settle.cap,
            restless=settle.cap if settle.restless is None else settle.restless,
            departure=settle.departure,
        )

    async def _wait_for_load(self, state: Literal["load", "domcontentloaded"]) -> None:
        # Slow pages are observed as far as they have loaded. An aborted page never loads further.
        page = self._active
        if page in self._failures:
            return
        loading = asyncio.ensure_future(
            self.run(
                page.wait_for_load_state(state), what="load the page", seconds=self._settle.load
            )
        )
        failing = asyncio.ensure_future(self._failed.wait())
        try:
            while page not in self._failures and not loading.done():
                self._failed.clear()
                await asyncio.wait((loading, failing), return_when=asyncio.FIRST_COMPLETED)
                if failing.done():
                    failing = asyncio.ensure_future(self._failed.wait())
            if loading.done():
                with contextlib.suppress(errors.BrowserTimeoutError):
                    await loading
        finally:
            for task in (loading, failing):
                task.cancel()
            await asyncio.gather(loading, failing, return_exceptions=True)

    def _on_new_page(self, page: Page) -> None:
        self._listen(page)
        if not self.lease.borrowed:
            self.lease.watch(page)
        if self._listener is None:
            self._opened = page

    def _on_request_failed(self, request: Request) -> None:
        if request.failure == _NETWORK_CHANGED:
            self._network_changed = True
        if not request.is_navigation_request() or request.failure == _ABORTED:
            return
        failure = LoadFailure(request.url, request.failure or _UNKNOWN_ERROR)
        try:
            frame = request.frame
        except Exception:  # Playwright's: the tab is so new that it has no frame yet.
            if len(self._failures_of_new_tabs) < _MAX_EVENTS:
                self._failures_of_new_tabs.append(failure)
            return
        if frame.parent_frame is None:
            self._failures[frame.page] = failure
            self._failed.set()

    def _on_download(self, download: Download) -> None:
        if self._network is not None:
            self._network.note_arrival(download.page)

    def _on_navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None and self._network is not None:
            self._network.note_arrival(frame.page)
        if frame.parent_frame is None and not frame.url.startswith(_ERROR_PAGE):
            self._failures.pop(frame.page, None)

    def _listen(self, page: Page) -> None:
        page.on("framenavigated", self._on_navigated)
        page.on("close", self._on_page_closed)
        page.on("download", self._on_download)
        if self._listener is None:
            page.on("dialog", self._on_dialog)
            # File choosers are intercepted from the start: if requested only when an upload begins,
            # the browser may learn of it after the click.
            page.on("filechooser", self._on_file_chooser)
        else:  # With a handler that does nothing, Playwright leaves the dialog open.
            page.on("dialog", self._note_dialog)
        if "downloads" in self._observe.channels:
            self.downloads.watch(page)
        if "console" in self._observe.channels:
            page.on("console", self._on_console)
            page.on("pageerror", lambda error: self._note(self.console, f"exception: {error}"))
        if "http_status" in self._observe.channels:
            page.on("response", self._on_response)

    def _on_file_chooser(self, _: FileChooser) -> None:
        self.chooser_opened = True

    def _note_dialog(self, dialog: Dialog) -> None:
        self._note(self.dialogs, f"{dialog.type}: {dialog.message}")

    async def _on_dialog(self, dialog: Dialog) -> None:
        self._note_dialog(dialog)
        # Prompts are dismissed, because there is no answer to give; other dialogs are accepted.
        answer = dialog.dismiss() if dialog.type == "prompt" else dialog.accept()
        # If this fails, the page is gone, and the call that waits on it reports that.
        with contextlib.suppress(errors.BrowserError):
            await self.run(answer, what=f"close a {dialog.type} dialog")

    def _on_page_closed(self, page: Page) -> None:
        self._cdp.pop(page, None)
        self._world.forget(page)
        self.foreign_frames.forget(page)
        self._statuses.pop(page, None)
        self._failures.pop(page, None)
        self._tab_closed.set()
        if page is self._opened:
            self._opened = None
        if page is self._active and self.tabs:
            self._active = self.tabs[-1]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(self.console, f"error: {message.text}")

    def _on_response(self, response: Response) -> None:
        frame = response.frame
        if response.request.is_navigation_request() and frame.parent_frame is None:
            self._statuses[frame.page] = response.status

    @staticmethod
    def _note(events: list[str], event: str) -> None:
        if len(events) < _MAX_EVENTS:
            events.append(event)


def _is_plain(error: errors.BrowserError) -> bool:
    """Return whether an error leaves the browser healthy: it neither died nor was too slow."""
    gone = (errors.BrowserCrashedError, errors.BrowserTimeoutError)
    return not isinstance(error, gone)


def _same_document(url: str, other: str) -> bool:
    return url.partition("#")[0] == other.partition("#")[0]
