"""A deadline on every await: no call into a browser may hang, and none may fail untyped.

Playwright's own timeouts do not cover evaluation, closing, or a driver that stopped answering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from webtraj import errors as errors_lib

__all__ = ["Lifeline", "is_closed_error", "is_navigation_error"]

_T = TypeVar("_T")

_STOOD_STILL = 1.0
"""Seconds by which a timer is late when not the browser was slow, but this process."""

_AFTER_STANDSTILL = 5.0
"""Seconds that a call then has left."""

_TIMED_OUT = "The browser did not {what} within {seconds:g} s."
_NAVIGATED = (
    "Execution context was destroyed",
    "Cannot find context",
    "Inspected target navigated",
    "Frame was detached",
)
_CRASHED = "{reason} while webtraj waited for it to {what}. Reset the environment to go on."


class Lifeline:
    """The calls in flight on one browser, context or page, and what became of it.

    `cut` makes every call in flight, and every later one, fail at once.
    """

    def __init__(self) -> None:
        self._reason = ""
        self._calls: set[asyncio.Timeout] = set()

    @property
    def cut_reason(self) -> str:
        """Why it was cut; empty while it is not."""
        return self._reason

    def cut(self, reason: str) -> None:
        """Fails all calls with a `BrowserCrashedError` for this reason; the first one counts."""
        self._reason = self._reason or reason
        now = asyncio.get_running_loop().time()
        for call in self._calls:
            if not call.expired():  # Else it is on its way out already.
                call.reschedule(now)

    async def run(self, call: Awaitable[_T], *, what: str, seconds: float) -> _T:
        """Awaits `call`, for `seconds` at most.

        Args:
            call: A call into the browser.
            what: What it does, for messages, as a verb: `open the page`.
            seconds: The deadline.

        Raises:
            BrowserTimeoutError: The deadline passed.
            BrowserCrashedError: What was called died, before the call or during it.
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
    """Expires a timeout after some seconds, but not because this process itself stood still.

    A process that was stopped, in a debugger or by Ctrl-Z, or whose loop was blocked, finds the
    deadline passed and the answer waiting. It gets a moment to read the answer.
    """

    def __init__(self, timeout: asyncio.Timeout, seconds: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._wait(seconds)

    def cancel(self) -> None:
        """Ends the watch."""
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
    """Whether a Playwright error says that its target is gone, not that a call was wrong."""
    # Playwright exports neither the class nor a code; a crashed page is a plain Error.
    return type(error).__name__ == "TargetClosedError" or any(
        text in str(error) for text in ("Target crashed", "Page crashed", "Connection closed")
    )


def is_navigation_error(error: BaseException | None) -> bool:
    """Whether a call failed because its document gave way to another."""
    return error is not None and any(text in str(error) for text in _NAVIGATED)
