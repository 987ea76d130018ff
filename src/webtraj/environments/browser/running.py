"""One Playwright driver, and one browser under it: start, watch, stop.

A driver is a Node process that speaks for all browsers of a pool; both run under the guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webtraj import errors as errors_lib
from webtraj.environments.browser import deadlines as deadlines_lib
from webtraj.environments.browser import processes as processes_lib

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

__all__ = ["Driver", "RunningBrowser"]

_NODE_VARIABLE = "PLAYWRIGHT_NODEJS_PATH"

_START_GRACE = 5.0
"""Seconds for a start that is not wanted any more to come to its end; it takes less than one."""

_DRIVER_ENDED = (
    "Playwright's driver ended while it started; it is run by {node!r}. What it said is on stderr, "
    "and `webtraj doctor` tells what this machine lacks."
)

_ARGUMENTS = (
    # Renders the same on every machine, so that screenshots compare.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
)


class Driver:
    """Playwright's driver process."""

    def __init__(self, folder: processes_lib.RunFolder, playwright: Playwright, pid: int) -> None:
        self.playwright = playwright
        self._folder = folder
        self._pid = pid

    @classmethod
    async def start(cls, folder: processes_lib.RunFolder, *, seconds: float) -> Driver:
        """Starts the driver.

        Raises:
            MissingDependencyError: Playwright is not installed.
            BrowserCrashedError: It ended at once.
            BrowserTimeoutError: It did not start in `seconds`.
        """
        try:
            import playwright as playwright_package
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise errors_lib.MissingDependencyError(
                "The browser environment needs Playwright: pip install 'webtraj[browser]'."
            ) from error
        node = os.environ.get(_NODE_VARIABLE) or str(
            Path(playwright_package.__file__).parent / "driver" / "node"
        )
        command = folder.guarded(node)
        try:
            with _aborting(command), _environment_variable(_NODE_VARIABLE, str(command.path)):
                starting = asyncio.ensure_future(async_playwright().start())
                try:
                    playwright = await deadlines_lib.Lifeline().run(
                        asyncio.shield(starting), what="start its driver", seconds=seconds
                    )
                except asyncio.CancelledError:
                    await _stop_once_started(starting)
                    raise
        except errors_lib.WebtrajError:
            raise
        except Exception as error:  # Playwright raises no other type if its driver ends.
            raise errors_lib.BrowserCrashedError(_DRIVER_ENDED.format(node=node)) from error
        return cls(folder, playwright, command.pid)

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the driver's process runs."""
        return processes_lib.process_alive(self._pid)

    async def answers(self, *, seconds: float) -> bool:
        """Returns whether the driver itself, without a browser, answers within `seconds`."""
        try:
            await deadlines_lib.Lifeline().run(self._ping(), what="answer", seconds=seconds)
        except errors_lib.BrowserError:
            return False
        return True

    async def _ping(self) -> None:
        # The cheapest of the driver's calls that need no browser.
        context = await self.playwright.request.new_context()
        await context.dispose()

    async def launch(
        self, executable: str, *, headless: bool, arguments: Sequence[str], seconds: float
    ) -> RunningBrowser:
        """Launches a browser under this driver."""
        command = self._folder.guarded(executable)
        with _aborting(command):
            browser = await deadlines_lib.Lifeline().run(
                self.playwright.chromium.launch(
                    executable_path=command.path,
                    headless=headless,
                    args=[*_ARGUMENTS, *arguments],
                    # Ctrl-C is webtraj's to handle: it seals episodes before it closes browsers.
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=seconds * 1000,
                ),
                what="start",
                seconds=seconds,
            )
        return RunningBrowser(browser, command.pid)

    async def connect(self, endpoint: str, *, seconds: float) -> RunningBrowser:
        """Connects to a browser that runs elsewhere.

        Args:
            endpoint: A CDP endpoint (`http://host:9222`, `ws://host:9222/devtools/browser/...`), or
                a Playwright server (any other `ws://` or `wss://` address).
            seconds: The deadline.
        """
        chromium = self.playwright.chromium
        is_cdp = endpoint.startswith("http") or "/devtools/" in endpoint
        call = chromium.connect_over_cdp(endpoint) if is_cdp else chromium.connect(endpoint)
        browser = await deadlines_lib.Lifeline().run(
            call, what=f"accept a connection at {endpoint}", seconds=seconds
        )
        return RunningBrowser(browser, None)

    async def stop(self, *, patience: float) -> None:
        """Stops the driver, by force if it does not stop in `patience` seconds."""
        with contextlib.suppress(errors_lib.BrowserError):
            await deadlines_lib.Lifeline().run(
                self.playwright.stop(), what="stop its driver", seconds=patience
            )
        await processes_lib.stop_group(self._pid, patience=patience)

    def kill(self) -> None:
        """Kills the driver at once."""
        processes_lib.kill_group(self._pid)


