"""Which origins a page may reach.

A pattern names origins::

    example.com              http and https, their usual ports
    *.example.com            all hosts below example.com, not itself
    https://example.com      this scheme only
    http://localhost:8000    this port only
    example.com:*            any port
    *                        everything

The most telling rule decides: `deny` goes before `allow`, and what neither names is denied. A host
that resolves to a private, loopback, link-local or otherwise special address is denied unless an
`allow` pattern names that very host, so that no page and no model reaches the machine's own network
(or a cloud's metadata service) through a public name.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import re
from typing import Protocol
from urllib.parse import urlsplit

from webtraj import errors

__all__ = ["NO_NETWORK", "PUBLIC_WEB", "NetworkPolicy", "OriginPolicy", "Verdict", "origin_of"]

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SAME_SCHEME = {"ws": "http", "wss": "https"}
_PATTERN = re.compile(
    r"(?:(?P<scheme>https?)://)?"
    r"(?P<host>\*|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>\d{1,5}|\*))?/?",
    re.IGNORECASE,
)
_ANY = "*"


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be reached, and why or why not."""

    allowed: bool
    reason: str


class NetworkPolicy(Protocol):
    """Says what may be reached. May change its mind; each request is judged anew."""

    @property
    def denies_everything(self) -> bool:
        """Whether nothing at all may ever be reached."""

    def judge_url(self, url: str) -> Verdict:
        """Judges a URL by its origin; addresses are judged when its host is resolved."""

    def judge(self, scheme: str, host: str, port: int) -> Verdict:
        """Judges an origin by name."""

    def judge_address(self, host: str, address: str) -> Verdict:
        """Judges an address that an allowed host resolved to."""


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
        host = _normal_host(match["host"])
        return cls(text, (match["scheme"] or "").lower(), host, match["port"] or "")

    @property
    def names_a_host(self) -> bool:
        """Whether it names one host, with no wildcard."""
        return not self.host.startswith("*")

    def matches(self, scheme: str, host: str, port: int) -> bool:
        """Returns whether an origin, in normal form, is one that the pattern names."""
        if self.scheme and self.scheme != scheme:
            return False
        if self.host.startswith("*."):
            if not host.endswith(self.host[1:]):
                return False
        elif self.host not in (_ANY, host):
            return False
        if self.host == _ANY and not self.port:
            return True
        if self.port == _ANY:
            return True
        return port == (int(self.port) if self.port else _DEFAULT_PORTS[scheme])


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
        """Judges a URL by its origin; addresses are judged when its host is resolved."""
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

    def judge(self, scheme: str, host: str, port: int) -> Verdict:
        """Judges an origin by name."""
        scheme = _SAME_SCHEME.get(scheme, scheme)
        host = _normal_host(host)
        origin = f"{scheme}://{host}:{port}"
        for pattern in _parse(self.deny):
            if pattern.matches(scheme, host, port):
                return Verdict(False, f"{origin} is denied by {pattern.text!r}")
        for pattern in _parse(self.allow):
            if pattern.matches(scheme, host, port):
                return Verdict(True, f"{origin} is allowed by {pattern.text!r}")
        return Verdict(False, f"{origin} is not among the allowed origins")

    def judge_address(self, host: str, address: str) -> Verdict:
        """Judges an address that an allowed host resolved to."""
        host = _normal_host(host)
        ip = ipaddress.ip_address(address.partition("%")[0])
        mapped = getattr(ip, "ipv4_mapped", None) or ip
        if mapped.is_global and not mapped.is_multicast:
            return Verdict(True, f"{address} is a public address")
        if any(p.names_a_host and p.host == host for p in _parse(self.allow)):
            return Verdict(True, f"{host} is allowed by its name")
        return Verdict(False, f"{host} resolves to the private or special address {address}")


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
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{port or _DEFAULT_PORTS[scheme]}"


@functools.lru_cache(maxsize=1024)
def _parse(patterns: tuple[str, ...]) -> tuple[OriginPattern, ...]:
    return tuple(OriginPattern.parse(pattern) for pattern in patterns)


def _normal_host(host: str) -> str:
    """Returns a host in lower case, without brackets and final dot; addresses in short form."""
    host = host.lower().strip("[]").rstrip(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


NO_NETWORK = OriginPolicy()
"""Nothing may be reached: for bundled pages."""
PUBLIC_WEB = OriginPolicy(allow=(_ANY,))
"""The public web, and nothing private."""
