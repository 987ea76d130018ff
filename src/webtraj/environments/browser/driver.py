"""One Playwright driver, and one browser under it: start, watch, stop.

A driver is the Node process through which a pool controls all its browsers; both run under the
guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from webtraj import errors as errors_lib
from webtraj.environments.browser import processes as processes_lib

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

__all__ = ["Driver", "Lifeline", "RunningBrowser", "is_closed_error", "is_navigation_error"]

# A deadline on every await: no call into a browser may hang or raise an untyped error.
#
# Playwright's own timeouts do not cover evaluation, closing, or a driver that stopped answering.

_T = TypeVar("_T")

_STOOD_STILL = 1.0
"""A timer that is this many seconds late means that this process was stopped, not the browser."""

_AFTER_STANDSTILL = 5.0
"""Seconds that a call gets after that."""

_TIMED_OUT = "The browser did not {what} within {seconds:g} s."
_NAVIGATED = (
    "Execution context was destroyed",
    "Cannot find context",
    "Inspected target navigated",
    "Frame was detached",
    "Not attached to an active page",
)
_CRASHED = "{reason} while webtraj waited for it to {what}. Reset the environment to continue."


class Lifeline:
    """The calls in flight on one browser, context or page, and whether it has died.

    `cut` fails every call in flight, and every later one, at once.
    """

    def __init__(self) -> None:
        self._reason = ""
        self._calls: set[asyncio.Timeout] = set()

    @property
    def cut_reason(self) -> str:
        """Why it was cut; empty while it is not."""
        return self._reason

    def cut(self, reason: str) -> None:
        """Fail all calls with a `BrowserCrashedError` for this reason; the first reason wins."""
        self._reason = self._reason or reason
        now = asyncio.get_running_loop().time()
        for call in self._calls:
            if not call.expired():  # Otherwise it is ending already.
                call.reschedule(now)

    async def run(self, call: Awaitable[_T], *, what: str, seconds: float) -> _T:
        """Await `call`, for `seconds` at most.

        Args:
            call: A call into the browser.
            what: Description for messages, starting with a verb: `open the page`.
            seconds: The deadline.

        Raises:
            BrowserTimeoutError: The deadline passed.
            BrowserCrashedError: The page, context or browser died before or during the call.
            BrowserError: The browser refused the call.
        """
        from playwright.async_api import Error as PlaywrightError
        from playwright.async_api import TimeoutError as PlaywrightTimeoutError

        try:
            async with asyncio.timeout(0 if self._reason else None) as timeout:
                self._calls.add(timeout)
                deadline = _Deadline(timeout, seconds)
                try:
                    return await call
                finally:
                    deadline.cancel()
                    self._calls.discard(timeout)
        except (TimeoutError, PlaywrightTimeoutError) as error:  # Its clock may be ahead of ours.
            if self._reason:
                raise self._crash(what) from None
            message = _TIMED_OUT.format(what=what, seconds=seconds)
            raise errors_lib.BrowserTimeoutError(message) from error
        except PlaywrightError as error:
            if self._reason or is_closed_error(error):
                raise self._crash(what) from error
            message = f"The browser did not {what}: {error.message}"
            raise errors_lib.BrowserError(message) from error

    def _crash(self, what: str) -> errors_lib.BrowserCrashedError:
        reason = self._reason or "The page went away"
        return errors_lib.BrowserCrashedError(_CRASHED.format(reason=reason, what=what))


class _Deadline:
    """A timeout that does not expire because this process itself was stopped.

    A process that was stopped (debugger, Ctrl-Z) or whose loop was blocked finds the deadline
    passed and the answer waiting. It gets a moment to read the answer.
    """

    def __init__(self, timeout: asyncio.Timeout, seconds: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._wait(seconds)

    def cancel(self) -> None:
        """End the watch."""
        self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        self._due = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        if self._loop.time() - self._due > _STOOD_STILL:
            self._wait(_AFTER_STANDSTILL)
        elif not self._timeout.expired():
            self._timeout.reschedule(self._loop.time())


def is_closed_error(error: Exception) -> bool:
    """Return whether a Playwright error means that its target is gone."""
    # Playwright exports neither the class nor a code; a crashed page is a plain Error.
    return type(error).__name__ == "TargetClosedError" or any(
        text in str(error) for text in ("Target crashed", "Page crashed", "Connection closed")
    )


def is_navigation_error(error: BaseException | None) -> bool:
    """Return whether a call failed because its document was replaced by another."""
    return error is not None and any(text in str(error) for text in _NAVIGATED)


_START_GRACE = 5.0
"""Seconds for an abandoned start to end; it takes less than one."""

_DRIVER_ENDED = (
    "Playwright's driver ended during startup; it was run by {node!r}. Its own message is on "
    "stderr; `webtraj doctor` lists what is missing on this machine."
)
_UNKNOWN_PLAYWRIGHT = (
    "webtraj cannot guard the driver of Playwright {version}, which could outlive this process, so "
    "it did not start it. Run `pip install 'playwright>=1.59,<1.66'`, or upgrade webtraj."
)

_TRANSPORTS = ("playwright._impl.transport", "playwright._impl._transport")
"""The module of Playwright that starts the driver: the current one, and that of 1.59."""

_guard_node: ContextVar[Callable[[str], str] | None] = ContextVar("_guard_node", default=None)
"""The command to run in place of Node, set in tasks that start our driver."""

_patching = threading.Lock()

_ARGUMENTS = (
    # Renders identically on every machine, so that screenshots can be compared.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
)


async def _uninterrupted(start: Awaitable[Playwright]) -> Playwright:
    """Await Playwright's start; raise a `BrowserCrashedError` if Ctrl-C interrupts it.

    Ctrl-C raises KeyboardInterrupt in one of Playwright's tasks and stops the event loop. Awaiting
    that task would raise it a second time: in a notebook, in the next cell.
    """
    try:
        return await start
    except KeyboardInterrupt as error:
        message = (
            "The start of Playwright's driver was interrupted. Reset the environment to continue."
        )
        raise errors_lib.BrowserCrashedError(message) from error


class Driver:
    """Playwright's driver process."""

    def __init__(self, folder: processes_lib.RunFolder, playwright: Playwright, pid: int) -> None:
        self.playwright = playwright
        self._folder = folder
        self._pid = pid

    @classmethod
    async def start(cls, folder: processes_lib.RunFolder, *, seconds: float) -> Driver:
        """Start the driver.

        Raises:
            MissingDependencyError: Playwright is not installed.
            BrowserCrashedError: It exited at once.
            BrowserTimeoutError: It did not start in `seconds`.
        """
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise errors_lib.missing_dependency(
                "The browser environment needs Playwright", "web"
            ) from error
        _let_playwright_ask_for_node()
        start = _Start(folder)
        asked = _guard_node.set(start.guard)
        try:
            starting = asyncio.ensure_future(_uninterrupted(async_playwright().start()))
        finally:
            _guard_node.reset(asked)
        try:
            playwright = await Lifeline().run(
                asyncio.shield(starting), what="start its driver", seconds=seconds
            )
        except BaseException as error:
            wanted = not isinstance(error, asyncio.CancelledError)
            await start.end(starting, patience=0.0 if wanted else _START_GRACE)
            if _cancelled(asyncio.current_task()):
                raise asyncio.CancelledError from None
            if isinstance(error, errors_lib.WebtrajError) or not isinstance(error, Exception):
                raise
            # Playwright raises a bare Exception if its driver exits.
            raise errors_lib.BrowserCrashedError(_DRIVER_ENDED.format(node=start.node)) from error
        if start.command is None:
            await playwright.stop()
            raise _unknown_playwright()
        return cls(folder, playwright, start.command.pid)

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the driver's process runs."""
        return processes_lib.process_alive(self._pid)

    async def answers(self, *, seconds: float) -> bool:
        """Return whether the driver itself answers within `seconds`."""
        try:
            await Lifeline().run(self._ping(), what="answer", seconds=seconds)
        except errors_lib.BrowserError:
            return False
        return True

    async def _ping(self) -> None:
        # The driver's cheapest call that needs no browser.
        context = await self.playwright.request.new_context()
        await context.dispose()

    async def launch(
        self, executable: str, *, headless: bool, arguments: Sequence[str], seconds: float
    ) -> RunningBrowser:
        """Launche a browser under this driver."""
        command = self._folder.guarded(executable)
        with _aborting(command):
            browser = await Lifeline().run(
                self.playwright.chromium.launch(
                    executable_path=command.path,
                    headless=headless,
                    args=[*_ARGUMENTS, *arguments],
                    # webtraj handles Ctrl-C: it seals episodes before it closes browsers.
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=seconds * 1000,
                ),
                what="start",
                seconds=seconds,
            )
        return RunningBrowser(browser, command.pid)

    async def connect(
        self, endpoint: str, *, seconds: float, untouched: bool = False
    ) -> RunningBrowser:
        """Connect to a browser that runs elsewhere.

        Args:
            endpoint: A CDP endpoint (`http://host:9222`, `ws://host:9222/devtools/browser/...`), or
                a Playwright server (any other `ws://` or `wss://` address).
            seconds: The deadline.
            untouched: Whether to leave the settings of the browser's own context as they are. Only
                for CDP.
        """
        chromium = self.playwright.chromium
        is_cdp = endpoint.startswith("http") or "/devtools/" in endpoint
        call: Awaitable[Browser]
        if untouched:
            takes = inspect.signature(chromium.connect_over_cdp).parameters
            options: dict[str, Any] = {"no_defaults": True} if "no_defaults" in takes else {}
            call = chromium.connect_over_cdp(endpoint, **options)
        else:
            call = chromium.connect_over_cdp(endpoint) if is_cdp else chromium.connect(endpoint)
        browser = await Lifeline().run(
            call, what=f"accept a connection at {endpoint}", seconds=seconds
        )
        return RunningBrowser(browser, None)

    async def stop(self, *, patience: float) -> None:
        """Stop the driver, by force if it does not stop in `patience` seconds."""
        try:
            await Lifeline().run(self.playwright.stop(), what="stop its driver", seconds=patience)
        except errors_lib.BrowserError:
            await processes_lib.stop_group(self._pid, patience=patience)
        except asyncio.CancelledError:
            self.kill()
            await _reaped(self._pid)
            raise
        else:
            # A driver that still runs was never asked to stop: its event loop ended and cancelled
            # the task that talks to it.
            self.kill()
        await _reaped(self._pid)

    def kill(self) -> None:
        """Kill the driver at once."""
        processes_lib.kill_group(self._pid)


