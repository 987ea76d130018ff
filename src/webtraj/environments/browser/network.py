"""What a page may reach: the rules, and their enforcement.

The rules are enforced outside the browser, by a proxy for all of its traffic: pages, frames, popups
and workers, every hop of a redirect, WebSockets. Request interception inside the browser misses
some of these; a page cannot bypass a proxy. A `Boundary` sends back tabs that show a forbidden page
nevertheless.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import ipaddress
import os
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import unquote, urlsplit

from webtraj import errors
from webtraj.environments.local_server import LocalServer
from webtraj.net.hosts import is_address, netloc

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

    from webtraj.environments.browser.session import BrowserSession

__all__ = [
    "ANYWHERE",
    "BLANK",
    "Boundary",
    "Denial",
    "FilteringProxy",
    "Gateway",
    "LocalSites",
    "NAMES",
    "NETWORK_ARGUMENTS",
    "NO_NETWORK",
    "Names",
    "NetworkPolicy",
    "OriginPolicy",
    "PRIVATE_HOSTS",
    "PUBLIC_WEB",
    "SCHEMES",
    "Serve",
    "Verdict",
    "destination_of",
    "is_address",
    "is_host",
    "is_link_local",
    "is_public",
    "normal_host",
    "origin_of",
    "pipe_both",
    "with_start",
]

BLANK: Final = "about:blank"
"""The first page of every tab."""

# Which destinations a page may reach.
#
# A pattern names origins::
#
#     example.com              http and https, their usual ports
#     *.example.com            all hosts below example.com, not itself
#     https://example.com      this scheme only
#     http://localhost:8000    this port only
#     example.com:*            any port
#     *                        everything
#
# `deny` takes precedence over `allow`, and anything that neither names is denied. A `deny` pattern
# without a port
# means every port, and one without a scheme every scheme; it holds for the address that a name
# resolves to as well as for the name. A destination at a private, loopback, link-local or otherwise
# special address, or at an address of this machine, is denied unless an `allow` pattern names that
# exact host and port, so that no page and no model reaches the machine's own network (or a cloud's
# metadata service) through a public name; a name leads there only as `Names` says. An IPv6 address
# that embeds an IPv4 address (NAT64, 6to4, Teredo, mapped addresses) is judged by the IPv4 address.

SCHEMES: Final = ("http", "https")
"""The schemes of connections. WebSockets start as one of them."""

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SAME_SCHEME = {"ws": "http", "wss": "https"}
_PATTERN = re.compile(
    r"(?:(?P<scheme>https?)://)?"
    r"(?P<host>\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>\d{1,5}|\*))?/?",
    re.IGNORECASE,
)
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_ANY = "*"

_CARRIES_IPV4_AT_ITS_END: Final = tuple(
    ipaddress.IPv6Network(network)
    for network in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)
_SIX_TO_FOUR: Final = ipaddress.IPv6Network("2002::/16")
_TEREDO: Final = ipaddress.IPv6Network("2001::/32")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_NEVER_PUBLIC: Final = tuple(
    ipaddress.IPv6Network(network)
    # Site-local addresses, and NAT64 within one network, whose embedding of IPv4 varies.
    for network in ("fec0::/10", "64:ff9b:1::/48")
)
_METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "fd00:ec2::254",
        "fd20:ce::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
    )
)
"""Cloud metadata services without a link-local address."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be reached, and why or why not."""

    allowed: bool
    reason: str


class NetworkPolicy(Protocol):
    """A rule for what may be reached. It may change over time; every connection is judged anew."""

    @property
    def denies_everything(self) -> bool:
        """Whether nothing at all may ever be reached."""

    def judge_url(self, url: str) -> Verdict:
        """Judge a URL by its origin, before its host is resolved."""

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        """Judge a destination.

        Args:
            scheme: http or https.
            host: A name or an address.
            port: The port.
            address: The address that the host resolved to; empty if it is not resolved yet.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class OriginPattern:
    """A parsed pattern."""

    text: str
    scheme: str
    """Empty: http and https."""
    host: str
    port: str
    """A number, `*` for any, or empty: the scheme's usual one."""

    @classmethod
    def parse(cls, text: str) -> OriginPattern:
        """Parse a pattern.

        Raises:
            InvalidInputError: It does not follow the grammar.
        """
        match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or int((match["port"] or "0").replace("*", "0")) > 65535:
            raise errors.InvalidInputError(
                f"{text!r:.200} is not an origin pattern. Expected one such as 'example.com', "
                "'*.example.com', 'https://example.com', 'http://localhost:8000' or '*'."
            )
        host = normal_host(match["host"])
        port = match["port"] or ""
        port = str(int(port)) if port.isdigit() else port
        return cls(text, (match["scheme"] or "").lower(), host, port)

    @property
    def names_a_host(self) -> bool:
        """Whether it names a single host, without a wildcard."""
        return not self.host.startswith("*")

    def allows(self, scheme: str, host: str, port: int) -> bool:
        """Return whether the pattern matches an origin. Without a port, it means the usual one."""
        if not self._names(scheme, host):
            return False
        if self.port == _ANY or (self.host == _ANY and not self.port):
            return True
        return port == (int(self.port) if self.port else _DEFAULT_PORTS[scheme])

    def denies(self, scheme: str, host: str, port: int) -> bool:
        """Return whether the pattern matches an origin. A pattern without a port means any."""
        return self._names(scheme, host) and self.port in ("", _ANY, str(port))

    def _names(self, scheme: str, host: str) -> bool:
        if self.scheme and self.scheme != scheme:
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in (_ANY, host)


