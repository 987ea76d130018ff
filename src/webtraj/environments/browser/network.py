"""Enforce network policies on the traffic of a browser context.

Policies (see `network_policy`) are enforced outside the browser, by a proxy for all of its traffic:
pages, frames, popups and workers, every hop of a redirect, WebSockets. Request interception inside
the browser misses some of these, but a page cannot bypass a proxy. A `Boundary` sends back tabs
that show a forbidden page nevertheless.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import ipaddress
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote, urlsplit

from webtraj import errors
from webtraj.environments.browser.network_policy import (
    NAMES,
    SCHEMES,
    NetworkPolicy,
    Verdict,
    destination_of,
    is_host,
    is_link_local,
    normal_host,
    with_start,
)
from webtraj.environments.local_server import LocalServer
from webtraj.net.hosts import is_address, netloc

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

    from webtraj.environments.browser.session import BrowserSession

__all__ = [
    "BLANK",
    "Boundary",
    "Denial",
    "FilteringProxy",
    "Gateway",
    "LocalSites",
    "NETWORK_ARGUMENTS",
    "Serve",
    "pipe_both",
]

BLANK: Final = "about:blank"
"""The first page of every tab."""

# A SOCKS5 proxy that lets a browser reach only what a network policy allows.
#
# The browser names a host and port for each connection; the proxy decides once, before it forwards
# any byte. It resolves the name itself, judges scheme, host, port and address together, and
# connects to the address that it judged. Every connection is judged separately:
#
# * Whatever the policy says, a name leads to a private address only as `Names` allows, for as long
# as the process lives (DNS rebinding).
# * A name is never followed to a link-local address or a cloud's metadata service. Such an address
# must be requested as a number, and the policy must name that number.
# * The scheme follows from the browser's first byte: it begins a TLS record, or is plain HTTP.
#
# The proxy does not speak HTTP. A failed or refused connection ends as a network error in the
# browser, so our messages cannot be mistaken for pages, nor pages for our messages.

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""A handler that answers one browser connection until either side ends it."""

LocalSites = Mapping[tuple[str, int], Serve]
"""Sites served by this process, by host and port. Connections to them never reach the network."""

_CHUNK: Final = 64 * 1024
_REQUEST_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 20.0
_NOTES_KEPT: Final = 100
_TLS_HANDSHAKE: Final = b"\x16"

