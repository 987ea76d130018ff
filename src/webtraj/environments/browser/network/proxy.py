"""A forward proxy that lets through what an `OriginPolicy` allows, and nothing else.

It speaks what browsers speak to a proxy: `CONNECT` for https and WebSockets, absolute URLs for
plain http. It resolves names itself and connects to the very address that it has judged, so that a
name cannot change its address in between (DNS rebinding). One request uses one connection.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import socket
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from webtraj.environments.browser.network.origins import NetworkPolicy

__all__ = ["Denial", "FilteringProxy"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_HEAD_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 20.0
_DENIALS_KEPT = 100
_HOP_BY_HOP = {"proxy-connection", "connection", "keep-alive", "proxy-authorization", "te"}


@dataclasses.dataclass(frozen=True, slots=True)
class Denial:
    """Something that was not let through."""

    target: str
    """The URL, or `host:port`."""
    reason: str


class _RefusedError(Exception):
    def __init__(self, status: str, target: str, reason: str, *, denied: bool = True) -> None:
        super().__init__(reason)
        self.status, self.target, self.reason, self.denied = status, target, reason, denied


class FilteringProxy:
    """The proxy, listening on a free port of the loopback interface while it is entered."""

    def __init__(self, policy: NetworkPolicy, *, resolve: Resolve | None = None) -> None:
        """Initializes the proxy.

        Args:
            policy: What to let through.
            resolve: Returns the addresses of a host; by default the system's resolver.
        """
        self._policy = policy
        self._resolve = resolve or _system_resolve
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._denials: collections.deque[Denial] = collections.deque(maxlen=_DENIALS_KEPT)

    @property
    def url(self) -> str:
        """What to give the browser as its proxy server."""
        assert self._server is not None, "the proxy is not running"
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    def take_denials(self) -> list[Denial]:
        """Returns what was not let through since the last call; the latest hundred at most."""
        taken = list(self._denials)
        self._denials.clear()
        return taken

    async def start(self) -> None:
        """Starts listening."""
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES, start_serving=True
        )

    async def stop(self) -> None:
        """Stops listening and cuts all connections. Idempotent."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

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

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # One side went away, or the proxy is being stopped.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, target, head = await _read_head(reader)
            if method == "CONNECT":
                await self._tunnel(target, reader, writer)
            else:
                await self._forward(method, target, head, reader, writer)
        except _RefusedError as refusal:
            if refusal.denied:
                self._denials.append(Denial(refusal.target, refusal.reason))
            writer.write(_refusal_response(refusal))
            await writer.drain()

    async def _tunnel(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.rpartition(":")
        if not host or not port.isdigit():
            raise _RefusedError("400 Bad Request", target, "no host and port", denied=False)
        # WebSockets to plain http servers come by CONNECT too: either scheme may allow it.
        verdicts = [self._policy.judge(s, host, int(port)) for s in ("https", "http")]
        if not any(verdict.allowed for verdict in verdicts):
            raise _RefusedError("403 Forbidden", target, verdicts[0].reason)
        upstream = await self._connect(host, int(port), target)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _pipe_both((reader, writer), upstream)

    async def _forward(
        self,
        method: str,
        target: str,
        head: list[tuple[str, str]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        verdict = self._policy.judge_url(target)
        if not verdict.allowed:
            raise _RefusedError("403 Forbidden", target, verdict.reason)
        parts = urlsplit(target)
        if parts.scheme != "http":
            raise _RefusedError("400 Bad Request", target, "not a plain http URL", denied=False)
        upstream = await self._connect(parts.hostname or "", parts.port or 80, target)
        path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        kept = [f"{k}: {v}" for k, v in head if k.lower() not in _HOP_BY_HOP]
        lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
        upstream[1].write("\r\n".join(lines).encode("latin-1"))
        await _pipe_both((reader, writer), (_Closing(upstream[0]), upstream[1]))

    async def _connect(
        self, host: str, port: int, target: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reason = f"{host} has no address"
        denied = False
        for address in await self._addresses(host, port, target):
            verdict = self._policy.judge_address(host, address)
            if not verdict.allowed:
                reason, denied = verdict.reason, True
                continue
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port, limit=_CHUNK)
            except (OSError, TimeoutError) as error:
                reason = f"{host} at {address} cannot be reached: {error}"
        raise _RefusedError(
            "403 Forbidden" if denied else "502 Bad Gateway", target, reason, denied=denied
        )

    async def _addresses(self, host: str, port: int, target: str) -> Sequence[str]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await self._resolve(host, port)
        except (OSError, TimeoutError, UnicodeError) as error:
            reason = f"{host} cannot be resolved: {error}"
            raise _RefusedError("502 Bad Gateway", target, reason, denied=False) from error


class _Closing:
    """A response stream whose head says that the connection closes after it.

    Else a browser might send its next request, to whatever host, down the same connection.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._head_done = False

    async def read(self, size: int) -> bytes:
        if self._head_done:
            return await self._reader.read(size)
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self._head_done = True
            return error.partial
        except asyncio.LimitOverrunError:
            raise ConnectionError("the response's head is too long") from None
        status, *fields = head[:-4].split(b"\r\n")
        code = status.partition(b" ")[2][:3]
        if code.startswith(b"1") and code != b"101":
            return head  # An interim response: the real one follows.
        self._head_done = True
        names = (b"connection", b"keep-alive", b"proxy-connection")
        kept = [field for field in fields if field.partition(b":")[0].lower() not in names]
        return b"\r\n".join([status, *kept, b"Connection: close", b"", b""])


_Stream = tuple[asyncio.StreamReader | _Closing, asyncio.StreamWriter]


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, list[tuple[str, str]]]:
    """Returns method, target and header fields of a request."""
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            raw = await reader.readuntil(b"\r\n\r\n")
        request, *fields = raw[:-4].decode("latin-1").split("\r\n")
        method, target, _ = request.split(" ")
        head = [
            (name.strip(), value.strip()) for name, _, value in (f.partition(":") for f in fields)
        ]
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise ConnectionError("no request came") from error
    except (asyncio.LimitOverrunError, ValueError):
        raise _RefusedError("400 Bad Request", "", "no readable request", denied=False) from None
    return method.upper(), target, head


async def _pipe_both(near: _Stream, far: _Stream) -> None:
    """Copies both ways until the far side has ended, or either breaks."""
    upward = asyncio.ensure_future(_pipe(near[0], far[1]))
    try:
        await _pipe(far[0], near[1])
    finally:
        upward.cancel()
        far[1].close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await upward


async def _pipe(reader: asyncio.StreamReader | _Closing, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def _refusal_response(refusal: _RefusedError) -> bytes:
    body = f"webtraj: {refusal.reason}\n".encode()
    return (
        f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


async def _system_resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