@dataclasses.dataclass(frozen=True, slots=True)
class OriginPolicy:
    """A policy of allowed and denied origins. The comment above defines the patterns.

    Raises:
        InvalidInputError: A pattern does not follow the grammar.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            if isinstance(getattr(self, name), str):
                raise errors.InvalidInputError(
                    f"{name}={getattr(self, name)!r} is one string; expected a tuple of patterns."
                )
            object.__setattr__(self, name, tuple(getattr(self, name)))
            _parse(getattr(self, name))

    @property
    def denies_everything(self) -> bool:
        """Whether nothing at all may be reached."""
        return not self.allow

    def judge_url(self, url: str) -> Verdict:
        """See `NetworkPolicy.judge_url`."""
        parts = _parts_of(url)
        if parts is None:
            return Verdict(False, f"{url!r:.200} is no URL")
        scheme, host, port = parts
        if scheme not in _DEFAULT_PORTS:
            return Verdict(
                False, f"the scheme {scheme!r} is not one of {', '.join(_DEFAULT_PORTS)}"
            )
        return self.judge(scheme, host, port)

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        """See `NetworkPolicy.judge`. A host that is an address needs no `address`."""
        scheme = _SAME_SCHEME.get(scheme, scheme)
        host = normal_host(host)
        address = address or (host if is_address(host) else "")
        names = {
            host,
            *([normal_host(address), *map(str, _find_embedded(address))] if address else ()),
        }
        origin = f"{scheme}://{netloc(host, port)}"
        for pattern in _parse(self.deny):
            if any(pattern.denies(scheme, name, port) for name in names):
                return Verdict(False, f"{origin} is denied by {pattern.text!r}")
        reason = f"{origin} is not among the allowed origins"
        for pattern in _parse(self.allow):
            if not pattern.allows(scheme, host, port):
                continue
            if not address or pattern.names_a_host or is_public(address):
                return Verdict(True, f"{origin} is allowed by {pattern.text!r}")
            reason = f"{host} resolves to the private or special address {address}"
        return Verdict(False, reason)


def origin_of(url: str) -> str:
    """Return the origin of an http or https URL as a pattern; empty if it has none.

    >>> origin_of("http://localhost:8000/shop"), origin_of("https://example.com"), origin_of("x")
    ('http://localhost:8000', 'https://example.com:443', '')
    """
    scheme, host, port = _parts_of(url) or ("", "", 0)
    return f"{scheme}://{netloc(normal_host(host), port)}" if scheme in SCHEMES and host else ""


def _parts_of(url: str) -> tuple[str, str, int] | None:
    """Return a URL's scheme, its host as written, and its port, by default the scheme's.

    None if it is not a URL. The host is not in normal form. Callers normalize it exactly once,
    because each time removes a final dot, and `a.test..` is not a name of `a.test`.
    """
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError:
        return None
    return scheme, parts.hostname or "", port or _DEFAULT_PORTS.get(scheme, 0)


@functools.lru_cache(maxsize=1024)
def _parse(patterns: tuple[str, ...]) -> tuple[OriginPattern, ...]:
    return tuple(OriginPattern.parse(pattern) for pattern in patterns)


def destination_of(url: str) -> tuple[str, int] | None:
    """Return the host and port of an http, https or WebSocket URL; None for other URLs.

    >>> destination_of("https://Example.com./cart"), destination_of("about:blank")
    (('example.com', 443), None)
    """
    scheme, host, port = _parts_of(url) or ("", "", 0)
    return (normal_host(host), port) if scheme in _DEFAULT_PORTS and host else None


def normal_host(host: str) -> str:
    """Return a host as browsers write it: lower case, ASCII, addresses in short form."""
    host = host.lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return host
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    host = host.removesuffix(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def is_host(host: str) -> bool:
    """Return whether a host in normal form is a valid name or address."""
    return is_address(host) or (len(host) <= 253 and _HOST.fullmatch(host) is not None)


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet and does not belong to this machine.

    >>> is_public("93.184.216.34"), is_public("10.0.0.1"), is_public("64:ff9b::a00:1")
    (True, False, False)
    """
    ip = _ip(address)
    carried = list(_find_embedded(address))
    if carried:
        return all(map(_is_global, carried)) and not any(map(_is_own, (ip, *carried)))
    return _is_global(ip) and not _is_own(ip)


def is_link_local(address: str) -> bool:
    """Return whether an address is link-local or belongs to a cloud metadata service."""
    every = (_ip(address), *_find_embedded(address))
    return any(ip.is_link_local or ip.is_unspecified or ip in _METADATA for ip in every)


