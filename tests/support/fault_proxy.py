"""A proxy that does to HTTP what networks and servers under load do.

    with FaultProxy(server_port) as proxy:
        proxy.inject(Fault(status=503, code="SlowDown"), method="PUT", every=3)
        proxy.inject(Fault(cut_response_after=100), path="episodes/", times=1)
        ... talk to proxy.endpoint ...
        assert [seen.method for seen in proxy.seen] == [...]

It passes bytes through as they are (so signatures stay valid) and reads only as much of HTTP/1.1 as
it takes to tell requests and answers apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any

_CHUNK = 64 << 10
_HEAD = 256 << 10
_E_TAG = re.compile(rb"^etag:[^\r]*", re.IGNORECASE | re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to a request. Sizes are in bytes of the body, times in seconds."""

    status: int | None = None
    """The answer is this status instead."""
    code: str = "InternalError"
    """The S3 error code in that answer."""
    applied: bool = False
    """With `status`: the server did get the request, only its answer is replaced."""
    delay: float = 0.0
    """The answer comes so much later (or never, if the client has gone by then)."""
    refuse: bool = False
    """The connection is reset before anything was passed on."""
    cut_request_after: int | None = None
    """The connection is reset when so much of the request was passed on."""
    cut_response_after: int | None = None
    """The connection ends when so much of the answer was passed on."""
    flip_request_at: int | None = None
    """This byte of the request arrives changed."""
    flip_response_at: int | None = None
    """This byte of the answer arrives changed."""
    e_tag: str | None = None
    """The answer has this ETag instead of its own."""
    bytes_per_second: float | None = None
    """Request and answer are passed on no faster."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    target: str
    headers: dict[str, str]


@dataclasses.dataclass
class Rule:
    """A fault, and which requests it happens to."""

    fault: Fault
    matches: Callable[[Seen], bool]
    every: int
    times: int | None
    matched: int = 0
    injected: int = 0

    def take(self, seen: Seen) -> bool:
        if not self.matches(seen) or (self.times is not None and self.injected >= self.times):
            return False
        self.matched += 1
        if self.matched % self.every:
            return False
        self.injected += 1
        return True


class FaultProxy:
    """A TCP proxy for HTTP/1.1, on a free port, in a thread of its own."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        """Where requests go; may be changed at any time."""
        self.seen: list[Seen] = []
        """Every request so far."""
        self._rules: list[Rule] = []
        self._lock = threading.Condition()
        # Holds the port while nobody listens on it, so that `refuse` can be undone.
        self._holder = _bound_socket(0)
        self.port: int = self._holder.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def inject(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str = "",
        when: Callable[[Seen], bool] = lambda _: True,
        every: int = 1,
        times: int | None = None,
    ) -> Rule:
        """Lets a fault happen to requests; of several rules that match, the first one counts.

        Args:
            fault: What happens.
            method: Only to requests of this method.
            path: Only if this is part of the target (path and query).
            when: Only if this is true.
            every: Only to every so many-th of those.
            times: Only so often; None for always.
        """
        rule = Rule(
            fault,
            lambda seen: method in (None, seen.method) and path in seen.target and when(seen),
            every,
            times,
        )
        with self._lock:
            self._rules.append(rule)
        return rule

    def wait_for(self, count: int, *, method: str | None = None, path: str = "") -> None:
        """Waits until so many such requests have come."""

        def come() -> bool:
            found = [
                seen for seen in self.seen if method in (None, seen.method) and path in seen.target
            ]
            return len(found) >= count

        with self._lock:
            assert self._lock.wait_for(come, timeout=60), f"{count} {method} {path} never came"

    def clear(self) -> None:
        """Forgets all faults."""
        with self._lock:
            self._rules.clear()

    def refuse(self) -> None:
        """Refuses connections, and cuts those that are open, until `accept`."""
        self._run(self._stop_listening())

    def accept(self) -> None:
        """Takes connections again."""
        if self._server is None:
            self._run(self._listen())

    def cut(self) -> None:
        """Cuts all connections that are open."""
        self._run(self._cut())

    def start(self) -> None:
        self._thread.start()
        self._run(self._listen())

    def stop(self) -> None:
        self._run(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._holder.close()

    def __enter__(self) -> FaultProxy:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self) -> None:
        sock = _bound_socket(self.port)
        self._server = await asyncio.start_server(self._accept, sock=sock, limit=_HEAD)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            # A connection that has been accepted, and is set up in the next turns, would be lost
            # by a server that is closed meanwhile: nobody would ever close it.
            for sock in self._server.sockets:
                self._loop.remove_reader(sock.fileno())
            for _ in range(5):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None
        await self._cut()

    async def _finish(self) -> None:
        await self._stop_listening()
        # Connections that were accepted just then have tasks that nobody knows of yet.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(10):  # What was closed lets go of its socket in the next turns.
            await asyncio.sleep(0.001)

    async def _cut(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)

        def forget(task: asyncio.Task[None]) -> None:
            self._connections.discard(task)
            if task.cancelled():  # Before it began: nobody else knows of the writer.
                _reset(writer)

        task.add_done_callback(forget)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: list[asyncio.StreamWriter] = []
        try:
            with contextlib.suppress(_EndError):
                await _Connection(self, reader, writer, upstream).run()
            writer.close()
        except (OSError, asyncio.IncompleteReadError, _CutError):
            _reset(writer)
        except asyncio.CancelledError:
            _reset(writer)  # By `_cut`, which awaits this very end.
        finally:
            for side in upstream:
                _reset(side)

    def _fault(self, seen: Seen) -> Fault:
        with self._lock:
            self.seen.append(seen)
            self._lock.notify_all()
            for rule in self._rules:
                if rule.take(seen):
                    return rule.fault
        return Fault()


class _CutError(Exception):
    """The connection is to be reset."""


class _EndError(Exception):
    """The connection is to end in good order, in the middle of an answer."""


class _Connection:
    """One connection of a client, with its own to the server."""

    def __init__(
        self,
        proxy: FaultProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: list[asyncio.StreamWriter],
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._upstream = upstream

    async def run(self) -> None:
        while True:
            try:
                head = await self._reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            start, headers = _parse(head)
            method, target, _ = start.split(" ", 2)
            fault = self._proxy._fault(Seen(method, target, headers))
            if fault.refuse:
                raise _CutError
            if fault.status is not None and not fault.applied:
                await self._drain_request(headers)
                await self._answer(method, fault)
                continue
            server_reader, answer = await self._forward(head, headers, fault)
            goes_on = await self._return(server_reader, await answer, method, fault)
            if not goes_on or headers.get("connection", "").lower() == "close":
                return

    async def _forward(
        self, head: bytes, headers: dict[str, str], fault: Fault
    ) -> tuple[asyncio.StreamReader, asyncio.Future[bytes]]:
        server_reader, server = await asyncio.open_connection(
            "127.0.0.1", self._proxy.target_port, limit=_HEAD
        )
        self._upstream.append(server)
        server.write(head)
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # The server may answer, and then hang up, before it has read all.
        answer = asyncio.ensure_future(server_reader.readuntil(b"\r\n\r\n"))
        try:
            await _pass_on(
                self._reader,
                server,
                _length(headers),
                cut_after=fault.cut_request_after,
                flip_at=fault.flip_request_at,
                rate=fault.bytes_per_second,
            )
        except BaseException:
            answer.cancel()
            await asyncio.wait([answer])
            raise
        return server_reader, answer

    async def _return(
        self, server_reader: asyncio.StreamReader, head: bytes, method: str, fault: Fault
    ) -> bool:
        """Passes an answer on; returns whether the connection can be used again."""
        start, headers = _parse(head)
        status = int(start.split(" ", 2)[1])
        if status < 200:
            head = await server_reader.readuntil(b"\r\n\r\n")
            return await self._return(server_reader, head, method, fault)
        bodyless = method == "HEAD" or status in (204, 304)
        length = 0 if bodyless else _length(headers, until_close=True)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.status is not None:
            await _pass_on(server_reader, None, length)
            await self._answer(method, fault)
        else:
            if fault.e_tag is not None:
                head = _E_TAG.sub(f'ETag: "{fault.e_tag}"'.encode(), head)
            self._writer.write(head)
            try:
                await _pass_on(
                    server_reader,
                    self._writer,
                    length,
                    cut_after=fault.cut_response_after,
                    flip_at=fault.flip_response_at,
                    rate=fault.bytes_per_second,
                )
            except _CutError:
                # A reset would make the client's system throw away what it has not read yet.
                raise _EndError from None
        # A connection for each request to the server: it may be another one by the next.
        self._upstream.pop().close()
        return length is not None or "chunked" in headers.get("transfer-encoding", "").lower()

    async def _drain_request(self, headers: dict[str, str]) -> None:
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await _pass_on(self._reader, None, _length(headers))

    async def _answer(self, method: str, fault: Fault) -> None:
        if fault.delay and not fault.applied:
            await asyncio.sleep(fault.delay)
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{fault.code}</Code><Message>Injected.</Message></Error>"
        ).encode()
        self._writer.write(
            f"HTTP/1.1 {fault.status} Injected\r\nContent-Type: application/xml\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
        )
        if method != "HEAD":
            self._writer.write(body)
        await self._writer.drain()


async def _pass_on(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter | None,
    length: int | None,
    *,
    cut_after: int | None = None,
    flip_at: int | None = None,
    rate: float | None = None,
) -> None:
    """Passes a body on; `length` is None if it is chunked, or ends with the connection."""
    done = 0
    chunk = _CHUNK if rate is None else max(1, min(_CHUNK, int(rate / 20)))
    ended = _EndOfChunks() if length is None else None
    while length is None or done < length or cut_after == done:
        if cut_after is not None and done >= cut_after:
            if writer is not None:
                await writer.drain()
            raise _CutError
        size = chunk if length is None else min(chunk, length - done)
        if cut_after is not None:
            size = min(size, cut_after - done)
        data = await reader.read(size)
        if not data:
            if length is None:
                return
            raise _CutError
        if flip_at is not None and done <= flip_at < done + len(data):
            changed = bytearray(data)
            changed[flip_at - done] ^= 0x20
            data = bytes(changed)
        done += len(data)
        if writer is not None:
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                writer = None  # Reads the rest nevertheless, so that an answer can be given.
        if rate is not None:
            await asyncio.sleep(len(data) / rate)
        if ended is not None and ended.feed(data):
            return


class _EndOfChunks:
    """Sees where a chunked body ends, assuming that nothing follows it unasked."""

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, data: bytes) -> bool:
        self._tail = (self._tail + data)[-7:]
        return self._tail.endswith(b"\r\n0\r\n\r\n") or self._tail == b"0\r\n\r\n"


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    start, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return start, headers


def _length(headers: dict[str, str], *, until_close: bool = False) -> int | None:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return None
    if "content-length" in headers:
        return int(headers["content-length"])
    return None if until_close else 0


def _bound_socket(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection with a reset, as a crash does."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
