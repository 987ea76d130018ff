"""A lease: one page of a pool, held for a while.

Every call into the page has a deadline and a typed error (`CallGuard`). Work that a pool limits
waits for its turn (`OperationQueue`). What is used on an event loop belongs to it (`LoopAffinity`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, get_args
from urllib.parse import urlsplit

from webtraj import errors as errors_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from webtraj.environments.browser.processes import RunningBrowser

__all__ = [
    "CallGuard",
    "Lease",
    "LoopAffinity",
    "Operation",
    "OperationLimits",
    "Operations",
    "OperationQueue",
    "is_navigation_error",
]

_T = TypeVar("_T")


@dataclasses.dataclass(eq=False, repr=False)
class Lease:
    """A page in a context of its own, held until `release`.

    Calls into the page go through `run`, which gives each a deadline and a typed error.

    """

    owner: str
    """Who holds it, for messages."""
    browser: RunningBrowser
    """The browser of the page, for the pool."""
    call_guard: CallGuard
    """Cut when the browser dies, for the pool."""
    context: BrowserContext
    """Playwright's context. Nothing is shared with other leases."""
    page: Page
    """The context's first page."""
    turns: OperationQueue
    """Its turns at the pool's operations, taken for work on the page."""
    _: dataclasses.KW_ONLY
    seconds: float
    """The deadline of calls that give none."""
    give_back: Callable[[Lease], asyncio.Future[None]]
    """Called and awaited once with the lease, to close its context."""
    borrowed: bool = False
    """Whether the context is the browser's own, with tabs that others use."""
    timed_out: bool = dataclasses.field(default=False, init=False)
    """Whether a call exceeded the pool's deadline."""
    parked: int = dataclasses.field(default=0, init=False)
    """How often the pool has parked it."""
    _released: bool = dataclasses.field(default=False, init=False)
    crashed: set[Page] = dataclasses.field(default_factory=set, init=False)
    """The pages that crashed and were not replaced; tabs may share a renderer."""
    active: Page = dataclasses.field(init=False)
    """The page that calls are about."""

    def __post_init__(self) -> None:
        self.active = self.page
        self.watch(self.page)

    def watch(self, page: Page) -> None:
        """Notice when a page of the context crashes."""
        page.on("crash", self._on_crash)

    def turn_to(self, page: Page) -> None:
        """Make another page the one that calls are about."""
        self.active = page
        if page in self.crashed:
            self._on_crash(page)

    def _on_crash(self, page: Page) -> None:
        self.crashed.add(page)
        if page is self.active:  # Calls to it never return.
            self.call_guard.cut("The page crashed")

    def mend(self) -> bool:
        """Accept calls again after a page crashed; return whether the browser still runs."""
        if self._released or not self.browser.usable:
            return False
        self.call_guard.cut_reason = ""
        return True

    @property
    def healthy(self) -> bool:
        """Whether the lease is held and its page is not known to be dead."""
        return not self._released and not self.call_guard.cut_reason

    async def run(self, call: Awaitable[_T], what: str, *, seconds: float | None = None) -> _T:
        """Await a call into the page, for at most `seconds` or the pool's limit.

        `what` describes the call in messages, starting with a verb: `open the page`.

        Raises:
            BrowserCrashedError: The page or its browser died.
            BrowserTimeoutError: No answer came before the deadline.
            BrowserError: The browser refused the call.
        """
        limit = self.seconds if seconds is None else seconds
        try:
            return await self.call_guard.run(call, what=what, seconds=limit)
        except errors_lib.BrowserTimeoutError:
            self.timed_out |= seconds is None
            raise

    async def release(self) -> None:
        """Close the context and free its place. Idempotent; never raises.

        If cancelled, it continues in the background.
        """
        if not self._released:
            self._released = True
            await asyncio.shield(self.give_back(self))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()


# A deadline on every await: no call into a browser may hang or raise an untyped error.
#
# Playwright's own timeouts do not cover evaluation, closing, or a driver that stopped answering.

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
    "Unable to capture screenshot",  # The new document is not drawn yet.
)
_CRASHED = "{reason} while webtraj waited for it to {what}. Reset the environment to continue."


