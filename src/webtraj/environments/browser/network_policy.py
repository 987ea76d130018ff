"""Network policies: which destinations a page may reach.

A pattern names origins::

    example.com              http and https, their usual ports
    *.example.com            all hosts below example.com, not itself
    https://example.com      this scheme only
    http://localhost:8000    this port only
    example.com:*            any port
    *                        everything

`deny` takes precedence over `allow`. Anything that neither names is denied. A `deny` pattern
without a port means every port, and without a scheme every scheme. It applies to a name and to the
address that the name resolves to.

A destination at a private, loopback, link-local or otherwise special address, or at an address of
this machine, is denied unless an `allow` pattern names that exact host and port. So no page and no
model reaches the machine's own network (or a cloud's metadata service) through a public name. Names
lead there only as `Names` allows. An IPv6 address that embeds an IPv4 address (NAT64, 6to4, Teredo,
mapped addresses) is judged by the IPv4 address.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.net.hosts import is_address, netloc

__all__ = [
    "ANYWHERE",
    "NAMES",
    "NO_NETWORK",
    "Names",
    "NetworkPolicy",
    "OriginPolicy",
    "PRIVATE_HOSTS",
    "PUBLIC_WEB",
    "SCHEMES",
    "Verdict",
    "destination_of",
    "is_host",
    "is_link_local",
    "is_public",
    "normal_host",
    "origin_of",
    "with_start",
]

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
    """A policy of allowed and denied origins. The module defines the patterns.

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


def with_start(network: NetworkPolicy | None, start_url: str) -> NetworkPolicy | None:
    """Return a policy that also allows the origin of a task's first page, unless denied."""
    if not isinstance(network, OriginPolicy):
        return network
    origin = origin_of(start_url)
    return dataclasses.replace(network, allow=(*network.allow, origin)) if origin else network
