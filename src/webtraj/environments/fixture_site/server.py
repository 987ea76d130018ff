"""A small HTTP/1.1 server on asyncio and h11, for pages that come with webtraj."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import h11

from webtraj.environments.fixture_site.messages import Request, Response
from webtraj.environments.local_server import LocalServer

__all__ = ["Handle", "HttpServer", "serve"]

_CHUNK = 64 * 1024

Handle = Callable[[Request], Response]
"""Answers a request. It must not block."""


async def serve(handle: Handle, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection, until either side ends it."""
    try:
        await _Connection(reader, writer, handle).serve()
    except (ConnectionError, h11.RemoteProtocolError):
        pass  # The browser went away, or never spoke HTTP.
    finally:
        writer.transport.abort()


class HttpServer:
    """Answers requests from `async with` to its end, at 127.0.0.1, on a port that is free."""

    def __init__(self, handle: Handle) -> None:
        self._server = LocalServer(functools.partial(serve, handle))

    @property
    def origin(self) -> str:
        """Scheme, host and port: `http://127.0.0.1:41234`."""
        return f"http://{self._server.address}"

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._server.stop()


class _Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Handle,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._protocol = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        while request := await self._request():
            response = self._handle(request)
            if not await self._answer(request, response):
                return
            if self._protocol.our_state is not h11.DONE:
                break
            with contextlib.suppress(h11.LocalProtocolError):
                self._protocol.start_next_cycle()
                continue
            break
        self._writer.close()
        await self._writer.wait_closed()

    async def _request(self) -> Request | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            match await self._event():
                case h11.Request() as head:
                    pass
                case h11.Data() as data:
                    body += data.data
                case h11.EndOfMessage() if head is not None:
                    headers = {
                        name.decode("latin-1").lower(): value.decode("latin-1")
                        for name, value in head.headers
                    }
                    target = head.target.decode("latin-1")
                    return Request.parse(head.method.decode(), target, headers, bytes(body))
                case _:
                    return None

    async def _event(self) -> Any:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_CHUNK))
        return event

    async def _answer(self, request: Request, response: Response) -> bool:
        """Sends an answer; returns whether the connection is still whole."""
        if response.delay:
            await asyncio.sleep(response.delay)
        if response.fault == "hang":
            await self._reader.read()  # Until the browser gives up, or the server closes.
            return False
        headers = [
            ("content-type", response.content_type),
            ("content-length", str(len(response.body))),
            ("cache-control", response.cache),
            *response.headers,
        ]
        self._send(h11.Response(status_code=response.status, headers=headers))
        if response.fault == "cut":
            self._send(h11.Data(data=response.body[: len(response.body) // 2]))
            await self._writer.drain()
            return False
        if request.method != "HEAD":
            self._send(h11.Data(data=response.body))
        self._send(h11.EndOfMessage())
        await self._writer.drain()
        return True

    def _send(self, event: Any) -> None:
        data = self._protocol.send(event)
        if data:
            self._writer.write(data)