class CallGuard:
    """The calls in flight on one browser, context or page, and whether it has died.

    `cut` fails every call in flight, and every later one, at once.
    """

    def __init__(self) -> None:
        self.cut_reason = ""
        """Why it was cut; empty while it is not."""
        self._calls: set[asyncio.Timeout] = set()

    def cut(self, reason: str) -> None:
        """Fail all calls with a `BrowserCrashedError` for this reason; the first reason wins."""
        self.cut_reason = self.cut_reason or reason
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
            async with asyncio.timeout(0 if self.cut_reason else None) as timeout:
                self._calls.add(timeout)
                deadline = _Deadline(timeout, seconds)
                try:
                    return await call
                finally:
                    deadline.cancel()
                    self._calls.discard(timeout)
        except (TimeoutError, PlaywrightTimeoutError) as error:  # Its clock may be ahead of ours.
            if self.cut_reason:
                raise self._crash(what) from None
            message = _TIMED_OUT.format(what=what, seconds=seconds)
            raise errors_lib.BrowserTimeoutError(message) from error
        except PlaywrightError as error:
            if self.cut_reason or _is_closed_error(error):
                raise self._crash(what) from error
            message = f"The browser did not {what}: {error.message}"
            raise errors_lib.BrowserError(message) from error

    def _crash(self, what: str) -> errors_lib.BrowserCrashedError:
        reason = self.cut_reason or "The page went away"
        return errors_lib.BrowserCrashedError(_CRASHED.format(reason=reason, what=what))


class _Deadline:
    """A timeout that does not count time in which this process was stopped.

    When a process was stopped (debugger, Ctrl-Z) or its loop was blocked, the deadline may have
    passed although the answer has arrived. So there is a short extra time to read the answer.
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


def _is_closed_error(error: Exception) -> bool:
    """Return whether a Playwright error means that its target is gone."""
    # Playwright exports neither the class nor a code; a crashed page is a plain Error.
    return type(error).__name__ == "TargetClosedError" or any(
        text in str(error) for text in ("Target crashed", "Page crashed", "Connection closed")
    )


def is_navigation_error(error: BaseException | None) -> bool:
    """Return whether a call failed because another document replaced its own."""
    return error is not None and any(text in str(error) for text in _NAVIGATED)


# Operation limits: the most concurrent browser work of each kind in a pool.
#
# All pages of a pool may load, or be observed, at the same moment. A limit on a kind of work makes
# the others wait for their turn, in order of arrival. Waiting does not count against the deadline
# of the call.

Operation = Literal["allocate", "release", "navigate", "execute", "observe", "screenshot"]
"""The kinds of work. `observe` is the single call that reads a page: metadata, ac_tree and
page_metadata in one."""

_MINUTE: Final = 60.0
_SITES_KEPT: Final = 1024
"""The number of remembered sites above which idle ones are forgotten."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperationLimits:
    """The most concurrent operations of each kind; None or 0 for no limit.

    The names are those of WebGym's `http_pools`. Metadata, accessibility tree and page metadata are
    read in one call here, so the smallest of their limits applies.
    """

    metadata: int | None = None
    """Reading a page's size."""
    ac_tree: int | None = None
    """Reading a page's tree of elements."""
    page_metadata: int | None = None
    """Reading a page's title, address and state."""
    navigate: int | None = None
    """Loading a page by its URL, and going back and forth."""
    allocate: int | None = None
    """Opening a context, and a browser if needed."""
    release: int | None = None
    """Closing a context."""
    screenshot: int | None = None
    """Capturing the viewport."""
    execute: int | None = None
    """Any other action on a page."""
    requests_per_minute: float | None = None
    """The most page loads by URL per site and minute, evenly spaced; None for no limit. The pages'
    own requests do not count."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = int | float if field.name == "requests_per_minute" else int
            if value is not None and not (isinstance(value, kind) and value >= 0):
                raise errors_lib.InvalidInputError(
                    f"The operation limit {field.name!r} is {value!r}; expected a whole number, "
                    "or None or 0 for no limit."
                )

    def of(self, operation: Operation) -> int | None:
        """Return the limit of an operation; None for no limit.

        >>> OperationLimits(metadata=8, ac_tree=2).of("observe")
        2
        """
        if operation != "observe":
            limit: int | None = getattr(self, operation)
            return limit or None
        return min(filter(None, (self.metadata, self.ac_tree, self.page_metadata)), default=None)


class Operations:
    """The operations of one pool, which its leases share.

    Args:
        limits: The limit of each operation.
        clock: Gives the time in seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        limits: OperationLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._sites: dict[str, _Site] = {}
        self.limits = OperationLimits()
        """The limits for new turns."""
        self._gates: dict[Operation, asyncio.Semaphore] = {}
        self.limit(limits or OperationLimits())

    def limit(self, limits: OperationLimits) -> None:
        """Change the limits for turns requested from now on."""
        if limits == self.limits:
            return  # Running turns still count.
        self.limits = limits
        self._gates = {}
        for operation in get_args(Operation):
            if (limit := limits.of(operation)) is not None:
                self._gates[operation] = asyncio.Semaphore(limit)

    def gate(self, operation: Operation) -> asyncio.Semaphore | None:
        """Return the gate of an operation; None if it has no limit."""
        return self._gates.get(operation)

    async def pace(self, url: str) -> float:
        """Wait until a page of the URL's site may be loaded; return the seconds waited."""
        rate = self.limits.requests_per_minute
        host = urlsplit(url).hostname if rate and url.startswith(("http:", "https:")) else None
        if not rate or not host:
            return 0.0
        self._forget_rested()
        site = self._sites.setdefault(host, _Site(free_at=self._clock()))
        asked = self._clock()
        async with site.line:
            while (rest := site.free_at - self._clock()) > 0:
                await self._sleep(rest)
            site.free_at = self._clock() + _MINUTE / rate
        return self._clock() - asked

    def _forget_rested(self) -> None:
        if len(self._sites) < _SITES_KEPT:
            return
        now = self._clock()
        self._sites = {
            host: site
            for host, site in self._sites.items()
            if site.line.locked() or site.free_at > now
        }


