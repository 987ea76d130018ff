"""The controls of a recording: a bar in a window of its own, or keys in the terminal.

The bar is a page of webtraj's own in a browser context of its own, so the recorded pages can
neither see nor reach it, and what happens in it is not recorded. It speaks to the recorder through
a binding that only its context has.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from webtraj import errors
from webtraj.demonstrating.recorder import Progress, Recorder
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["KEYS", "Bar", "obey", "terminal_keys"]

WIDTH: Final = 480
HEIGHT: Final = 300

KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "p": ("pause", "pause or resume"),
    "u": ("undo", "leave out the last step"),
    "r": ("redact", "redact the last field"),
    "s": ("success", "stop: it succeeded"),
    "f": ("failure", "stop: it failed"),
    "q": ("stop", "stop without a verdict"),
}
"""The terminal's keys: what each does."""


_VERDICTS = {"success": Outcome.SUCCESS, "failure": Outcome.FAILURE, "stop": None}


def obey(recorder: Recorder, name: str, *, paused: bool = False, answer: str = "") -> None:
    """Send the command of a button or key to the recorder. Ignore unknown commands."""
    if name in _VERDICTS:
        recorder.stop(_VERDICTS[name], answer=answer.strip() or None)
    elif name == "pause":
        (recorder.resume if paused else recorder.pause)()
    elif name == "undo":
        recorder.undo()
    elif name == "redact":
        recorder.redact()


class Bar:
    """A window with the buttons of a recording.

    Args:
        pool: The pool whose browser shows it.
        controls: Returns the recorder that the buttons control.
    """

    def __init__(self, pool: pool_lib.BrowserPool, controls: Callable[[], Recorder]) -> None:
        self._pool = pool
        self._controls = controls
        self._lease: lease_lib.Lease | None = None
        self._paused = False
        self._shown: asyncio.Task[None] | None = None
        self._next: Progress | None = None

    async def open(self) -> None:
        """Show the bar.

        Raises:
            BrowserError: The browser failed.
        """
        lease = self._lease = await self._pool.lease(
            owner="the recording bar", viewport=None, no_viewport=True
        )
        page = lease.page
        html = (resources.files("webtraj.demonstrating") / "bar.html").read_text(encoding="utf-8")
        await lease.run(page.expose_binding("webtrajCommand", self._on_command), "show the bar")
        await lease.run(page.set_content(html), "show the bar")
        session = await lease.run(lease.context.new_cdp_session(page), "show the bar")
        with contextlib.suppress(errors.BrowserError):  # A headless browser has no windows.
            told = await lease.run(session.send("Browser.getWindowForTarget"), "place the bar")
            bounds = {"left": 0, "top": 0, "width": WIDTH, "height": HEIGHT}
            options = {"windowId": told["windowId"], "bounds": bounds}
            await lease.run(session.send("Browser.setWindowBounds", options), "place the bar")

    @property
    def page(self) -> Page:
        """Its page; only while it is open."""
        assert self._lease is not None, "The bar is not open."
        return self._lease.page

    def show(self, progress: Progress) -> None:
        """Show a recording's progress. Never fails: the bar may have been closed."""
        self._paused, self._next = progress.paused, progress
        if self._shown is None or self._shown.done():
            self._shown = asyncio.ensure_future(self._show())

    async def close(self) -> None:
        """Close the bar. Idempotent."""
        lease, self._lease = self._lease, None
        if self._shown is not None:
            self._shown.cancel()
            await asyncio.gather(self._shown, return_exceptions=True)
        if lease is not None:
            await lease.release()

    async def _show(self) -> None:
        while (progress := self._next) is not None and self._lease is not None:
            self._next = None
            text = json.dumps(dataclasses.asdict(progress))
            with contextlib.suppress(errors.BrowserError):
                call = self._lease.page.evaluate("text => window.show(JSON.parse(text))", text)
                await self._lease.run(call, "show the progress")

    def _on_command(self, source: Any, name: str, answer: str = "") -> None:
        del source
        obey(self._controls(), name, paused=self._paused, answer=answer)


@contextlib.contextmanager
def terminal_keys(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Read single keys from the terminal meanwhile.

    Yields:
        Whether there is a terminal to read them from.
    """
    try:
        import termios
        import tty
    except ImportError:  # Not on this system.
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)

    def read() -> None:
        on_key(sys.stdin.read(1))

    loop.add_reader(number, read)
    try:
        yield True
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
