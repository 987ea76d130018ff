"""Host names in headers, URLs and options, and the owners of connections. Nothing is looked up."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final

__all__ = [
    "LOOPBACK",
    "host_of",
    "is_address",
    "is_loopback",
    "is_mine",
    "is_of_this_machine",
    "knows_owners",
    "netloc",
]

LOCALHOST: Final = "127.0.0.1"

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


def is_of_this_machine(host: str) -> bool:
    """Return whether a host is `localhost` or an address of this machine.

    >>> is_of_this_machine("127.0.0.1"), is_of_this_machine("192.0.2.99")
    (True, False)
    """
    if is_loopback(host):
        return True
    if is_address(host):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((host, 0))  # Only an address of this machine can be bound.
            return True
    return False


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


# Who owns the other end of a loopback connection: the kernel knows.

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG, linux/netlink.h
_SOCK_DIAG_BY_FAMILY: Final = 20  # linux/sock_diag.h
_NLM_F_REQUEST: Final = 1


def is_mine(peer: Sequence[Any], here: Sequence[Any]) -> bool | None:
    """Return whether this user owns the other end of a loopback connection.

    Args:
        peer: The other end's address and port.
        here: The address and port of this end.

    Returns:
        None if the kernel cannot tell: outside Linux, in sandboxes without socket diagnosis, and
        once the other end is closed.
    """
    if sys.platform != "linux":
        return None
    try:
        family, first, second = (*_pack(peer[0]), _pack(here[0])[1])
        ends = struct.pack("!HH16s16s", peer[1], here[1], first, second)
        # struct inet_diag_req_v2: family, protocol, extensions, padding, states, then the socket's
        # ports, addresses, interface and cookie (none given).
        asked = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends
        asked += struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        head = struct.pack("=IHHII", 16 + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as kernel:
            kernel.sendto(head + asked, (0, 0))
            told = kernel.recv(4096)
        if struct.unpack_from("=H", told, 4)[0] == _SOCK_DIAG_BY_FAMILY:
            # struct inet_diag_msg: 4 bytes, the socket's 48, expiry and two queues of 4 each, uid.
            (user,) = struct.unpack_from("=I", told, 16 + 4 + 48 + 12)
            return bool(user == os.getuid())
    except (OSError, ValueError, struct.error):
        pass
    return None


def _pack(address: str) -> tuple[int, bytes]:
    """Return an address's family, and the address in the form of the kernel's requests."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6
    return family, parsed.packed


@functools.cache
def knows_owners() -> bool:
    """Return whether the kernel reports the owner of the other end of a loopback connection."""
    with (
        socket.create_server((LOCALHOST, 0)) as listener,
        socket.create_connection(listener.getsockname(), timeout=5),
    ):
        accepted, peer = listener.accept()
        with accepted:
            return is_mine(peer, accepted.getsockname()) is True
