"""Hosts as headers, URLs and options have them. Nothing is looked up."""

from __future__ import annotations

import ipaddress

__all__ = ["LOOPBACK", "host_of", "is_address", "is_loopback", "netloc"]

LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
"""What this machine calls itself, and no other can reach."""


def is_address(name: str) -> bool:
    """Returns whether a host is a number, which nobody can make mean another machine.

    >>> is_address("192.0.2.7"), is_address("::1"), is_address("192.0.2.7.example")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Returns whether an address is this machine's alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def netloc(host: str, port: int) -> str:
    """Returns an address as URLs have it.

    >>> netloc("::1", 80)
    '[::1]:80'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(header: str) -> str:
    """Returns the name in a Host header, without its port.

    >>> host_of("LocalHost:80"), host_of("[::1]:80"), host_of("a@b")
    ('localhost', '::1', 'a@b')
    """
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
