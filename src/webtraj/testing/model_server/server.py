"""The server itself: HTTP in its own thread."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Self

import h11
import orjson

from webtraj import errors
from webtraj.environments.bridges import LoopThread
from webtraj.testing.model_server import event_stream, exchange
from webtraj.testing.model_server.exchange import ModelRequest, Reply

__all__ = ["Answer", "FakeModelServer", "HttpThread", "Rule"]

# The fake model server's HTTP, in its own thread.

_HOST = "127.0.0.1"


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A response, possibly broken."""

    status: int
    body: bytes
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut: str = ""


class HttpThread:
    """A thread that answers HTTP requests until it is stopped.

    Args:
        handle: Answers a request. It is cancelled when the client goes away.
        changed: A callback for when a connection opens or closes.
        port: The port; 0 lets the system choose a free one.
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
        self.loop: asyncio.AbstractEventLoop
        self._server: asyncio.Server | None = None
        self._thread = LoopThread(name="fake-model-server", last_call=self._close)

    def start(self) -> None:
        """Start listening. Raise `OSError` if the port is taken."""
        if self._server is not None:
            raise RuntimeError("The server has been started already.")
        try:
            self._thread.run(self._listen)
        except BaseException:
            self._thread.stop()
            raise

    def stop(self) -> None:
        """Cut all connections and stop listening. Idempotent."""
        if self._server is None:
            return
        try:
            self._thread.run(self._close)
        finally:
            self._thread.stop()

    async def _listen(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._not_ours = asyncio.all_tasks()
        self._server = await self.loop.create_server(lambda: _Connection(self), _HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        # Closing a server while asyncio accepts a connection leaks its socket. So stop accepting
        # first. Connections being accepted have a task, and are not ours yet.
        server, self._server = self._server, None
        for listener in () if server is None else server.sockets:
            self.loop.remove_reader(listener.fileno())
        others = {*self._not_ours, asyncio.current_task()}
        while (tasks := asyncio.all_tasks() - others) or self.connections:
            for connection in self.connections:
                connection.abort()
            await asyncio.wait([*tasks, *(connection.lost for connection in self.connections)])
        if server is not None:
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
        if answer.cut in ("within", "stall"):
            self._send(h11.Data(data=answer.body[: len(answer.body) // 2]))
            if answer.cut == "stall":
                return
            # Sends buffered data before closing.
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


# The fake model server: its replies and its memory of requests.

Rule = Callable[[ModelRequest], "str | Reply"]
"""A function from request to reply. It runs in the server's thread and must not block."""

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class FakeModelServer:
    """A fake model server with scripted replies.

    Args:
        replies: A rule, or replies to give in order, after which requests are refused. By default
            it echoes the last message's text.
        models: The models that it serves, LoRA adapters included.
        vendor: The vendor to imitate: `vllm`, or `openai`, which refuses unknown fields. Both also
            answer Anthropic's messages, OpenAI's Responses, and the paths of Azure, Bedrock and
            Vertex.
        api_key: The key that requests must have; None accepts any or none.
        max_model_len: The model's context length in tokens; None for no limit.
        weight_version: The version of the weights, as vLLM reports it.

    Attributes:
        url: The base URL for clients, `/v1` included.
        requests: The requests for replies, in order of arrival.
        visits: The paths of all requests.
        errors: Exceptions of the rule, and malformed requests. The fixture fails a test that leaves
            any.
        overrides: Fixed replies by path: `{"/health": Reply.error(503)}`.
        peak: The highest number of concurrent requests.
    """

    def __init__(
        self,
        replies: Rule | Sequence[str | Reply] | None = None,
        *,
        models: Sequence[str] = ("fake-model",),
        vendor: Literal["vllm", "openai"] = "vllm",
        api_key: str | None = None,
        max_model_len: int | None = None,
        weight_version: str = "1",
    ) -> None:
        self.models = tuple(models)
        self.vendor = vendor
        self.api_key = api_key
        self.max_model_len = max_model_len
        self.weight_version = weight_version
        self.requests: list[ModelRequest] = []
        self.visits: list[str] = []
        self.errors: list[Exception] = []
        self.overrides: dict[str, Reply] = {}
        self.peak = 0
        self._script: collections.deque[str | Reply] = collections.deque()
        self._rule: Rule = _echo
        if callable(replies):
            self._rule = replies
        elif replies is not None:
            self._script.extend(replies)
            self._rule = _refuse
        self._busy = 0
        self._port = 0
        self._http: HttpThread | None = None
        self._changed = threading.Condition()
        self._paused = False
        self._running = asyncio.Event()

    def start(self) -> None:
        """Start listening, at the same address as before."""
        if self._http is None:
            # Each start has its own event loop, and so its own event.
            self._running = asyncio.Event()
            self._set_running()
            http = HttpThread(self._handle, self._notify, self._port)
            http.start()
            self._http, self._port = http, http.port

    def stop(self) -> None:
        """Cut all connections and refuse new ones. Idempotent."""
        http, self._http = self._http, None
        if http is not None:
            http.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL, `/v1` included."""
        if not self._port:
            raise errors.EnvironmentMisuseError(
                "The fake model server has no address yet; use it as `with FakeModelServer():`, or "
                "call `start` first."
            )
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def busy(self) -> int:
        """The number of unanswered requests."""
        return self._busy

    @property
    def num_connections(self) -> int:
        """The number of open connections."""
        return len(self._http.connections) if self._http else 0

    def script(self, *replies: str | Reply) -> None:
        """Add replies to give in order, before the rule is used."""
        self._script.extend(replies)

    def pause(self) -> None:
        """Hold all requests from now on."""
        self._paused = True
        self._in_thread(self._set_running)

    def resume(self) -> None:
        """End a pause."""
        self._paused = False
        self._in_thread(self._set_running)

    def wait_until(
        self, condition: Callable[[FakeModelServer], bool], timeout: float = 30.0
    ) -> None:
        """Wait until a condition holds, such as `lambda server: server.busy == 3`.

        This blocks; an asynchronous test awaits `until`.

        Raises:
            TimeoutError: The condition does not hold in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise TimeoutError(
                    f"The condition did not hold within {timeout:g} s; the fake model server has "
                    f"{len(self.requests)} requests, {self._busy} of them unanswered, and "
                    f"{self.num_connections} connections."
                )

    async def until(
        self, condition: Callable[[FakeModelServer], bool], timeout: float = 30.0
    ) -> None:
        """Wait until a condition holds. See `wait_until`."""
        await asyncio.to_thread(self.wait_until, condition, timeout)

    def _set_running(self) -> None:
        if self._paused:
            self._running.clear()
        else:
            self._running.set()

    def _in_thread(self, action: Callable[[], None]) -> None:
        if self._http is None:
            action()
        else:
            self._http.loop.call_soon_threadsafe(action)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _handle(self, request: ModelRequest) -> Answer:
        with self._changed:
            self.visits.append(request.path)
            if request.api:
                self.requests.append(request)
            self._busy += 1
            self.peak = max(self.peak, self._busy)
            self._changed.notify_all()
        try:
            await self._running.wait()
            return await self._answer(request)
        except Exception as error:
            self.errors.append(error)
            message = f"The fake model server's rule raised {type(error).__name__}: {error}"
            return _json(400, exchange.error(400, {"message": message}))
        finally:
            self._busy -= 1
            self._notify()

    async def _answer(self, request: ModelRequest) -> Answer:
        reply = self.overrides.get(request.path) or self._reply(request)
        if not isinstance(reply, Reply):
            return _json(200, reply)
        if reply.delay == math.inf:
            await asyncio.Event().wait()
        elif reply.delay > 0:
            await asyncio.sleep(reply.delay)
        plain = reply.body is not None or reply.failure is not None
        kind = _JSON if plain or not _is_streamed(request) else _EVENTS
        headers = {**kind, **reply.headers}
        return Answer(reply.status, self._body(request, reply), headers, reply.cut)

    def _body(self, request: ModelRequest, reply: Reply) -> bytes:
        if reply.body is not None:
            return reply.body
        if reply.failure is not None:
            shape = exchange.anthropic_error if request.api == "messages" else exchange.error
            return orjson.dumps(shape(reply.status, reply.failure))
        whole = self._whole(request, reply)
        if whole is None:
            return reply.text.encode()
        if _is_streamed(request):
            return b"".join(event_stream.events(request, whole))
        return orjson.dumps(whole)

    def _whole(self, request: ModelRequest, reply: Reply) -> dict[str, Any] | None:
        number = len(self.requests)
        match request.api:
            case "messages":
                return exchange.anthropic_message(request, reply, number)
            case "responses":
                return exchange.response(request, reply, number)
            case "chat":
                like_vllm = self.vendor == "vllm"
                return exchange.chat_completion(request, reply, number, like_vllm=like_vllm)
        return None

    def _reply(self, request: ModelRequest) -> Reply | dict[str, Any]:
        """Return a reply, or JSON data for requests about the server's own state."""
        is_vllm = self.vendor == "vllm"
        if request.method == "POST" and request.api:
            return self._refusal(request) or self._next_reply(request)
        match request.method, request.path:
            case "GET", "/v1/models":
                return {"object": "list", "data": [self._model_card(name) for name in self.models]}
            case "GET", "/health" if is_vllm:
                return Reply(headers={"content-type": "text/plain"})
            case "GET", "/version" if is_vllm:
                return {"version": "0.32.0"}
            case "GET", "/weight_info" if is_vllm:
                return {"weight_version": self.weight_version}
            case "POST", "/update_weight_version" if is_vllm:
                self.weight_version = str(request.json["new_version"])
                return {"success": True, "new_version": self.weight_version}
        return Reply.error(404, "Not Found", type="NotFoundError")

    def _next_reply(self, request: ModelRequest) -> Reply:
        reply = self._script.popleft() if self._script else self._rule(request)
        return Reply(reply) if isinstance(reply, str) else reply

    def _refusal(self, request: ModelRequest) -> Reply | None:
        body = request.json
        names = ("x-api-key", "api-key", "authorization")
        given = next((value for name in names if (value := request.headers.get(name))), "")
        if self.api_key is not None and given.removeprefix("Bearer ") != self.api_key:
            message = f"Incorrect API key provided: {given}."
            return Reply.error(401, message, code="invalid_api_key", type="authentication_error")
        if request.model not in self.models:
            message = f"The model `{request.model}` does not exist."
            return Reply.error(404, message, type="NotFoundError", param="model")
        if self.vendor == "openai" and request.api == "chat":
            unknown = sorted(set(body) - exchange.OPENAI_FIELDS)
            if unknown:
                message = f"Unrecognized request argument supplied: {', '.join(unknown)}"
                return Reply.error(400, message, code="unknown_parameter", param=unknown[0])
        if self.max_model_len is not None:
            return self._overflow(request, self.max_model_len)
        return None

    def _overflow(self, request: ModelRequest, limit: int) -> Reply | None:
        length = len(exchange.prompt_ids(request))
        if length < limit:
            return None
        if request.api == "messages":
            return Reply.error(400, f"prompt is too long: {length} tokens > {limit} maximum")
        message = (
            f"This model's maximum context length is {limit} tokens. However, your prompt contains "
            f"{length} input tokens. Please reduce the length of the input prompt."
        )
        if self.vendor == "vllm":
            return Reply.error(400, message, type="BadRequestError", param="input_tokens")
        code = "context_length_exceeded"
        return Reply.error(400, message, type="invalid_request_error", code=code, param="messages")

    def _model_card(self, name: str) -> dict[str, Any]:
        owner = "vllm" if self.vendor == "vllm" else "system"
        card: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": owner}
        if self.vendor == "vllm":
            card |= {"root": name, "parent": None, "max_model_len": self.max_model_len}
        return card


def _json(status: int, data: Any) -> Answer:
    return Answer(status, orjson.dumps(data), _JSON)


def _is_streamed(request: ModelRequest) -> bool:
    return bool(request.api and request.json.get("stream"))


def _echo(request: ModelRequest) -> str:
    return request.text


def _refuse(request: ModelRequest) -> Reply:
    return Reply.error(400, "The script of this fake model server has no more replies.")
