"""A SOCKS5 proxy that connects a browser to what a network policy allows, and to nothing else.

The browser names a host and a port for each connection; the proxy decides once, before any byte of
a page is passed on. It resolves the name itself, judges scheme, host, port and address together,
and dials the very address that it judged. A new connection is judged anew:

* A name that had a public address when it was first looked up is never followed to a private one,
  whatever the policy names (DNS rebinding).
* A name is never followed to a link-local address or a cloud's metadata service. Such an address
  must be asked for as a number, by a policy that names that number.
* The scheme is what the browser speaks: its first byte begins a TLS record, or it is plain HTTP.

The proxy speaks no HTTP. A connection that fails or is refused ends as a network error in the
browser, so no text of ours can pass for a page, and no page for an error of ours.
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
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from webtraj.environments.browser.network import origins as origins_lib
from webtraj.environments.local_server import LocalServer

__all__ = ["Denial", "FilteringProxy", "LocalSites", "Serve"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers one connection of a browser, until either side ends it."""

LocalSites = Mapping[tuple[str, int], Serve]
"""Sites in this process, by host and port. Connections to them never reach the network."""

_CHUNK: Final = 64 * 1024
_REQUEST_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 20.0
_NOTES_KEPT: Final = 100
_TLS_HANDSHAKE: Final = b"\x16"

_GRANTED, _FAILED, _FORBIDDEN, _UNSUPPORTED = 0, 1, 2, 7
"""Replies of RFC 1928. Browsers make the same network error of all but the first."""


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