class RunningBrowser:
    """A browser and the lifelines of its leases.

    Args:
        browser: Playwright's browser.
        pid: Its process id; None if webtraj did not start it and so must not kill it.
    """

    def __init__(self, browser: Browser, pid: int | None) -> None:
        self._browser = browser
        self._lifelines: set[Lifeline] = set()
        self._lost = False
        self.pid = pid
        self.contexts_made = 0
        self.failures_in_a_row = 0
        """The number of failed leases since the last good one."""
        browser.on("disconnected", lambda _: self.lose("The browser process died"))

    @property
    def version(self) -> str:
        """The version that the browser reports."""
        return self._browser.version

    @property
    def usable(self) -> bool:
        """Whether it can open new contexts."""
        return not self._lost and self._browser.is_connected()

    @property
    def leases(self) -> int:
        """The number of contexts in use."""
        return len(self._lifelines)

    def private_memory(self) -> int | None:
        """Return the bytes held by the browser's processes; None if unknown."""
        return None if self.pid is None else processes_lib.private_memory(self.pid)

    def lose(self, reason: str) -> None:
        """Fail everything that runs in this browser."""
        self._lost = True
        for lifeline in self._lifelines:
            lifeline.cut(reason)

    def borrow_context(self, lifeline: Lifeline) -> BrowserContext:
        """Return the browser's own context; if the browser dies, `lifeline` is cut."""
        if not self._browser.contexts:
            raise errors_lib.BrowserError("The browser has no context of its own.")
        self._lifelines.add(lifeline)
        return self._browser.contexts[0]

    async def new_context(
        self, lifeline: Lifeline, options: Mapping[str, Any], *, seconds: float
    ) -> BrowserContext:
        """Open a context; if the browser dies, `lifeline` is cut."""
        self._lifelines.add(lifeline)
        self.contexts_made += 1
        try:
            return await lifeline.run(
                self._browser.new_context(**options), what="open a context", seconds=seconds
            )
        except BaseException:
            self._lifelines.discard(lifeline)
            raise

    def forget(self, lifeline: Lifeline) -> None:
        """Stop tracking a released context."""
        self._lifelines.discard(lifeline)

    async def close(self, *, patience: float) -> None:
        """Close the browser, by force if it does not close in `patience` seconds."""
        self.lose("The browser was closed")
        try:
            await Lifeline().run(self._browser.close(), what="close", seconds=patience)
        except errors_lib.BrowserCrashedError:
            self.kill()  # Without a driver, the browser cannot be asked to close.
        except errors_lib.BrowserError:
            pass
        if self.pid is not None:
            await processes_lib.stop_group(self.pid, patience=patience)

    def kill(self) -> None:
        """Kill the browser at once."""
        self.lose("The browser was killed")
        if self.pid is not None:
            processes_lib.kill_group(self.pid)