_GRANTED, _FAILED, _FORBIDDEN, _UNSUPPORTED = 0, 1, 2, 7
"""Replies of RFC 1928. Browsers report the same network error for all but the first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Denial:
    """A connection that the policy does not allow."""

    target: str
    """`host:port`."""
    reason: str


class _RefusedError(Exception):
    def __init__(self, reply: int, reason: str) -> None:
        super().__init__(reason)
        self.reply, self.reason = reply, reason


class FilteringProxy(LocalServer):
    """The proxy, which listens on a free loopback port while its context is active.

    Args:
        policy: The network policy.
        local: Sites that the proxy serves without consulting the policy.
        resolve: Returns the addresses of a host. Default: the system's resolver.
    """

    def __init__(
        self,
        policy: NetworkPolicy,
        *,
        local: LocalSites | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        super().__init__(self._admit)
        self._policy = policy
        self._local = dict(local or {})
        self._resolve = resolve or _system_resolve
        self._denials: collections.deque[Denial] = collections.deque(maxlen=_NOTES_KEPT)
        self._failures: dict[tuple[str, int], tuple[str, bool]] = {}

    @property
    def url(self) -> str:
        """The proxy server's address, for the browser."""
        return f"socks5://{self.address}"

    def take_denials(self) -> list[Denial]:
        """Return the connections denied since the last call; at most the last hundred."""
        taken = list(self._denials)
        self._denials.clear()
        return taken

    def failure(self, host: str, port: int) -> tuple[str, bool]:
        """Return why the last connection to a destination failed, and whether it was denied.

        The reason is empty if the connection succeeded.
        """
        return self._failures.get((normal_host(host), port), ("", False))

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # One side may disconnect, or the proxy stop.
        with contextlib.suppress(OSError, EOFError, TimeoutError, asyncio.CancelledError):
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_REQUEST_SECONDS):
            try:
                host, port = await _read_request(reader, writer)
            except _RefusedError as refusal:
                await _reply(writer, refusal.reply)
                return
        serve = self._local.get((host, port))
        if serve is not None:
            await _reply(writer, _GRANTED)
            await serve(reader, writer)
            return
        try:
            schemes, far = await self._connect(host, port)
        except _RefusedError as refusal:
            self._note(host, port, refusal)
            await _reply(writer, refusal.reply)
            return
        self._failures.pop((host, port), None)
        self._transports.add(far[1].transport)
        try:
            await _reply(writer, _GRANTED)
            if len(schemes) < len(SCHEMES):
                begun = await reader.read(_CHUNK)
                scheme = "https" if begun.startswith(_TLS_HANDSHAKE) else "http"
                if begun and scheme not in schemes:
                    verdict = self._policy.judge(scheme, host, port)
                    self._note(host, port, _RefusedError(_FORBIDDEN, verdict.reason))
                    return
                far[1].write(begun)
            await pipe_both((reader, writer), far)
        finally:
            far[1].close()

    def _note(self, host: str, port: int, refusal: _RefusedError) -> None:
        denied = refusal.reply == _FORBIDDEN
        if denied:
            self._denials.append(Denial(netloc(host, port), refusal.reason))
        self._failures.pop((host, port), None)
        self._failures[host, port] = refusal.reason, denied
        if len(self._failures) > _NOTES_KEPT:
            del self._failures[next(iter(self._failures))]

    async def _connect(
        self, host: str, port: int
    ) -> tuple[set[str], tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Return the schemes allowed on a connection, and the connection.

        Raises:
            _RefusedError: The destination is denied, or cannot be reached.
        """
        # First by name alone: a forbidden name is not even resolved.
        self._schemes(host, port)
        refusal = _RefusedError(_FAILED, f"{host} has no address")
        for address in await self._addresses(host, port):
            try:
                schemes = self._schemes(host, port, address)
            except _RefusedError as denial:
                refusal = denial
                continue
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    far = await asyncio.open_connection(address, port, limit=_CHUNK)
            except TimeoutError:
                reason = f"{host} at {address} did not answer in {_CONNECT_SECONDS:g} s"
                refusal = _RefusedError(_FAILED, reason)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else str(error)
                refusal = _RefusedError(_FAILED, f"{host} at {address} cannot be reached: {why}")
            else:
                return schemes, far
        raise refusal

    def _schemes(self, host: str, port: int, address: str = "") -> set[str]:
        """Return the schemes in which a destination may be reached.

        Raises:
            _RefusedError: No scheme is allowed.
        """
        if address and not is_address(host) and is_link_local(address):
            reason = f"{host} resolves to {address}, which no name may lead to"
            raise _RefusedError(_FORBIDDEN, reason)
        if address and (reason := NAMES.why_not(host, address)):
            raise _RefusedError(_FORBIDDEN, reason)
        verdicts = {s: self._policy.judge(s, host, port, address) for s in SCHEMES}
        allowed = {scheme for scheme, verdict in verdicts.items() if verdict.allowed}
        if not allowed:
            likely = "http" if port == 80 else "https"
            raise _RefusedError(_FORBIDDEN, verdicts[likely].reason)
        return allowed

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                addresses = await self._resolve(host, port)
        except TimeoutError:
            raise _RefusedError(_FAILED, f"{host} was not resolved in time") from None
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise _RefusedError(_FAILED, f"{host} cannot be resolved: {why}") from error
        NAMES.saw(host, addresses)
        return addresses


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, int]:
    """Read the host and port of a connection request (RFC 1928, without authentication).

    Raises:
        _RefusedError: It asks for something else.
    """
    version, count = await reader.readexactly(2)
    if version != 5:
        raise ConnectionError("not SOCKS5")
    if 0 not in await reader.readexactly(count):
        raise ConnectionError("no method of authentication that is known")
    writer.write(b"\x05\x00")
    version, command, _, kind = await reader.readexactly(4)
    if kind == 1:
        name = str(ipaddress.IPv4Address(await reader.readexactly(4)))
    elif kind == 4:
        name = str(ipaddress.IPv6Address(await reader.readexactly(16)))
    else:
        (length,) = await reader.readexactly(1)
        name = (await reader.readexactly(length)).decode("latin-1")
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    host = normal_host(name)
    plain = name.isascii() and is_host(host)
    if version != 5 or command != 1 or not port or not plain:
        raise _RefusedError(_UNSUPPORTED, "no request for a connection to a host")
    return host, port


async def _reply(writer: asyncio.StreamWriter, code: int) -> None:
    writer.write(struct.pack("!BBBB4sH", 5, code, 0, 1, bytes(4), 0))
    await writer.drain()


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def pipe_both(near: _Stream, far: _Stream) -> bool:
    """Copy both ways until either side ends. If the far side aborts, abort the near side.

    Returns:
        Whether the far side did its part: it neither aborted nor ended without sending anything.
    """
    upward = asyncio.ensure_future(_pipe(near[0], far[1]))
    downward = asyncio.ensure_future(_pipe(far[0], near[1]))
    try:
        await asyncio.wait((upward, downward), return_when=asyncio.FIRST_COMPLETED)
        if far[0].exception() is not None:
            # A clean end would make a truncated page look complete.
            near[1].get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            near[1].transport.abort()
            return False
        return not downward.done() or downward.exception() is not None or downward.result() > 0
    finally:
        for task in (upward, downward):
            task.cancel()
        await asyncio.gather(upward, downward, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Copy until the reader ends; return the number of bytes."""
    size = 0
    while chunk := await reader.read(_CHUNK):
        size += len(chunk)
        writer.write(chunk)
        await writer.drain()
    return size


async def _system_resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


# One browser context's access to the network.

_NOWHERE: Final = "http://127.0.0.1:0"
"""A proxy that never exists: nothing can listen on port 0."""

_EVERYTHING: Final = "<-loopback>"
"""Hosts that bypass the proxy: none, not even loopback ones, which do by default."""

NETWORK_ARGUMENTS: Final = (
    # WebRTC uses UDP, which bypasses the proxy: its packets would reveal the machine's addresses
    # and go wherever a page sends them. Chromium and its headless shell name the switch
    # differently.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    # Only the proxy resolves names: a DNS lookup leaks the name to its server.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    # Nobody can answer a prompt; a page that waits for an answer would never settle.
    "--deny-permission-prompts",
    # The browser's own traffic.
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--no-pings",
)
"""Browser arguments without which traffic could bypass the proxy."""


class Gateway:
    """One browser context's access to the network: a proxy of its own that enforces a policy.

    Args:
        policy: What may be reached; None for no restriction. There is no proxy without a
            restriction, or if the policy denies everything and there is no local site. Without a
            proxy, no denials are reported.
        local: Sites served by this process, by host and port; always allowed.
        resolve: Returns the addresses of a host. Default: the system's resolver.
    """

    def __init__(
        self,
        policy: NetworkPolicy | None,
        *,
        local: LocalSites | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._restricts = policy is not None
        self._proxy = (
            FilteringProxy(policy, local=local, resolve=resolve)
            if policy is not None and (local or not policy.denies_everything)
            else None
        )

    @property
    def context_options(self) -> dict[str, Any]:
        """Options for Playwright's `Browser.new_context` that route through the gateway."""
        if not self._restricts:
            return {}
        server = _NOWHERE if self._proxy is None else self._proxy.url
        return {"proxy": {"server": server, "bypass": _EVERYTHING}}

    def take_denials(self) -> list[Denial]:
        """Return the connections denied since the last call."""
        return [] if self._proxy is None else self._proxy.take_denials()

    def failure(self, url: str) -> tuple[str, bool]:
        """Return why the last connection for a URL failed, and whether it was denied.

        The reason is empty if the connection succeeded.
        """
        destination = destination_of(url)
        if self._proxy is None or destination is None:
            return "", False
        return self._proxy.failure(*destination)

    async def open(self) -> None:
        """Start letting allowed traffic through."""
        if self._proxy is not None:
            await self._proxy.start()

    async def close(self) -> None:
        """Stop letting traffic through. Idempotent."""
        if self._proxy is not None:
            await self._proxy.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


# Keeping a session within its policy.
#
# The browser's requests are filtered by the proxy. What a tab shows is checked here,
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
        network: What pages may reach; None for no restriction.
        start_url: The task's first URL. Its origin is allowed unless the policy denies it.
        local: Sites of the task served by this process; always allowed.
    """

    def __init__(
        self,
        network: NetworkPolicy | None,
        start_url: str = "",
        local: LocalSites | None = None,
    ) -> None:
        self._network = with_start(network, start_url)
        self._local = local or {}
        self.gateway = Gateway(self._network, local=self._local)
        """The way to the network, to be opened and closed with the lease."""
        self.home = start_url
        """The URL to which a forbidden tab is sent back: the episode's first page."""
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

    def watch(self, session: BrowserSession) -> None:
        """Start recording refused downloads."""
        session.lease.context.on("page", self._watch_page)
        for page in session.tabs:
            self._watch_page(page)

    def take_blocked(self) -> list[str]:
        """Return what was blocked since the last call, as `url: reason`."""
        denials = self.gateway.take_denials()
        blocked = [*self._blocked, *(f"{d.target}: {d.reason}" for d in denials)]
        self._blocked = []
        return blocked[:_MAX_KEPT]

    async def enforce(self, session: BrowserSession, *, refused: bool = False) -> tuple[str, str]:
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
                verdict = Verdict(False, failure.reason)
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

    async def _send_back(self, session: BrowserSession, page: Page) -> None:
        """Send a tab to the previous page, then the first page, then a blank one."""
        with contextlib.suppress(errors.BrowserError):
            await session.run(page.go_back(wait_until="commit"), what="go back")
        for url in (self.home, BLANK):
            if page.url != BLANK and self._judge(page.url).allowed:
                return
            with contextlib.suppress(errors.BrowserError):
                await session.run(page.goto(url, wait_until="commit"), what="go back")

    def _judge(self, url: str) -> Verdict:
        """Judge the URL of a page that a tab shows."""
        scheme, _, rest = url.partition(":")
        if scheme in ("about", "chrome-error", ""):
            return Verdict(True, "a page of the browser itself")
        if destination_of(url) in self._local:
            return Verdict(True, "a site of the task's own")
        if scheme in ("http", "https"):
            if self._network is None:
                return Verdict(True, "the network is not restricted")
            return self._network.judge_url(url)
        if scheme == "blob":
            return self._judge(rest)
        if scheme == "file":
            return self._judge_file(url)
        return Verdict(False, f"the scheme {scheme!r} is not allowed")

    def _judge_file(self, url: str) -> Verdict:
        """Judge a file URL: files in the folder of the episode's first page are allowed."""
        if self.home.startswith("file:"):
            folder = Path(unquote(urlsplit(self.home).path)).parent
            if Path(unquote(urlsplit(url).path)).resolve().is_relative_to(folder.resolve()):
                return Verdict(True, "in the folder of the first page")
        return Verdict(False, "files are not allowed")

    def _watch_page(self, page: Page) -> None:
        page.on("download", self._on_download)

    def _on_download(self, download: Download) -> None:
        if self._refuses_downloads and len(self._blocked) < _MAX_KEPT:
            self._blocked.append(f"{download.url}: downloads are not allowed")
