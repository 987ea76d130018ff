"""Keeps a session inside of what its policy allows.

What the browser asks for is filtered on the way (`network`). What a tab shows is judged here, after
each action: if a link, a redirect or a popup has led to a page that may not be opened, the tab is
closed or sent back; if it has led to a page that did not load, the tab stays as it is. The agent is
told of both.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from webtraj import errors
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import policies as policies_lib
from webtraj.environments.browser import session as session_lib

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

__all__ = ["Boundary"]

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
        local: Sites of the task in this process, which may always be reached.
    """

    def __init__(
        self,
        policy: policies_lib.AccessPolicy,
        start_url: str = "",
        local: network_lib.LocalSites | None = None,
    ) -> None:
        self._network = _with_start(policies_lib.network_of(policy), start_url)
        self._local = local or {}
        self._gateway = (
            None if self._network is None else network_lib.Gateway(self._network, local=self._local)
        )
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

    def why(self, url: str) -> tuple[str, bool]:
        """Return why the last connection for a URL failed, and whether it was denied."""
        return ("", False) if self._gateway is None else self._gateway.failure(url)

    async def enforce(
        self, session: session_lib.BrowserSession, *, refused: bool = False
    ) -> tuple[str, str]:
        """Close tabs, or send the last one back, that show what may not be opened.

        Args:
            session: The session.
            refused: Whether a navigation of the active tab has just failed.

        Returns:
            What was found, as a sentence for the agent, and its kind: `blocked`, or
            `navigation_failed` for a page that did not load. Both are empty if all is in order.
        """
        told = kind = ""
        for page in session.tabs:
            if page.is_closed():
                continue
            failure = session.take_failure(page, refused=refused and page is session.page)
            url = page.url if failure is None else failure.url
            verdict = self._judge(url)
            if failure is not None and failure.denied:
                verdict = network_lib.Verdict(False, failure.reason)
            if not verdict.allowed:
                self._blocked.append(f"{url}: {verdict.reason}")
                told, kind = f"{url} may not be opened: {verdict.reason}.", "blocked"
                if len(session.tabs) > 1:
                    await session.run(page.close(), what="close a tab")
                else:
                    await self._send_back(session, page)
            elif failure is not None and not told:
                told, kind = str(failure), "navigation_failed"
        return told, kind

    async def _send_back(self, session: session_lib.BrowserSession, page: Page) -> None:
        """Brings a tab to the page before, else to where the episode began, else to a blank one."""
        with contextlib.suppress(errors.BrowserError):
            await session.run(page.go_back(wait_until="commit"), what="go back")
        for url in (self._home, session_lib.BLANK):
            if page.url != session_lib.BLANK and self._judge(page.url).allowed:
                return
            with contextlib.suppress(errors.BrowserError):
                await session.run(page.goto(url, wait_until="commit"), what="go back")

    def _judge(self, url: str) -> network_lib.Verdict:
        """Judges the URL of a page that a tab shows."""
        scheme, _, rest = url.partition(":")
        if scheme in ("about", "chrome-error", ""):
            return network_lib.Verdict(True, "a page of the browser itself")
        if network_lib.destination_of(url) in self._local:
            return network_lib.Verdict(True, "a site of the task's own")
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
