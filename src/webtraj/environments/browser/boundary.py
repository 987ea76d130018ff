"""Keeps a session inside of what its policy allows.

What the browser asks for is filtered on the way (`network`). What a tab shows is judged here, after
each action: where a link, a redirect or a popup has led to a page that may not be opened, the tab
is closed or sent back, and the agent is told.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from webtraj import errors
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import policies as policies_lib
from webtraj.environments.browser import session as session_lib

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

__all__ = ["Boundary"]

_BLANK: Final = "about:blank"
_TWO_PROXIES = (
    "context_options has a proxy of its own, {proxy!r}, beside which the network policy cannot be "
    "enforced. Leave it out, or give a policy whose `network` is None and filter there."
)
_MAX_KEPT = 100


class Boundary:
    """The boundary of one lease.

    Args:
        policy: What may be reached.
        start_url: Where the task begins. Its origin may be reached unless the policy denies it.
    """

    def __init__(self, policy: policies_lib.AccessPolicy, start_url: str = "") -> None:
        self._network = _with_start(policies_lib.network_of(policy), start_url)
        self._gateway = None if self._network is None else network_lib.Gateway(self._network)
        self._home = start_url
        self._blocked: list[str] = []
        self._refuses_downloads = True

    def context_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns options for Playwright's `Browser.new_context`, made safe.

        Raises:
            InvalidInputError: They have a proxy of their own, and so has the policy.
        """
        options = {"accept_downloads": False, **given}
        self._refuses_downloads = not options["accept_downloads"]
        if self._gateway is None:
            return options
        if given.get("proxy"):
            server = given["proxy"].get("server", "")
            raise errors.InvalidInputError(_TWO_PROXIES.format(proxy=server))
        return {**options, **self._gateway.context_options}

    async def open(self) -> None:
        """Begins to let through what is allowed."""
        if self._gateway is not None:
            await self._gateway.open()

    async def close(self) -> None:
        """Lets nothing through any more. Idempotent."""
        if self._gateway is not None:
            await self._gateway.close()

    def watch(self, session: session_lib.BrowserSession) -> None:
        """Begins to note the downloads that are refused."""
        session.lease.context.on("page", self._watch_page)
        for page in session.tabs:
            self._watch_page(page)

    def begin_episode(self, session: session_lib.BrowserSession) -> None:
        """Takes the page that the task has opened for the place to come back to."""
        self._home = session.page.url

    def take_blocked(self) -> list[str]:
        """Returns what was kept from pages and agent since the last call, as `url: reason`."""
        denials = [] if self._gateway is None else self._gateway.take_denials()
        blocked = [*self._blocked, *(f"{d.target}: {d.reason}" for d in denials)]
        self._blocked = []
        return blocked[:_MAX_KEPT]

    async def enforce(self, session: session_lib.BrowserSession) -> str:
        """Closes tabs, or sends the last one back, that show what may not be opened.

        Returns:
            What was found, as a sentence for the agent; empty if all was in order.
        """
        told = ""
        for page in session.tabs:
            verdict = self._judge(page.url)
            if verdict.allowed or page.is_closed():
                continue
            self._blocked.append(f"{page.url}: {verdict.reason}")
            told = f"{page.url} may not be opened: {verdict.reason}."
            if len(session.tabs) > 1:
                await session.run(page.close(), what="close a tab")
            else:
                await self._send_back(session, page)
        return told

    async def _send_back(self, session: session_lib.BrowserSession, page: Page) -> None:
        """Brings a tab to the page before, else to where the episode began, else to a blank one."""
        with contextlib.suppress(errors.BrowserError):
            await session.run(page.go_back(wait_until="commit"), what="go back")
        for url in (self._home, _BLANK):
            if self._judge(page.url).allowed and page.url != _BLANK:
                return
            with contextlib.suppress(errors.BrowserError):
                await session.run(page.goto(url, wait_until="commit"), what="go back")

    def _judge(self, url: str) -> network_lib.Verdict:
        """Judges the URL of a page that a tab shows."""
        scheme, _, rest = url.partition(":")
        if scheme in ("about", "chrome-error", ""):
            return network_lib.Verdict(True, "a page of the browser itself")
        if scheme in ("http", "https"):
            if self._network is None:
                return network_lib.Verdict(True, "the network is not restricted")
            return self._network.judge_url(url)
        if scheme == "blob":
            return self._judge(rest)
        if scheme == "file":
            return self._judge_file(url)
        return network_lib.Verdict(False, f"the scheme {scheme!r} is not allowed")

    def _judge_file(self, url: str) -> network_lib.Verdict:
        """Judges a file: those of the folder that the episode began in belong to its page."""
        if self._home.startswith("file:"):
            folder = Path(unquote(urlsplit(self._home).path)).parent
            if Path(unquote(urlsplit(url).path)).resolve().is_relative_to(folder.resolve()):
                return network_lib.Verdict(True, "in the folder of the first page")
        return network_lib.Verdict(False, "files are not allowed")

    def _watch_page(self, page: Page) -> None:
        page.on("download", self._on_download)

    def _on_download(self, download: Download) -> None:
        if self._refuses_downloads and len(self._blocked) < _MAX_KEPT:
            self._blocked.append(f"{download.url}: downloads are not allowed")


def _with_start(
    network: network_lib.NetworkPolicy | None, start_url: str
) -> network_lib.NetworkPolicy | None:
    if not isinstance(network, network_lib.OriginPolicy):
        return network
    origin = network_lib.origin_of(start_url)
    return dataclasses.replace(network, allow=(*network.allow, origin)) if origin else network
