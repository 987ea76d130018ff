"""A pool of browsers that lends isolated pages.

A few browsers carry many contexts: a context costs 13 MiB and 50 ms where a browser costs 400 MiB
and a second. The pool cleans up everything it starts: every await has a deadline; a hanging browser
is killed; one that dies fails only its own leases and is replaced; one that is old or uses too much
memory is retired when its leases end; and nothing survives this process, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from webtraj import errors as errors_lib
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import processes as processes_lib
from webtraj.environments.browser.lease import Lease, LoopAffinity

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

__all__ = ["BrowserPool", "PoolLimits", "PoolStats", "SharedPool"]

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Deadlines, in seconds, and rules for replacing a browser."""

    lease: float = 120.0
    """Wait for a free page."""
    launch: float = 60.0
    """Start of a browser or driver; a cold machine takes ten."""
    call: float = 30.0
    """Any single call into a browser."""
    close: float = 5.0
    """Close of a context or browser, before it is killed."""
    contexts_per_life: int = 1000
    """The number of contexts that a browser opens before it is replaced; each leaks a little."""
    failures_in_a_row: int = 3
    """The number of consecutive leases with a call that timed out after which the browser is
    replaced: a part of it hangs, such as its compositor."""
    memory: int = 4 << 30
    """The private memory of a browser's processes, in bytes, above which it is replaced."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """Statistics of a pool."""

    leases: int
    """Pages leased now."""
    browsers: int
    """Browsers running now, including retired ones."""
    launched: int
    """Browsers started in all."""
    crashed: int
    """Browsers that died or had to be killed."""
    retired: int
    """Browsers replaced because of age, memory or failures."""


_DIED_OR_HUNG = (errors_lib.BrowserCrashedError, errors_lib.BrowserTimeoutError)

_TURNS = 10
"""The turns of the event loop that it takes, more or less, to begin the driver's process."""

_CLOSED = "The browser pool is closed; make a new one."
_STUCK = (
    "An earlier start of a browser did not finish within {seconds:g} s, perhaps because Ctrl-C hit "
    "an event loop that does not handle it. The pool has abandoned that start; try again."
)
_FULL = (
    "No page became free within {seconds:g} s: all {capacity} are leased, to {owners}. "
    "Release leases, or give the pool more browsers or contexts."
)


_MOST_PARKED = 100
"""How often a page is parked, so that an old or large browser gets rid of its pages."""


class Parked(Protocol):
    """An open page that waits for its next user."""

    lease: Lease

    async def close(self) -> None:
        """Release the page."""


_ENDPOINT = re.compile("(http|ws)s?://[^/]", re.IGNORECASE)


