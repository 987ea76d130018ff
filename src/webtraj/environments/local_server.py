"""A small HTTP/1.1 server on asyncio and h11, for pages that come with webtraj.

`LocalServer` answers each connection in a task of its own. `serve` answers the requests of one
connection, including one handed over by a browser's proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import ssl
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from email import message_from_bytes, policy
from http import cookies
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

import h11

from webtraj.net.hosts import is_mine

__all__ = [
    "Answer",
    "Handle",
    "HttpServer",
    "LocalServer",
    "Request",
    "Response",
    "UploadedFile",
    "json_answer",
    "see_other",
    "serve",
]

_CHUNK = 64 * 1024

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""A connection handler; the connection is closed when it returns."""


class LocalServer:
    """A server on a port of 127.0.0.1, from `start` to `stop` or the end of its event loop.

    On Linux, connections of other users of the machine are dropped.

    Unlike this class, `asyncio.start_server` with a coroutine function leaks connections whose task
    is cancelled or whose peer does not read to the end. It also leaks the listening socket if the
    start is cancelled or nobody stops the server.

    Args:
        answer: Answers a connection.
        port: The port; 0 for a free one.
        tls: The context of a server for TLS.
    """

    def __init__(self, answer: Answer, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()

    @property
    def address(self) -> str:
        """Host and port: `127.0.0.1:41234`."""
        assert self._server is not None, "The server has not been started."
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    async def start(self) -> None:
        """Start listening.

        Raises:
            OSError: The port is taken.
        """
        server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._port, limit=_CHUNK, ssl=self._tls, start_serving=False
        )
        try:
            await server.start_serving()
        except BaseException:
            server.close()
            raise
        self._server = server
        # A task that ends only when cancelled, as all tasks are when their loop ends.
        self._keep(asyncio.Event().wait(), self._cut)

    async def stop(self) -> None:
        """Stop listening and cut all connections. Idempotent."""
        self._cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():
            writer.transport.abort()  # Accepted while the server was closing.
            return
        ends = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        if is_mine(*ends) is False:
            writer.transport.abort()
            return
        self._transports.add(writer.transport)
        self._keep(self._answer(reader, writer), writer.close)

    def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for transport in list(self._transports):
            transport.abort()  # Closing one would wait for its peer to read what is left.

    def _keep(self, work: Coroutine[Any, Any, Any], close: Callable[[], None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: close())


# Requests and responses.


@dataclasses.dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file in a form."""

    name: str
    content: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A decoded HTTP request."""

    method: str
    path: str
    query: Mapping[str, str]
    """The first value of each parameter."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""

    @classmethod
    def parse(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Return the request with these HTTP parts."""
        parts = urlsplit(target)
        return cls(method, parts.path, _first_values(parts.query), headers, body)

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies; empty if the header cannot be read."""
        jar = cookies.SimpleCookie()
        try:
            jar.load(self.headers.get("cookie", ""))
        except cookies.CookieError:
            return {}
        return {name: morsel.value for name, morsel in jar.items()}

    @property
    def form(self) -> dict[str, str]:
        """The first value of each field of an urlencoded form."""
        return _first_values(self.body.decode("utf-8", "replace"))

    @property
    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: The body is not JSON.
        """
        return json.loads(self.body)

    @property
    def files(self) -> list[UploadedFile]:
        """The files of a multipart form."""
        head = f"Content-Type: {self.headers.get('content-type', '')}\r\n\r\n".encode()
        message = message_from_bytes(head + self.body, policy=policy.HTTP)
        files = []
        for part in message.iter_parts():
            name, content = part.get_filename(), part.get_payload(decode=True)
            if name and isinstance(content, bytes):
                files.append(UploadedFile(name, content))
        return files


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response, with optional faults."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    headers: Sequence[tuple[str, str]] = ()
    cache: str = "no-store"
    """The header `Cache-Control`."""
    delay: float = 0.0
    """Seconds to delay the response."""
    fault: Literal["", "cut", "hang"] = ""
    """`cut` breaks the connection in mid-body; `hang` never answers."""


def see_other(location: str, *headers: tuple[str, str]) -> Response:
    """Return a redirect to show after a form was posted (303)."""
    return Response(status=303, headers=(("location", location), *headers))


def json_answer(value: Any) -> Response:
    """Return a JSON response."""
    return Response(body=json.dumps(value).encode(), content_type="application/json")


def _first_values(query: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}


# HTTP.


Handle = Callable[[Request], Response]
"""A request handler. It must not block."""


async def serve(handle: Handle, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection, until either side ends it."""
    try:
        await _Connection(reader, writer, handle).serve()
    except (ConnectionError, h11.RemoteProtocolError):
        pass  # The browser disconnected, or did not speak HTTP.
    finally:
        writer.transport.abort()


class HttpServer(LocalServer):
    """An HTTP server on a free port of 127.0.0.1, for the duration of an `async with`."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(functools.partial(serve, handle))

    @property
    def origin(self) -> str:
        """Scheme, host and port: `http://127.0.0.1:41234`."""
        return f"http://{self.address}"


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
        """Send a response; return whether the connection is still usable."""
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