class FilteringProxy:
    """The proxy, listening on a free port of the loopback interface while it is entered.

    Args:
        policy: What to let through.
        local: Sites that the proxy answers for without asking the policy.
        resolve: Return the addresses of a host; by default the system's resolver.
    """

    def __init__(
        self,
        policy: origins_lib.NetworkPolicy,
        *,
        local: LocalSites | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._policy = policy
        self._local = dict(local or {})
        self._resolve = resolve or _system_resolve
        self._server = LocalServer(self._answer)
        self._denials: collections.deque[Denial] = collections.deque(maxlen=_NOTES_KEPT)
        self._failures: dict[tuple[str, int], tuple[str, bool]] = {}
        self._private_from_the_start: dict[str, bool] = {}

    @property
    def url(self) -> str:
        """The proxy server's address, for the browser."""
        return f"socks5://{self._server.address}"

    def take_denials(self) -> list[Denial]:
        """Return what was not let through since the last call; the latest hundred at most."""
        taken = list(self._denials)
        self._denials.clear()
        return taken

    def failure(self, host: str, port: int) -> tuple[str, bool]:
        """Return why the last connection to a destination failed, and whether it was denied.

        The reason is empty if the connection did not fail on the way.
        """
        return self._failures.get((origins_lib.normal_host(host), port), ("", False))

    async def start(self) -> None:
        """Start listening."""
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening and cut all connections. Idempotent."""
        await self._server.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _same_user(writer):
                await self._serve(reader, writer)
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # One side went away, or the proxy is being stopped.

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
        try:
            await _reply(writer, _GRANTED)
            if len(schemes) < len(origins_lib.SCHEMES):
                begun = await reader.read(_CHUNK)
                scheme = "https" if begun.startswith(_TLS_HANDSHAKE) else "http"
                if begun and scheme not in schemes:
                    verdict = self._policy.judge(scheme, host, port)
                    self._note(host, port, _RefusedError(_FORBIDDEN, verdict.reason))
                    return
                far[1].write(begun)
            await _pipe_both((reader, writer), far)
        finally:
            far[1].close()

    def _note(self, host: str, port: int, refusal: _RefusedError) -> None:
        denied = refusal.reply == _FORBIDDEN
        if denied:
            shown = f"[{host}]" if ":" in host else host
            self._denials.append(Denial(f"{shown}:{port}", refusal.reason))
        self._failures.pop((host, port), None)
        self._failures[host, port] = refusal.reason, denied
        if len(self._failures) > _NOTES_KEPT:
            del self._failures[next(iter(self._failures))]

    async def _connect(
        self, host: str, port: int
    ) -> tuple[set[str], tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Return the schemes that may be spoken over a connection, and the connection.

        Raises:
            _RefusedError: The destination is denied, or cannot be reached.
        """
        # First by name alone: a name that may not be reached is not looked up either.
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
            _RefusedError: There is none.
        """
        if address and not origins_lib.is_address(host) and not origins_lib.is_public(address):
            if origins_lib.is_link_local(address):
                reason = f"{host} resolves to {address}, which no name may lead to"
                raise _RefusedError(_FORBIDDEN, reason)
            if not self._private_from_the_start[host]:
                reason = f"{host} had a public address before, and now resolves to {address}"
                raise _RefusedError(_FORBIDDEN, reason)
        verdicts = {s: self._policy.judge(s, host, port, address) for s in origins_lib.SCHEMES}
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
        if addresses:
            private = not any(origins_lib.is_public(address) for address in addresses)
            self._private_from_the_start.setdefault(host, private)
        return addresses


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[str, int]:
    """Return host and port of a request for a connection (RFC 1928, without authentication).

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
    host = origins_lib.normal_host(name)
    plain = name.isascii() and origins_lib.is_host(host)
    if version != 5 or command != 1 or not port or not plain:
        raise _RefusedError(_UNSUPPORTED, "no request for a connection to a host")
    return host, port


async def _reply(writer: asyncio.StreamWriter, code: int) -> None:
    writer.write(struct.pack("!BBBB4sH", 5, code, 0, 1, bytes(4), 0))
    await writer.drain()


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pipe_both(near: _Stream, far: _Stream) -> None:
    """Copy both ways until either side ends. A far side that breaks off breaks off the near one."""
    upward = asyncio.ensure_future(_pipe(near[0], far[1]))
    downward = asyncio.ensure_future(_pipe(far[0], near[1]))
    try:
        await asyncio.wait((upward, downward), return_when=asyncio.FIRST_COMPLETED)
        if downward.done() and downward.exception() is not None:
            # An orderly end would make a cut page look whole.
            near[1].get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            near[1].transport.abort()
    finally:
        for task in (upward, downward):
            task.cancel()
        await asyncio.gather(upward, downward, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()


async def _system_resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


# Who may use the proxy: browsers know no way to prove themselves to a SOCKS5 proxy, but the kernel
# knows whose each connection is.

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG, linux/netlink.h
_SOCK_DIAG_BY_FAMILY: Final = 20  # linux/sock_diag.h
_NLM_F_REQUEST: Final = 1


def _same_user(writer: asyncio.StreamWriter) -> bool:
    """Return whether the other end of a loopback connection is a process of this user.

    True where the kernel does not tell: outside Linux, and in sandboxes without socket diagnosis.
    """
    if sys.platform != "linux":
        return True
    near, far = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
    ends = struct.pack("!HH4s12x4s12x", near[1], far[1], *map(_packed, (near[0], far[0])))
    # struct inet_diag_req_v2: family, protocol, extensions, padding, states, then the socket's
    # ports, addresses, interface and cookie (none given).
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends
    asked += struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    head = struct.pack("=IHHII", 16 + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    with contextlib.suppress(OSError, struct.error):
        family = socket.AF_NETLINK
        with socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SOCK_DIAG) as kernel:
            kernel.sendto(head + asked, (0, 0))
            told = kernel.recv(4096)
        if struct.unpack_from("=H", told, 4)[0] == _SOCK_DIAG_BY_FAMILY:
            # struct inet_diag_msg: 4 bytes, the socket's 48, expiry and two queues of 4 each, uid.
            (user,) = struct.unpack_from("=I", told, 16 + 4 + 48 + 12)
            return bool(user == os.getuid())
    return True


def _packed(address: str) -> bytes:
    return socket.inet_aton(address)