class _Start:
    """The start of one driver, until it runs or has been cleaned up."""

    def __init__(self, folder: processes_lib.RunFolder) -> None:
        self.node = ""
        self.command: processes_lib.GuardedCommand | None = None
        self._folder = folder
        self._ended = False

    def guard(self, node: str) -> str:
        """Return the command that runs Node under the guard."""
        if self._ended:
            raise errors_lib.BrowserCrashedError("The start of this driver was abandoned.")
        self.node = node
        self.command = self._folder.guarded(node)
        return str(self.command.path)

    async def end(self, starting: asyncio.Future[Playwright], *, patience: float) -> None:
        """End the start, within a few times `_START_GRACE` seconds.

        Args:
            starting: Playwright's part of it.
            patience: Seconds to let it succeed first: a running driver can be stopped cleanly, with
                its pipes closed.
        """
        if patience and not _cancelled(starting):
            await _settled(starting, seconds=patience)
        self._ended = True
        running = starting.done() and not starting.cancelled() and starting.exception() is None
        if running:
            stopping = asyncio.ensure_future(starting.result().stop())
            await _settled(stopping, seconds=_START_GRACE)
            stopping.cancel()
        if self.command is not None:
            started = self.command.find()
            self.command.abort()
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # It may not lead a group yet.
                await _reaped(pid)
        if not _cancelled(starting):  # Playwright notices that its driver has ended.
            await _settled(starting, seconds=_START_GRACE)
        starting.cancel()  # Again if needed: asyncio's own process start may hang.
        await _settled(starting, seconds=_START_GRACE)


