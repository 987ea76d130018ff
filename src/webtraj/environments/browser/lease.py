"""A lease: one page out of a pool, with a deadline and a typed error for each call into it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self, TypeVar

from webtraj import errors as errors_lib
from webtraj.environments.browser import deadlines as deadlines_lib
from webtraj.environments.browser import operations as operations_lib
from webtraj.environments.browser import running as running_lib

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

__all__ = ["Lease"]

_T = TypeVar("_T")


class Lease:
    """A page in a context of its own, until `release`.

    Calls into the page go through `run`, which gives each a deadline and a typed error.

    Args:
        owner: Who holds it, for messages.
        browser: What carries the page.
        lifeline: What ties the page's fate to the browser's.
        context: Playwright's context.
        page: Its first page.
        turns: Its turns at the pool's operations.
        seconds: The deadline of calls that give none.
        give_back: Called once with the lease, to close its context; what it returns is awaited.
    """

    def __init__(
        self,
        owner: str,
        browser: running_lib.RunningBrowser,
        lifeline: deadlines_lib.Lifeline,
        context: BrowserContext,
        page: Page,
        turns: operations_lib.Turns,
        *,
        seconds: float,
        give_back: Callable[[Lease], asyncio.Future[None]],
    ) -> None:
        self.owner = owner
        """Who holds it, for messages."""
        self.context = context
        """Playwright's context. Nothing is shared with other leases."""
        self.page = page
        """The context's first page."""
        self.turns = turns
        """Its turns at the pool's operations. Whoever works on the page takes them."""
        self.browser = browser
        """What carries the page, for the pool."""
        self.lifeline = lifeline
        """What ties the page's fate to the browser's, for the pool."""
        self.timed_out = False
        """Whether a call ran out of the time that the pool allows."""
        self._seconds = seconds
        self._give_back = give_back
        self._released = False
        page.on("crash", lambda _: lifeline.cut("The page crashed"))

    @property
    def healthy(self) -> bool:
        """Whether the lease is held and its page is not known to be dead."""
        return not self._released and not self.lifeline.cut_reason

    @property
    def browser_version(self) -> str:
        """The version that the browser reports."""
        return self.browser.version

    @property
    def browser_pid(self) -> int | None:
        """The process id of the browser that carries the page; None if it is not ours."""
        return self.browser.pid

    async def run(self, call: Awaitable[_T], *, what: str, seconds: float | None = None) -> _T:
        """Awaits a call into the page, for `seconds` or else the pool's limit.

        Raises:
            BrowserCrashedError: The page or its browser died.
            BrowserTimeoutError: No answer came before the deadline.
            BrowserError: The browser refused the call.
        """
        if seconds is not None:
            return await self.lifeline.run(call, what=what, seconds=seconds)
        try:
            return await self.lifeline.run(call, what=what, seconds=self._seconds)
        except errors_lib.BrowserTimeoutError:
            self.timed_out = True
            raise

    async def release(self) -> None:
        """Closes the context and gives its place back. Idempotent; raises nothing.

        Cancelled half way, it goes on without its caller.
        """
        if not self._released:
            self._released = True
            await asyncio.shield(self._give_back(self))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()