class RunningBrowser:
    """A browser and the lifelines of what was leased from it.

    Args:
        browser: Playwright's browser.
        pid: Its process id; None if it is not ours, and so neither ours to kill.
    """

    def __init__(self, browser: Browser, pid: int | None) -> None:
        self._browser = browser
        self._lifelines: set[deadlines_lib.Lifeline] = set()
        self._lost = False
        self.pid = pid
        self.contexts_made = 0
        self.failures_in_a_row = 0
        """How many leases it failed since one last went well."""
        browser.on("disconnected", lambda _: self.lose("The browser process died"))

    @property
    def version(self) -> str:
        """The version that the browser reports."""
        return self._browser.version

    @property
    def usable(self) -> bool:
        """Whether it can give new contexts."""
        return not self._lost and self._browser.is_connected()

    @property
    def leases(self) -> int:
        """How many of its contexts are in use."""
        return len(self._lifelines)

    def private_memory(self) -> int | None:
        """Returns the bytes that the browser's processes hold; None if that is not known."""
        return None if self.pid is None else processes_lib.private_memory(self.pid)

    def lose(self, reason: str) -> None:
        """Fails everything that runs in this browser."""
        self._lost = True
        for lifeline in self._lifelines:
            lifeline.cut(reason)

    async def new_context(
        self, lifeline: deadlines_lib.Lifeline, options: Mapping[str, Any], *, seconds: float
    ) -> BrowserContext:
        """Returns a fresh context, whose fate `lifeline` then shares."""
        self._lifelines.add(lifeline)
        self.contexts_made += 1
        try:
            return await lifeline.run(
                self._browser.new_context(**options), what="open a context", seconds=seconds
            )
        except BaseException:
            self._lifelines.discard(lifeline)
            raise

    def forget(self, lifeline: deadlines_lib.Lifeline) -> None:
        """Ends the tie between a released context and this browser."""
        self._lifelines.discard(lifeline)

    async def close(self, *, patience: float) -> None:
        """Closes the browser, by force if it does not close in `patience` seconds."""
        self.lose("The browser was closed")
        with contextlib.suppress(errors_lib.BrowserError):
            await deadlines_lib.Lifeline().run(
                self._browser.close(), what="close", seconds=patience
            )
        if self.pid is not None:
            await processes_lib.stop_group(self.pid, patience=patience)

    def kill(self) -> None:
        """Kills the browser at once."""
        self.lose("The browser was killed")
        if self.pid is not None:
            processes_lib.kill_group(self.pid)


async def _stop_once_started(starting: asyncio.Future[Playwright]) -> None:
    """Lets a driver's start come to its end, which is near, so that it can be stopped in order.

    Killed half way, it would leave pipes behind that nobody can close.
    """
    await asyncio.wait([starting], timeout=_START_GRACE)
    if not starting.done():
        starting.cancel()
    elif starting.exception() is None:
        with contextlib.suppress(errors_lib.BrowserError):  # Then it is killed.
            await deadlines_lib.Lifeline().run(
                starting.result().stop(), what="stop its driver", seconds=_START_GRACE
            )


@contextlib.contextmanager
def _aborting(command: processes_lib.GuardedCommand) -> Iterator[None]:
    """Leaves nothing of a start that fails or is cancelled: it may have begun all the same."""
    try:
        yield
    except BaseException:
        command.abort()
        raise


@contextlib.contextmanager
def _environment_variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
