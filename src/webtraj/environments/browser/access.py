"""Access policies for agents and pages, their enforcement, and downloaded files."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import mimetypes
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from webtraj import errors
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser.network import NO_NETWORK, PUBLIC_WEB, NetworkPolicy, Verdict

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

__all__ = [
    "AccessPolicy",
    "Boundary",
    "DownloadShelf",
    "DownloadedFile",
    "NoAccess",
    "WebAccess",
    "network_of",
    "safe_name",
]

# Access policies: which URLs and files an agent may reach beyond its first page.
#
# A policy may also have an attribute `network`, a `NetworkPolicy` for the pages themselves
# (`network_of`); without it, pages may reach what the agent may open. None disables network
# filtering: for a browser that runs elsewhere or behind a filtering proxy.


class AccessPolicy(Protocol):
    """A rule for what may be opened and uploaded."""

    def open(self, url: str) -> bool:
        """Return whether a URL may be opened."""

    def travel(self) -> bool:
        """Return whether the agent may go through the history, reload, and open and close tabs."""

    def upload(self, path: str) -> Path | None:
        """Return the file for a path in an action; None if it may not be uploaded."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoAccess:
    """The policy of a one-page task: nothing else may be opened or uploaded."""

    network: NetworkPolicy | None = NO_NETWORK

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        return False

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return False

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`."""
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class WebAccess:
    """The policy of a task on the web: pages allowed by a network policy, files of one folder."""

    network: NetworkPolicy | None = PUBLIC_WEB
    """What pages and the agent may reach; by default the public web, nothing private."""
    uploads: Path | None = None
    """The folder from which files may be uploaded; None allows no upload."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        if url == "about:blank":
            return True
        if self.network is None:
            return url.lower().startswith(("http://", "https://"))
        return self.network.judge_url(url).allowed

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. Symbolic links out of the folder are refused."""
        if self.uploads is None:
            return None
        try:
            file = (self.uploads / path).resolve()
            allowed = file.is_relative_to(self.uploads.resolve()) and file.is_file()
        except (OSError, ValueError, RuntimeError):  # Too long, not a path, circular links.
            return None
        return file if allowed else None


def network_of(policy: AccessPolicy) -> NetworkPolicy | None:
    """Return the network policy for pages; None if the network is not restricted here."""
    network: NetworkPolicy | None = getattr(policy, "network", _Openable(policy))
    return network


@dataclasses.dataclass(frozen=True, slots=True)
class _Openable:
    """A network policy that allows what the agent may open."""

    policy: AccessPolicy

    @property
    def denies_everything(self) -> bool:
        return False

    def judge_url(self, url: str) -> Verdict:
        if self.policy.open(url):
            return Verdict(True, "it may be opened")
        return Verdict(False, "it may not be opened")

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        # Any address: the proxy refuses forbidden ones under every policy.
        usual = {"http": 80, "https": 443}.get(scheme) == port
        shown = f"[{host}]" if ":" in host else host
        return self.judge_url(f"{scheme}://{shown}" + ("" if usual else f":{port}") + "/")


# Keeping a session within its policy.
#
# The browser's requests are filtered by a proxy (`network`). What a tab shows is checked here,
# after each action: if a link, a redirect or a popup led to a page that may not be opened, the tab
# is closed or sent back; if it led to a page that did not load, the tab stays. Both are reported to
# the agent.

_TWO_PROXIES = (
    "context_options sets a proxy of its own, {proxy!r}, which would bypass the network policy. "
    "Remove it, or use a policy whose `network` is None and filter in that proxy."
)
_MAX_KEPT = 100


class Boundary:
    """The boundary of one lease.

    Args:
        policy: What may be reached.
        start_url: The task's first URL. Its origin is allowed unless the policy denies it.
        local: Sites of the task served by this process; always allowed.
    """

    def __init__(
        self,
        policy: AccessPolicy,
        start_url: str = "",
        local: network_lib.LocalSites | None = None,
    ) -> None:
        self._network = _with_start(network_of(policy), start_url)
        self._local = local or {}
        self.gateway = network_lib.Gateway(self._network, local=self._local)
        """The way to the network, to be opened and closed with the lease."""
        self._home = start_url
        self._blocked: list[str] = []
        self._refuses_downloads = True

    def context_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return options for Playwright's `Browser.new_context`, made safe.

        Raises:
            InvalidInputError: They set a proxy, which conflicts with the policy's.
        """
        options = {"accept_downloads": False, **given}
        self._refuses_downloads = not options["accept_downloads"]
        routed = self.gateway.context_options
        if routed and given.get("proxy"):
            server = given["proxy"].get("server", "")
            raise errors.InvalidInputError(_TWO_PROXIES.format(proxy=server))
        return {**options, **routed}

    def watch(self, session: session_lib.BrowserSession) -> None:
        """Start recording refused downloads."""
        session.lease.context.on("page", self._watch_page)
        for page in session.tabs:
            self._watch_page(page)

    def begin_episode(self, session: session_lib.BrowserSession) -> None:
        """Remember the task's first page as the place to return to."""
        self._home = session.page.url

    def take_blocked(self) -> list[str]:
        """Return what was blocked since the last call, as `url: reason`."""
        denials = self.gateway.take_denials()
        blocked = [*self._blocked, *(f"{d.target}: {d.reason}" for d in denials)]
        self._blocked = []
        return blocked[:_MAX_KEPT]

    async def enforce(
        self, session: session_lib.BrowserSession, *, refused: bool = False
    ) -> tuple[str, str]:
        """Close tabs that show a forbidden page; send the last tab back instead.

        Args:
            session: The session.
            refused: Whether a navigation of the active tab has just failed.

        Returns:
            A sentence for the agent and its kind: `blocked`, or `navigation_failed` for a page that
            did not load. Both are empty if nothing is wrong.
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
        """Send a tab to the previous page, then the first page, then a blank one."""
        with contextlib.suppress(errors.BrowserError):
            await session.run(page.go_back(wait_until="commit"), what="go back")
        for url in (self._home, session_lib.BLANK):
            if page.url != session_lib.BLANK and self._judge(page.url).allowed:
                return
            with contextlib.suppress(errors.BrowserError):
                await session.run(page.goto(url, wait_until="commit"), what="go back")

    def _judge(self, url: str) -> network_lib.Verdict:
        """Judge the URL of a page that a tab shows."""
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
        """Judge a file URL: files in the folder of the episode's first page are allowed."""
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


# Downloaded files: recorded with the step in which they arrive, up to a size limit.

_MAX_WAITING: Final = 100
"""The most files kept between two steps; a page may offer any number."""

_MAX_NAME: Final = 120
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]+')
_TOO_LARGE: Final = "larger than {limit} bytes"
_UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file that a page offered for download."""

    name: str
    """A plain file name, whatever the page called it."""
    url: str
    mime_type: str
    """By the name's ending."""
    size: int
    """Bytes; 0 if it did not arrive."""
    content: bytes
    """Empty if it is not kept."""
    error: str
    """Why the file is not kept; empty if it is."""


class DownloadShelf:
    """A collection of the files that a session's pages offer.

    Args:
        limit: The size in bytes of the largest file that is kept.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._files: list[DownloadedFile] = []
        self._arriving: set[asyncio.Task[None]] = set()

    def watch(self, page: Page) -> None:
        """Start collecting a page's downloads."""
        page.on("download", self._on_download)

    def take(self) -> list[DownloadedFile]:
        """Return the files that arrived or failed since the last call."""
        taken, self._files = self._files, []
        return taken

    def _on_download(self, download: Download) -> None:
        arrival = asyncio.ensure_future(self._receive(download))
        self._arriving.add(arrival)
        arrival.add_done_callback(self._arriving.discard)

    async def _receive(self, download: Download) -> None:
        from playwright.async_api import Error as PlaywrightError

        size, content, error = 0, b"", ""
        try:
            with tempfile.TemporaryDirectory(prefix="webtraj-download-") as folder:
                # Not `path`, which a remote browser cannot provide.
                file = Path(folder) / "file"
                await download.save_as(file)
                size = file.stat().st_size
                if size > self._limit:
                    error = _TOO_LARGE.format(limit=self._limit)
                else:
                    content = await asyncio.to_thread(file.read_bytes)
            await download.delete()
        except (PlaywrightError, OSError) as failure:
            error = error or str(failure).partition("\n")[0]
        if len(self._files) < _MAX_WAITING:
            name = safe_name(download.suggested_filename)
            mime_type = mimetypes.guess_type(name)[0] or _UNKNOWN_TYPE
            self._files.append(DownloadedFile(name, download.url, mime_type, size, content, error))


def safe_name(name: str) -> str:
    """Return a name that is valid on any file system and contains no folder.

    >>> safe_name("../../etc/passwd")
    'passwd'
    >>> safe_name(".bashrc"), safe_name("..")
    ('bashrc', 'download')
    """
    plain = _UNSAFE.sub("_", PurePosixPath(name.replace("\\", "/")).name).strip(". ")
    # Well-formed UTF-8, so that the name can be written.
    plain = plain.encode("utf-8", "replace").decode()
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) < _MAX_NAME // 4:
        plain = f"{stem[: _MAX_NAME - len(ending) - 1]}.{ending}"
    return plain[:_MAX_NAME] or "download"