class OperationQueue:
    """Gives a lease its turns at the pool's operations, and counts how long it waited."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.waited = 0.0
        """Seconds since they were last taken."""

    def at(self, operation: Operation | None) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context manager that waits for the lease's turn and ends the turn."""
        gate = None if operation is None else self._operations.gate(operation)
        return _NO_GATE if gate is None else _Turn(self, gate)

    async def pace(self, url: str) -> None:
        """Wait until a page of a URL's site may be loaded."""
        self.waited += await self._operations.pace(url)

    def take_waited(self) -> float:
        """Return the seconds that the lease has waited since the last call."""
        waited, self.waited = self.waited, 0.0
        return waited


_NO_GATE: Final = contextlib.nullcontext()


@dataclasses.dataclass(slots=True)
class _Turn(contextlib.AbstractAsyncContextManager[None]):
    """A place in the queue for a gate."""

    turns: OperationQueue
    gate: asyncio.Semaphore

    async def __aenter__(self) -> None:
        if not self.gate.locked():
            await self.gate.acquire()
            return
        asked = time.perf_counter()
        try:
            await self.gate.acquire()
        finally:
            self.turns.waited += time.perf_counter() - asked

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.gate.release()


@dataclasses.dataclass(slots=True)
class _Site:
    """The time of a site's next load, and its waiting callers."""

    free_at: float
    line: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)


# The process and event loop to which an object belongs.

_OTHER_PROCESS = (
    "{what} belongs to process {owner} and cannot be used in its fork, process {here}. Create "
    "one in each process."
)
_OTHER_LOOP = (
    "{what} belongs to the event loop that first used it and cannot be used in another. Make it in "
    "the loop (the `asyncio.run`, the thread) that uses it, or use `webtraj.as_sync`, whose "
    "environments any thread may call."
)

_unattended: set[asyncio.Task[None]] = set()


class LoopAffinity:
    """The process and event loop to which an object belongs from its first use.

    Args:
        what: The object, for messages: `The browser pool`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def gone(self) -> bool:
        """Whether the loop has ended or this process is a fork, so that nothing can be awaited."""
        return self._loop is not None and (self._loop.is_closed() or self._pid != os.getpid())

    def begin(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a call on the loop without waiting for it. Any thread may do so."""
        loop = self._loop
        if loop is None or self.gone:
            return

        def begin() -> None:
            task = loop.create_task(call())
            _unattended.add(task)
            task.add_done_callback(_unattended.discard)

        with contextlib.suppress(RuntimeError):  # The loop was closed a moment ago.
            loop.call_soon_threadsafe(begin)

    def enter(self) -> None:
        """Bind the object to the running loop if it has none yet.

        Raises:
            EnvironmentMisuseError: Another loop, or another process, is the home.
        """
        loop, pid = asyncio.get_running_loop(), os.getpid()
        if self._loop is None:
            self._loop, self._pid = loop, pid
        elif self._pid != pid:
            message = _OTHER_PROCESS.format(what=self._what, owner=self._pid, here=pid)
            raise errors_lib.EnvironmentMisuseError(message)
        elif self._loop is not loop:
            raise errors_lib.EnvironmentMisuseError(_OTHER_LOOP.format(what=self._what))
