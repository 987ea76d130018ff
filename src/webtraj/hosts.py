"""Host names in headers, URLs and options. Nothing is looked up."""

from __future__ import annotations

import ipaddress

__all__ = ["LOOPBACK", "host_of", "is_address", "is_loopback", "netloc"]

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
"""Names that mean this machine and cannot be reached from others."""


def is_address(name: str) -> bool:
    """Return whether a host is a numeric address, which DNS cannot redirect.

    >>> is_address("192.0.2.7"), is_address("::1"), is_address("192.0.2.7.example")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def netloc(host: str, port: int) -> str:
    """Return an address in URL form.

    >>> netloc("::1", 80)
    '[::1]:80'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_of("LocalHost:80"), host_of("[::1]:80"), host_of("a@b")
    ('localhost', '::1', 'a@b')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