class BrowserPool:
    """A pool of `browsers` browsers that lends `contexts_per_browser` pages from each at a time.

    Browsers start when they are first needed. A pool belongs to the event loop that first used it.

    Args:
        browsers: The maximum number of browsers, not counting retired ones. None: start another
            whenever all are full, so that no lease waits.
        contexts_per_browser: The number of pages that each lends at a time.
        executable: The browser; None finds one (`find_browser`).
        endpoint: A CDP endpoint or Playwright server of running browsers; empty to start new ones.
            With an endpoint, `browsers` is the number of connections, and the browsers outlive the
            pool.
        borrow: Whether to lend the running browser's own context, with its tabs, instead of opening
            contexts, and to change nothing in it. Only with an endpoint for CDP.
        headless: Whether browsers run without a window.
        confined: Whether browsers reach the network only through a context's proxy (see
            `network.Gateway`), apart from this machine: they resolve no names and send no UDP.
        arguments: More command-line arguments for the browser.
        limits: Deadlines and replacement rules.
        operations: The most concurrent operations of each kind.
    """

    def __init__(
        self,
        browsers: int | None = 1,
        contexts_per_browser: int = 16,
        *,
        executable: processes_lib.BrowserExecutable | None = None,
        endpoint: str = "",
        borrow: bool = False,
        headless: bool = True,
        confined: bool = True,
        arguments: tuple[str, ...] = (),
        limits: PoolLimits | None = None,
        operations: lease_lib.OperationLimits | None = None,
    ) -> None:
        if (browsers is not None and browsers < 1) or contexts_per_browser < 1:
            raise errors_lib.InvalidInputError(
                "A pool needs at least 1 browser and 1 context per browser; "
                f"got {browsers} and {contexts_per_browser}."
            )
        if endpoint and not _ENDPOINT.match(endpoint):
            raise errors_lib.InvalidInputError(
                f"{endpoint!r:.200} is not the address of a browser; expected http://HOST:PORT (as "
                "Chromium with --remote-debugging-port has it), or ws://... or wss://..."
            )
        self.limits = limits or PoolLimits()
        self.operations = lease_lib.Operations(operations)
        """The operation limits of all leases."""
        self._grows = browsers is None
        self._capacity = sys.maxsize if browsers is None else browsers * contexts_per_browser
        self._contexts_per_browser = contexts_per_browser
        self._executable = executable
        self._endpoint = endpoint
        self._borrow = borrow
        self._headless = headless
        self._arguments = (*(network_lib.NETWORK_ARGUMENTS if confined else ()), *arguments)
        self._free = asyncio.Semaphore(self._capacity)
        self._lock = asyncio.Lock()
        self._start_began = 0.0
        self._folder: processes_lib.RunFolder | None = None
        self._driver: processes_lib.Driver | None = None
        self._slots: list[processes_lib.RunningBrowser | None] = [None] * (browsers or 1)
        self._retired: set[processes_lib.RunningBrowser] = set()
        self._leases: set[Lease] = set()
        self._parked: list[tuple[Any, Parked]] = []
        self._waiting = 0
        self._openings: dict[asyncio.Task[Any], str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._home = LoopAffinity("This browser pool")
        self._closed = False
        self._ended = asyncio.Event()
        self._failed_start: tuple[float, errors_lib.BrowserError] | None = None
        self._launched = self._crashed = self._retirements = 0

    @property
    def stats(self) -> PoolStats:
        """What the pool has done so far."""
        running = [browser for browser in self._slots if browser is not None]
        return PoolStats(
            leases=len(self._leases) - len(self._parked),
            browsers=len(running) + len(self._retired),
            launched=self._launched,
            crashed=self._crashed,
            retired=self._retirements,
        )

    async def start(self) -> None:
        """Start a browser in the background, so that the first lease waits less.

        Does not wait for the browser. If the start fails, the first lease tries again.
        """
        self._home.enter()
        starting = self._open_for("(starting)", self._browser())
        starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    async def lease(self, *, owner: str = "", **context_options: Any) -> Lease:
        """Lend a page in a fresh context.

        Args:
            owner: The borrower, for messages.
            **context_options: For Playwright's `Browser.new_context`: viewport, locale, ...

        Raises:
            BrowserNotFoundError: No browser was found.
            BrowserTimeoutError: No page became free, or no browser started, in time.
            BrowserError: The browser could not open a page.
            EnvironmentMisuseError: The pool is closed, or belongs to another event loop.
        """
        if self._closed:
            raise errors_lib.EnvironmentMisuseError(_CLOSED)
        self._home.enter()
        await self._wait_for_place()
        # Opening continues even if the caller is cancelled: otherwise nobody would close a
        # half-opened context or browser.
        opening = self._open_for(owner, self._open(owner, context_options))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if opening.cancelled() and not (caller and caller.cancelling()):  # By `close`.
                raise errors_lib.EnvironmentMisuseError(_CLOSED) from None
            opening.add_done_callback(self._release_unwanted)
            raise

    def park(self, key: Any, session: Parked) -> bool:
        """Keep an open page for the next borrower that asks by the same key.

        Only for pages that the next borrower can use as they are. A parked page gives up its place
        when a lease needs it.

        Args:
            key: What the next borrower must have in common with this one.
            session: The page, and how to close it.

        Returns:
            Whether the page is parked. If not, the caller must close it.
        """
        lease = session.lease
        if self._closed or self._waiting or self._borrow or not self._is_fit(lease):
            return False
        lease.parked += 1
        self._parked.append((key, session))
        return True

    async def take_parked(self, key: Any) -> Parked | None:
        """Return the page that was last parked under this key, or None, and stop keeping it."""
        while (place := self._place_of(key)) is not None:
            _, session = self._parked.pop(place)
            if self._is_fit(session.lease):
                return session
            await session.close()  # Meanwhile others may take pages, too.
        return None

    def _place_of(self, key: Any) -> int | None:
        """Return the place of the page that was last parked under this key, or None."""
        places = range(len(self._parked) - 1, -1, -1)
        return next((place for place in places if self._parked[place][0] == key), None)

    async def forget_parked(self) -> None:
        """Close all parked pages."""
        parked, self._parked = self._parked, []
        await asyncio.gather(*(session.close() for _, session in parked))

    def _is_fit(self, lease: Lease) -> bool:
        """Return whether a page is alive and not too old, in a browser that still gets pages."""
        fresh = lease.parked < _MOST_PARKED
        return fresh and lease.healthy and lease.browser in self._slots

    async def close(self) -> None:
        """End all leases, browsers and the driver. Idempotent; a second call waits for the first.

        If cancelled, it kills what is left.

        Raises:
            EnvironmentMisuseError: Another event loop uses the pool.
        """
        if self._home.gone:  # Its processes have ended, or end at garbage collection.
            self._closed = True
            return
        self._home.enter()
        if self._closed:
            await self._ended.wait()
            return
        self._closed = True
        for opening in self._openings:
            opening.cancel()
        browsers = [*filter(None, self._slots), *self._retired]
        try:
            await self.forget_parked()
            await asyncio.gather(*(b.close(patience=self.limits.close) for b in browsers))
            if self._driver is not None:
                await self._driver.stop(patience=self.limits.close)
            await self._tasks_end()
        except BaseException:
            for browser in browsers:
                browser.kill()
            if self._driver is not None:
                self._driver.kill()
                await self._driver.stop(patience=self.limits.close)  # Quick if the driver is dead.
            raise
        finally:
            self._slots = [None] * len(self._slots)
            self._retired.clear()
            self._leases.clear()
            if self._folder is not None:
                self._folder.remove()
            self._ended.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _tasks_end(self) -> None:
        """Wait for the pool's tasks, with a limit: some may never continue (see `_starting`)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._longest_start
        while self._tasks and loop.time() < deadline:
            await asyncio.wait(self._tasks, timeout=deadline - loop.time())

    async def _wait_for_place(self) -> None:
        self._waiting += 1
        try:
            if self._free.locked() and self._parked:
                _, oldest = self._parked.pop(0)
                await oldest.close()
            async with asyncio.timeout(self.limits.lease):
                await self._free.acquire()
        except TimeoutError as error:
            holders = {lease.owner for lease in self._leases} | {*self._openings.values()}
            owners = sorted(owner or "(unnamed)" for owner in holders)
            message = _FULL.format(
                seconds=self.limits.lease, capacity=self._capacity, owners=", ".join(owners)
            )
            raise errors_lib.BrowserTimeoutError(message) from error
        finally:
            self._waiting -= 1

    def _open_for(self, owner: str, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start work that `close` cancels."""
        opening = self._own(work)
        self._openings[opening] = owner
        opening.add_done_callback(self._openings.pop)
        return opening

    def _own(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start work that continues if its caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _release_unwanted(self, opening: asyncio.Task[Lease]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._own(opening.result().release())

    async def _open(self, owner: str, options: Mapping[str, Any]) -> Lease:
        """Open a lease, retrying once if its browser died; on failure free its place."""
        turns = lease_lib.OperationQueue(self.operations)
        try:
            async with turns.at("allocate"):
                for last_try in (False, True):
                    browser = await self._browser()
                    try:
                        lease = await self._open_in(browser, owner, options, turns)
                    except _DIED_OR_HUNG:
                        if last_try:
                            raise
                    else:
                        self._leases.add(lease)
                        return lease
        except BaseException:
            self._free.release()
            raise
        raise AssertionError("unreachable")

    async def _open_in(
        self,
        browser: processes_lib.RunningBrowser,
        owner: str,
        options: Mapping[str, Any],
        turns: lease_lib.OperationQueue,
    ) -> Lease:
        call_guard = lease_lib.CallGuard()
        try:
            if self._borrow:
                context = browser.borrow_context(call_guard)
            else:
                context = await browser.new_context(call_guard, options, seconds=self.limits.call)
        except _DIED_OR_HUNG:
            # A browser that cannot open a context is useless.
            browser.kill()
            raise
        try:
            context.set_default_timeout(self.limits.call * 1000)
            opening = context.new_page() if not self._borrow else _first_page(context)
            page = await call_guard.run(opening, what="open a page", seconds=self.limits.call)
        except BaseException as error:
            browser.forget(call_guard)
            await self._close_context(browser, context)
            if isinstance(error, _DIED_OR_HUNG):
                # Its current pages may continue, but it gets no new ones.
                browser.failures_in_a_row = self.limits.failures_in_a_row
                await self._retire_if_due(browser)
            raise
        return Lease(
            owner,
            browser,
            call_guard,
            context,
            page,
            turns,
            seconds=self.limits.call,
            give_back=lambda lease: self._own(self._take_back(lease)),
            borrowed=self._borrow,
        )

    async def _browser(self) -> processes_lib.RunningBrowser:
        """Return the least used browser, started or restarted if needed."""
        asked = asyncio.get_running_loop().time()
        async with self._starting():
            # A caller that waited during a failed start gets its error; otherwise many callers
            # would wait for one deadline after another.
            if self._failed_start is not None and self._failed_start[0] > asked:
                error = self._failed_start[1]
                raise type(error)(*error.args) from error
            try:
                return await self._least_used()
            except errors_lib.BrowserError as error:
                self._failed_start = (asyncio.get_running_loop().time(), error)
                raise

    @contextlib.asynccontextmanager
    async def _starting(self) -> AsyncGenerator[None, None]:
        """Hold the lock that lets one browser start at a time.

        If Ctrl-C interrupts the event loop in a callback, the task that the callback should wake
        never continues. If that task holds the lock, this replaces the lock and all running
        browsers.
        """
        lock, loop = self._lock, asyncio.get_running_loop()
        while not await self._acquire(lock):
            if self._lock is lock and loop.time() - self._start_began < self._longest_start:
                continue  # Another start began meanwhile.
            if self._lock is lock:
                self._lock = asyncio.Lock()
                self._start_over()
            message = _STUCK.format(seconds=self._longest_start)
            raise errors_lib.BrowserTimeoutError(message)
        self._start_began = loop.time()
        try:
            yield
        finally:
            lock.release()

    async def _acquire(self, lock: asyncio.Lock) -> bool:
        try:
            async with asyncio.timeout(self._longest_start):
                return await lock.acquire()
        except TimeoutError:
            return False

    @property
    def _longest_start(self) -> float:
        """The most seconds to close dead processes and start a driver and a browser."""
        return 2 * self.limits.launch + 4 * self.limits.close

    def _start_over(self) -> None:
        for browser in (*filter(None, self._slots), *self._retired):
            browser.kill()
        if self._driver is not None:
            self._driver.kill()
        self._slots = [None] * len(self._slots)
        self._retired.clear()
        self._driver = None

    async def _least_used(self) -> processes_lib.RunningBrowser:
        await self._bury_the_dead()
        slot = min(range(len(self._slots)), key=lambda i: _leases(self._slots[i]))
        if self._grows and _leases(self._slots[slot]) >= self._contexts_per_browser:
            slot = len(self._slots)
            self._slots.append(None)
        chosen = self._slots[slot]
        if chosen is None:
            chosen = self._slots[slot] = await self._launch()
        return chosen

    async def _bury_the_dead(self) -> None:
        if self._driver is not None and not await self._driver_works(self._driver):
            self._driver.kill()
            for orphan in filter(None, self._slots):
                orphan.kill()
            driver, self._driver = self._driver, None
            await driver.stop(patience=self.limits.close)
        for slot, browser in enumerate(self._slots):
            if browser is not None and not browser.usable:
                self._slots[slot] = None
                self._crashed += 1
                await browser.close(patience=self.limits.close)

    async def _driver_works(self, driver: processes_lib.Driver) -> bool:
        if not driver.alive:
            return False
        if all(browser is not None and browser.usable for browser in self._slots):
            return True
        # The driver itself may have caused a browser's death, and the next start needs it.
        return await driver.answers(seconds=self.limits.close)

    async def _launch(self) -> processes_lib.RunningBrowser:
        if self._folder is None:
            self._folder = processes_lib.RunFolder()
        if self._driver is None:
            self._driver = await processes_lib.Driver.start(
                self._folder, seconds=self.limits.launch
            )
        if self._endpoint:
            self._launched += 1
            return await self._driver.connect(
                self._endpoint, seconds=self.limits.launch, untouched=self._borrow
            )
        if self._executable is None:
            self._executable = await asyncio.to_thread(processes_lib.find_browser)
        if self._closed or self._driver is None:  # `_starting` gave up on it.
            raise errors_lib.BrowserCrashedError("The pool abandoned the start of this browser.")
        path = self._executable.path or self._driver.playwright.chromium.executable_path
        self._launched += 1
        return await self._driver.launch(
            path,
            headless=self._headless,
            arguments=self._arguments,
            seconds=self.limits.launch,
        )

    async def _take_back(self, lease: Lease) -> None:
        browser = lease.browser
        try:
            async with lease.turns.at("release"):
                await self._close_context(browser, lease.context)
        finally:
            browser.forget(lease.call_guard)
            if lease in self._leases:
                self._leases.discard(lease)
                self._free.release()
        if lease.timed_out:
            browser.failures_in_a_row += 1
        elif not lease.call_guard.cut_reason:
            browser.failures_in_a_row = 0
        await self._retire_if_due(browser)

    async def _close_context(
        self, browser: processes_lib.RunningBrowser, context: BrowserContext
    ) -> None:
        if self._closed or self._borrow or not browser.usable:
            return
        try:
            # On a new guard: a dead page still has a context to close.
            await lease_lib.CallGuard().run(
                context.close(), what="close a context", seconds=self.limits.close
            )
        except errors_lib.BrowserCrashedError:
            pass  # The browser is gone, and the context with it.
        except errors_lib.BrowserError:
            browser.kill()

    async def _retire_if_due(self, browser: processes_lib.RunningBrowser) -> None:
        """Retire a browser that is old, failing or too large, once it is unused."""
        if self._closed:
            return
        if browser in self._slots and browser.usable and self._is_due(browser):
            self._slots[self._slots.index(browser)] = None
            self._retired.add(browser)
            self._retirements += 1
        if browser in self._retired and browser.leases == 0:
            self._retired.discard(browser)
            with contextlib.suppress(errors_lib.BrowserError):
                await browser.close(patience=self.limits.close)

    def _is_due(self, browser: processes_lib.RunningBrowser) -> bool:
        if browser.contexts_made >= self.limits.contexts_per_life:
            return True
        if browser.failures_in_a_row >= self.limits.failures_in_a_row:
            return True
        memory = browser.private_memory()
        return memory is not None and memory > self.limits.memory


async def _first_page(context: BrowserContext) -> Page:
    """Return the first tab of a context that others use, waiting until there is one."""
    return context.pages[0] if context.pages else await context.wait_for_event("page")


def _leases(browser: processes_lib.RunningBrowser | None) -> int:
    return 0 if browser is None else browser.leases


# The shared pool of an event loop's environments that were given none.

_SHARE_CLOSED = "This environment is closed; make a new one."

_AT_ONCE = lease_lib.OperationLimits(allocate=8, navigate=16)
"""Limits of a shared pool. Without them, 64 environments that start at once on two cores would
exceed the deadlines of their first calls."""


class SharedPool:
    """One environment's share in its event loop's pool.

    All environments without a pool of their own share the loop's pool if they start browsers in the
    same way. The first lease starts it. It closes with its last share, or when the loop ends.

    Args:
        confined: See `BrowserPool`.
    """

    def __init__(self, *, confined: bool) -> None:
        self._confined = confined
        self._loops: _LoopsPool | None = None
        self._closed = False

    @property
    def used(self) -> bool:
        """Whether it keeps a pool open."""
        return self._loops is not None

    async def lease(self, *, owner: str = "", **context_options: Any) -> Lease:
        """Lend a page in a fresh context. See `BrowserPool.lease`."""
        if self._closed:
            raise errors_lib.EnvironmentMisuseError(_SHARE_CLOSED)
        if self._loops is None:
            self._loops = _LoopsPool.of_running_loop(self._confined)
            self._loops.shares.add(self)
            await self._loops.watch()
        return await self._loops.pool.lease(owner=owner, **context_options)

    async def close(self) -> None:
        """Give up the share, and close the pool if it was the last. Idempotent."""
        self._closed = True
        loops, self._loops = self._loops, None
        if loops is not None:
            await loops.give_up(self)


class _LoopsPool:
    """The pool that the environments of one event loop share."""

    _ATTRIBUTE = "_webtraj_pools"
    """The attribute of an event loop for its pools, by how they start browsers. Stored there, they
    go with the loop; a weak mapping would keep both alive, since a pool refers to its loop."""

    def __init__(self, kept_in: dict[Any, _LoopsPool], key: Any) -> None:
        confined, _ = key
        self.pool = BrowserPool(None, confined=confined, operations=_AT_ONCE)
        self.shares: set[SharedPool] = set()
        self._kept_in = kept_in
        self._key = key
        self._watcher: AsyncGenerator[None, None] | None = None

    @classmethod
    def of_running_loop(cls, confined: bool) -> _LoopsPool:
        loop = asyncio.get_running_loop()
        pools: dict[Any, _LoopsPool] = loop.__dict__.setdefault(cls._ATTRIBUTE, {})
        key = (confined, os.environ.get(processes_lib.ENVIRONMENT_VARIABLE))
        if key not in pools:
            pools[key] = cls(pools, key)
        return pools[key]

    async def watch(self) -> None:
        """Close the pool when the loop ends."""
        if self._watcher is None:
            self._watcher = self._close_in_the_end()
            await anext(self._watcher)

    async def give_up(self, share: SharedPool) -> None:
        self.shares.discard(share)
        if self.shares:
            return
        if self._kept_in.get(self._key) is self:  # Who comes now starts another.
            del self._kept_in[self._key]
        await self.pool.close()
        if self._watcher is not None:
            await self._watcher.aclose()

    async def _close_in_the_end(self) -> AsyncGenerator[None, None]:
        # Loops close their running async generators when they end (`shutdown_asyncgens`): it is the
        # only hook they offer.
        try:
            yield
        finally:
            await self.pool.close()