def _ip(address: str) -> _Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _find_embedded(address: str) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses embedded in an IPv6 address."""
    ip = _ip(address)
    if not isinstance(ip, ipaddress.IPv6Address):
        return
    number = int(ip)
    if any(ip in network for network in _CARRIES_IPV4_AT_ITS_END):
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)
    elif ip in _SIX_TO_FOUR:
        yield ipaddress.IPv4Address(number >> 80 & 0xFFFFFFFF)
    elif ip in _TEREDO:
        yield ipaddress.IPv4Address(number >> 64 & 0xFFFFFFFF)
        yield ipaddress.IPv4Address(~number & 0xFFFFFFFF)
    elif number >> 32 & 0xFFFFFFFF in _ISATAP and _is_global(ip):
        yield ipaddress.IPv4Address(number & 0xFFFFFFFF)


def _is_global(ip: _Address) -> bool:
    if isinstance(ip, ipaddress.IPv6Address) and any(ip in network for network in _NEVER_PUBLIC):
        return False
    if ip in _METADATA:
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _is_own(ip: _Address) -> bool:
    """Return whether an address is this machine's: the kernel picks it as its own source.

    Nothing is sent.
    """
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ip), 9))
            return bool(_ip(probe.getsockname()[0]) == ip)
    except OSError:  # Address family unsupported, or no route.
        return False


NO_NETWORK = OriginPolicy()
"""Allows nothing: for bundled pages."""
PUBLIC_WEB = OriginPolicy(allow=(_ANY,))
"""Allows the public web, and nothing private."""


class _Anywhere:
    """Allows every destination but link-local addresses. The rules of `NAMES` still apply."""

    denies_everything = False

    def judge_url(self, url: str) -> Verdict:
        """See `NetworkPolicy.judge_url`."""
        return self.judge("", *(destination_of(url) or ("", 0)))

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        """See `NetworkPolicy.judge`."""
        address = address or (host if is_address(host) else "")
        if address and is_link_local(address):
            return Verdict(
                False, f"{address} is a link-local address or a cloud's metadata service"
            )
        return Verdict(True, "the network is not restricted")


ANYWHERE: NetworkPolicy = _Anywhere()
"""Allows the public web and private addresses: for a browser that a person drives."""


PRIVATE_HOSTS: Final = "WEBTRAJ_PRIVATE_HOSTS"
"""The environment variable with names of hosts in a private network, separated by commas."""


class Names:
    """The addresses to which host names may lead, for the whole process. Thread-safe.

    The owner of a name decides to which address it leads, and may change that at any time (DNS
    rebinding). So only these names may lead to private addresses: `localhost`, to this machine; and
    names that the user declared, to the addresses that they had at first. A declared name that once
    had a public address may not lead to a private one any more.
    """

    def __init__(self) -> None:
        self._declared: set[str] = set()
        self._first: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def declare(self, *names: str) -> None:
        """Declare names of hosts in a private network, as `WEBTRAJ_PRIVATE_HOSTS` does.

        Raises:
            InvalidInputError: One is not a host name.
        """
        hosts = [normal_host(name) for name in names]
        for name, host in zip(names, hosts, strict=True):
            if not is_host(host):
                raise errors.InvalidInputError(
                    f"{name!r:.200} is not a host name. Expected one such as 'wiki.internal'."
                )
        self._declared.update(hosts)

    def saw(self, host: str, addresses: Sequence[str]) -> None:
        """Note the addresses of a host that was looked up."""
        if addresses and self._is_declared(host):
            with self._lock:
                public = any(map(is_public, addresses))
                if public or host not in self._first:
                    first = () if public else map(normal_host, addresses)
                    self._first[host] = frozenset(first)

    def why_not(self, host: str, address: str) -> str:
        """Return why a host may not lead to an address; empty if it may.

        Args:
            host: A name whose addresses were passed to `saw`, or an address.
            address: One of these addresses.
        """
        if is_address(host) or is_public(address):
            return ""
        if host == "localhost" or host.endswith(".localhost"):
            here = _ip(address).is_loopback
            return "" if here else f"{host} resolves to {address}, which is not this machine"
        if not self._is_declared(host):
            return (
                f"{host} resolves to the private or special address {address}. If it is a host of "
                f"your own network, name it in the environment variable {PRIVATE_HOSTS}"
            )
        first = self._first.get(host, frozenset())
        if not first:
            return f"{host} had a public address before, and now resolves to {address}"
        if normal_host(address) not in first:
            return f"{host} had another address before, and now resolves to {address}"
        return ""

    def _is_declared(self, host: str) -> bool:
        given = os.environ.get(PRIVATE_HOSTS, "").split(",")
        return host in self._declared or host in {normal_host(name.strip()) for name in given}


NAMES: Final = Names()
"""The names of this process. Every proxy asks them."""


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


def with_start(network: NetworkPolicy | None, start_url: str) -> NetworkPolicy | None:
    """Return a policy that also allows the origin of a task's first page, unless denied."""
    if not isinstance(network, OriginPolicy):
        return network
    origin = origin_of(start_url)
    return dataclasses.replace(network, allow=(*network.allow, origin)) if origin else network