def _cancelled(task: asyncio.Future[Any] | None) -> bool:
    """Return whether the task was cancelled, as all are when their event loop ends."""
    return isinstance(task, asyncio.Task) and (task.cancelled() or task.cancelling() > 0)


async def _settled(future: asyncio.Future[Any], *, seconds: float) -> None:
    """Wait until a future is done, at most `seconds`, even when cancelled (see `_cancelled`)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not future.done() and loop.time() < deadline:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future], timeout=deadline - loop.time())


async def _reaped(pid: int) -> None:
    """Wait until asyncio has noticed a child's end and closed its pipes.

    Wait at most `_START_GRACE` seconds, even when cancelled: only the loop can close the pipes, and
    it may be about to end.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_GRACE
    turns = 5  # The callbacks take a few turns; they come from asyncio's waiting thread.
    while turns and loop.time() < deadline:
        turns -= not processes_lib.process_exists(pid)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def _let_playwright_ask_for_node() -> None:
    """Make Playwright run Node under the guard, in tasks that have set `_guard_node`.

    The public way, the environment variable PLAYWRIGHT_NODEJS_PATH, would affect all threads and
    tasks of this process and all its children.

    Raises:
        MissingDependencyError: This version of Playwright finds its driver differently.
    """
    with _patching:
        for name in _TRANSPORTS:
            with contextlib.suppress(ImportError):
                transport: Any = importlib.import_module(name)
                break
        else:
            raise _unknown_playwright()
        find = getattr(transport, "compute_driver_executable", None)
        if find is None:
            raise _unknown_playwright()
        if hasattr(find, "__wrapped__"):
            return

        @functools.wraps(find)
        def find_guarded() -> tuple[str, str]:
            node, script = find()
            guard = _guard_node.get()
            return (node if guard is None else guard(node)), script

        transport.compute_driver_executable = find_guarded


def _unknown_playwright() -> errors_lib.MissingDependencyError:
    version = importlib.metadata.version("playwright")
    return errors_lib.MissingDependencyError(_UNKNOWN_PLAYWRIGHT.format(version=version))


@contextlib.contextmanager
def _aborting(command: processes_lib.GuardedCommand) -> Iterator[None]:
    """Clean up after a start that fails or is cancelled, which may have begun anyway."""
    try:
        yield
    except BaseException:
        command.abort()
        raise
