"""Which destinations a page may reach.

A pattern names origins::

    example.com              http and https, their usual ports
    *.example.com            all hosts below example.com, not itself
    https://example.com      this scheme only
    http://localhost:8000    this port only
    example.com:*            any port
    *                        everything

`deny` goes before `allow`, and what neither names is denied. A `deny` pattern without a port means
every port, and one without a scheme every scheme; it holds for the address that a name resolves to
as well as for the name. A destination at a private, loopback, link-local or otherwise special
address, or at an address of this machine, is denied unless an `allow` pattern names that very host
and port, so that no page and no model reaches the machine's own network (or a cloud's metadata
service) through a public name. What an IPv6 address carries of IPv4 (NAT64, 6to4, Teredo, mapped
addresses) is judged by that IPv4 address.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import re
import socket
from collections.abc import Iterator
from typing import Final, Protocol
from urllib.parse import urlsplit

from webtraj import errors

__all__ = [
    "NO_NETWORK",
    "PUBLIC_WEB",
    "SCHEMES",
    "NetworkPolicy",
    "OriginPolicy",
    "Verdict",
    "destination_of",
    "is_address",
    "is_host",
    "is_link_local",
    "is_public",
    "normal_host",
    "origin_of",
]

SCHEMES: Final = ("http", "https")
"""What a connection may speak. WebSockets speak one of them at first."""

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
    # Site-local addresses, and NAT64 within one network: where it puts the IPv4 address varies.
    for network in ("fec0::/10", "64:ff9b:1::/48")
)
_METADATA: Final = frozenset(
    ipaddress.ip_address(address)
    for address in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192")
)
"""Metadata services of clouds that are not at a link-local address."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be reached, and why or why not."""

    allowed: bool
    reason: str


class NetworkPolicy(Protocol):
    """Decides what may be reached. May change its mind; each connection is judged anew."""

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
            address: What the host resolved to; empty before that.
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
        """Returns the pattern that `text` writes.

        Raises:
            InvalidInputError: It does not follow the grammar.
        """
        match = _PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None or int((match["port"] or "0").replace("*", "0")) > 65535:
            raise errors.InvalidInputError(
                f"{text!r:.200} is no pattern of origins. Expected one such as 'example.com', "
                "'*.example.com', 'https://example.com', 'http://localhost:8000' or '*'."
            )
        host = normal_host(match["host"])
        port = match["port"] or ""
        port = str(int(port)) if port.isdigit() else port
        return cls(text, (match["scheme"] or "").lower(), host, port)

    @property
    def names_a_host(self) -> bool:
        """Whether it names one host, with no wildcard."""
        return not self.host.startswith("*")

    def allows(self, scheme: str, host: str, port: int) -> bool:
        """Return whether it names an origin, in normal form. No port is the usual one."""
        if not self._names(scheme, host):
            return False
        if self.port == _ANY or (self.host == _ANY and not self.port):
            return True
        return port == (int(self.port) if self.port else _DEFAULT_PORTS[scheme])

    def denies(self, scheme: str, host: str, port: int) -> bool:
        """Return whether it names an origin, in normal form. No port is every port."""
        return self._names(scheme, host) and self.port in ("", _ANY, str(port))

    def _names(self, scheme: str, host: str) -> bool:
        if self.scheme and self.scheme != scheme:
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in (_ANY, host)


@dataclasses.dataclass(frozen=True, slots=True)
class OriginPolicy:
    """Which origins may be reached. See the module's docstring for the patterns.

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
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
        except ValueError:
            return Verdict(False, f"{url!r:.200} is no URL")
        if scheme not in _DEFAULT_PORTS:
            return Verdict(
                False, f"the scheme {scheme!r} is not one of {', '.join(_DEFAULT_PORTS)}"
            )
        return self.judge(scheme, host, port or _DEFAULT_PORTS[scheme])

    def judge(self, scheme: str, host: str, port: int, address: str = "") -> Verdict:
        """See `NetworkPolicy.judge`. A host that is an address needs no other."""
        scheme = _SAME_SCHEME.get(scheme, scheme)
        host = normal_host(host)
        address = address or (host if is_address(host) else "")
        names = {host, *([normal_host(address), *map(str, _carried(address))] if address else ())}
        origin = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
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
    """Returns the origin of an http or https URL as a pattern; empty if it has none.

    >>> origin_of("http://localhost:8000/shop"), origin_of("https://example.com"), origin_of("x")
    ('http://localhost:8000', 'https://example.com:443', '')
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return ""
    if scheme not in ("http", "https") or not host:
        return ""
    host = normal_host(host)
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port or _DEFAULT_PORTS[scheme]}"


@functools.lru_cache(maxsize=1024)
def _parse(patterns: tuple[str, ...]) -> tuple[OriginPattern, ...]:
    return tuple(OriginPattern.parse(pattern) for pattern in patterns)


def destination_of(url: str) -> tuple[str, int] | None:
    """Return host and port of an http, https or WebSocket URL; None if it has none.

    >>> destination_of("https://Example.com./cart"), destination_of("about:blank")
    (('example.com', 443), None)
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _DEFAULT_PORTS or not host:
        return None
    return normal_host(host), port or _DEFAULT_PORTS[scheme]


def normal_host(host: str) -> str:
    """Return a host as browsers write it: in lower case and ASCII, addresses in short form."""
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
    """Return whether a host, in normal form, is one that can be looked up: a name or an address."""
    return is_address(host) or (len(host) <= 253 and _HOST.fullmatch(host) is not None)


def is_address(host: str) -> bool:
    """Return whether a host is an address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Return whether an address is one of the public internet, and not one of this machine.

    >>> is_public("93.184.216.34"), is_public("10.0.0.1"), is_public("64:ff9b::a00:1")
    (True, False, False)
    """
    ip = _ip(address)
    carried = list(_carried(address))
    if carried:
        return all(map(_is_global, carried)) and not any(map(_is_own, (ip, *carried)))
    return _is_global(ip) and not _is_own(ip)


def is_link_local(address: str) -> bool:
    """Return whether an address is valid on one network link only, or is a metadata service's."""
    every = (_ip(address), *_carried(address))
    return any(ip.is_link_local or ip.is_unspecified or ip in _METADATA for ip in every)


def _ip(address: str) -> _Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _carried(address: str) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address stands for."""
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
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def _is_own(ip: _Address) -> bool:
    """Return whether an address is one of this machine's: the kernel would talk to it from itself.

    Nothing is sent.
    """
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ip), 9))
            return bool(_ip(probe.getsockname()[0]) == ip)
    except OSError:  # No such family here, or no way there.
        return False


NO_NETWORK = OriginPolicy()
"""Nothing may be reached: for bundled pages."""
PUBLIC_WEB = OriginPolicy(allow=(_ANY,))
"""The public web, and nothing private."""
