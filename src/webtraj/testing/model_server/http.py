"""The fake model server's HTTP: it listens, and answers, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Awaitable, Callable, Mapping

import h11

from webtraj.testing.model_server.exchange import ModelRequest

__all__ = ["Answer", "HttpThread"]

_HOST = "127.0.0.1"


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A response, or less than that."""

    status: int
    body: bytes
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut: str = ""


class HttpThread:
    """Answers requests until it is stopped.

    Args:
        handle: Gives the answer to a request. It is cancelled when the client goes away.
        changed: Is called when a connection has come or gone.
        port: The port; 0 has the system choose a free one.
    """

    def __init__(
        self,
        handle: Callable[[ModelRequest], Awaitable[Answer]],
        changed: Callable[[], None],
        port: int,
    ) -> None:
        self.handle = handle
        self.changed = changed
        self.port = port
        self.connections: set[_Connection] = set()
        self.loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._error: BaseException | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake-model-server", daemon=True)

    def start(self) -> None:
        """Returns when it listens. Raises `OSError` if the port is taken."""
        self._thread.start()
        self._listening.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Cuts all connections and stops listening."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self.loop.close()
            self._listening.set()

    async def _serve(self) -> None:
        server = await self.loop.create_server(lambda: _Connection(self), _HOST, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        # A server that is closed while asyncio accepts a connection loses its socket. So it accepts
        # no more first. Those that are just being accepted have a task, and are none of ours yet.
        for listener in server.sockets:
            self.loop.remove_reader(listener.fileno())
        own = {asyncio.current_task()}
        while (tasks := asyncio.all_tasks() - own) or self.connections:
            for connection in self.connections:
                connection.abort()
            await asyncio.wait([*tasks, *(connection.lost for connection in self.connections)])
        server.close()


class _Connection(asyncio.Protocol):
    def __init__(self, owner: HttpThread) -> None:
        self._owner = owner
        self._h11 = h11.Connection(h11.SERVER)
        self._head: h11.Request | None = None
        self._body: list[bytes] = []
        self.task: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[None] = owner.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.connections.add(self)
        self._owner.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connections.discard(self)
        self.lost.set_result(None)
        if self.task is not None:
            self.task.cancel()
        self._owner.changed()

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._h11.receive_data(data)
            self._next_events()
        except h11.RemoteProtocolError:
            self.abort()

    def _next_events(self) -> None:
        while True:
            match self._h11.next_event():
                case h11.Request() as head:
                    self._head = head
                    self._body = []
                case h11.Data() as data:
                    self._body.append(bytes(data.data))
                case h11.EndOfMessage():
                    self.task = self._owner.loop.create_task(self._answer(self._request()))
                    return
                case h11.ConnectionClosed():
                    self._transport.close()
                    return
                case _:
                    return

    def _request(self) -> ModelRequest:
        assert self._head is not None
        path, _, query = self._head.target.decode("latin-1").partition("?")
        return ModelRequest(
            method=self._head.method.decode(),
            path=path,
            query=query,
            headers={name.decode(): value.decode("latin-1") for name, value in self._head.headers},
            body=b"".join(self._body),
        )

    async def _answer(self, request: ModelRequest) -> None:
        answer = await self._owner.handle(request)
        self.task = None
        if answer.cut == "before":
            self.abort()
            return
        headers = [*answer.headers.items(), ("content-length", str(len(answer.body)))]
        self._send(h11.Response(status_code=answer.status, headers=headers))
        if answer.cut == "within":
            self._send(h11.Data(data=answer.body[: len(answer.body) // 2]))
            # Sends what it has before it goes.
            self._transport.close()
            return
        self._send(h11.Data(data=answer.body))
        self._send(h11.EndOfMessage())
        with contextlib.suppress(h11.LocalProtocolError):
            self._h11.start_next_cycle()
            self._next_events()
            return
        self._transport.close()

    def _send(self, event: h11.Event) -> None:
        if data := self._h11.send(event):
            self._transport.write(data)
