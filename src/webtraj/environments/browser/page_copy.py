"""Copies of a tab: its cookies, storage and history, and what was typed, scrolled and focused.

A copy does not have the state of the page's scripts. A restored page loads again, and its fields
get their values with the events of typing. The caller compares it with the page that was copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from webtraj.environments.browser import page as page_lib
from webtraj.environments.browser.session import BLANK, BrowserSession

__all__ = ["PageCopy"]


async def _call(session: BrowserSession, function: str, argument: Any = None) -> Any:
    called = f"argument => ({page_lib.read_script('copying')}).{function}(argument)"
    return await session.run(session.page.evaluate(called, argument), what="copy the page")


@dataclasses.dataclass(frozen=True, slots=True)
class PageCopy:
    """A copy of a session's only tab."""

    cookies: Sequence[Any]
    """The cookies of all sites."""
    history: Sequence[str]
    """The URLs of the tab's history, the shown one last; all of one origin."""
    page: Mapping[str, Any]
    """What `page/copying.js` read."""

    @classmethod
    async def of(cls, session: BrowserSession) -> PageCopy | None:
        """Copy a session's tab; None if that would lose something.

        A copy cannot hold other tabs, frames and storage of other origins, databases (IndexedDB),
        files chosen for an upload, and the forward part of the history.
        """
        debugger = await session.debugger(session.page)
        told = await session.run(
            debugger.send("Page.getNavigationHistory"), what="read the tab's history"
        )
        place, urls = told["currentIndex"], [entry["url"] for entry in told["entries"]]
        if urls[0] == BLANK:
            place, urls = place - 1, urls[1:]
        origins = {urlsplit(url)[:2] for url in urls}
        foreign = session.foreign_frames.knows(session.page)
        if len(session.tabs) > 1 or foreign or len(origins) != 1 or place != len(urls) - 1:
            return None
        page = await _call(session, "read")
        cookies = await session.run(session.lease.context.cookies(), what="read the cookies")
        return None if page is None else cls(cookies, urls, page)

    async def open(self, session: BrowserSession) -> bool:
        """Bring a new session to the copied page; return whether its fields are all there.

        Raises:
            BrowserError: A page did not load.
        """
        await self._put_cookies(session)
        first, *others = self.history
        await session.open(first)
        if any(self.page["storage"]):
            await _call(session, "putStorage", self.page)
            others = others or [first]  # Its scripts may read the storage.
        for url in others:
            await session.open(url)
        return bool(await _call(session, "putFields", self.page))

    async def finish(self, session: BrowserSession) -> bool:
        """Undo what loading has changed, once the page has settled.

        Returns:
            Whether the page has the same elements as the copied one.
        """
        await self._put_cookies(session)
        await _call(session, "putStorage", self.page)
        return bool(await _call(session, "putPlace", self.page))

    async def _put_cookies(self, session: BrowserSession) -> None:
        context = session.lease.context
        await session.run(context.clear_cookies(), what="clear the cookies")
        await session.run(context.add_cookies([*self.cookies]), what="set the cookies")
