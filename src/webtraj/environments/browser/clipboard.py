"""The clipboard of a browser, which all its contexts share.

So that nothing passes from one session to another, the page script notes what its pages copy
(`clipboard.js`), and a session brings its own content along whenever it may paste. Rich text that
the browser copies for a page is kept as plain text. What a page writes by `navigator.clipboard`
counts as copied too, and the page may read back its own copies (`async_clipboard.js`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from webtraj import errors
from webtraj.environments.browser import page as page_lib

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

    from webtraj.environments.browser.lease import Lease

__all__ = ["TOKEN", "Clipboard", "async_clipboard", "may_paste"]

TOKEN: Final = f"clipboard-{secrets.token_hex(8)}"
"""The name of the event by which a page asks for what it copied."""

_FILL: Final = 5.0
"""Deadline in seconds of filling the clipboard."""
_WRITE: Final = """
content => {
  addEventListener("beforecopy", event => event.preventDefault(), {once: true});
  addEventListener("copy", event => {
    event.preventDefault();
    event.clipboardData.setData("text/plain", "");  // Without any, the last content would stay.
    for (const [kind, text] of Object.entries(content)) event.clipboardData.setData(kind, text);
  }, {once: true});
  document.execCommand("copy");
}
"""


def may_paste(keys: Iterable[str]) -> bool:
    """Return whether keys that are held together may paste.

    >>> may_paste(["Control", "v"]), may_paste(["Shift", "Insert"]), may_paste(["v"])
    (True, True, False)
    """
    held = [key.lower() for key in keys]
    commands = any(key.startswith(("control", "meta")) for key in held)
    shift = any(key.startswith("shift") for key in held)
    return (
        (commands and ("v" in held or "keyv" in held))
        or (shift and "insert" in held)
        or "paste" in held
    )


def async_clipboard() -> str:
    """Return the script that gives pages their `navigator.clipboard`."""
    return f'{page_lib.read_script("async_clipboard").rstrip()}("{TOKEN}");'


class Clipboard:
    """The clipboard of one browser.

    Args:
        browser: Playwright's browser.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._page: Page | None = None
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def holding(self, content: Mapping[str, str], lease: Lease) -> AsyncIterator[None]:
        """Hold the clipboard and fill it with `content`, by MIME type. Empty content clears it.

        Raises:
            BrowserError: The browser failed.
        """
        async with self._lock:
            if self._page is None or self._page.is_closed():
                context = await lease.run(self._browser.new_context(), "open a context")
                self._page = await lease.run(context.new_page(), "open a page")
            try:
                await lease.run(
                    self._page.evaluate(_WRITE, dict(content)), "fill the clipboard", seconds=_FILL
                )
            except errors.BrowserError:  # The next one gets another page.
                page, self._page = self._page, None
                with contextlib.suppress(errors.BrowserError):
                    await lease.run(page.context.close(), "close a context", seconds=_FILL)
                raise
            yield
