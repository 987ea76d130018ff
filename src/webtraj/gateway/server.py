"""A local endpoint that forwards model calls and records them.

Requests go to the model's server with the agent's headers, and replies come back unchanged while
they arrive. From vLLM, the gateway also requests token ids, log-probabilities and usage; what the
agent did not request is removed from its reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import secrets
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import orjson

from webtraj import errors
from webtraj.agents.models.anthropic import ANTHROPIC_URL
from webtraj.agents.models.endpoint import Connections, parse_base_url
from webtraj.agents.models.openai import OPENAI_URL
from webtraj.agents.models.replies import ServerError, parse_json
from webtraj.gateway import dialects
from webtraj.gateway.dialects import DIALECTS, Dialect, Extras
from webtraj.gateway.journal import Journal, RecordedCall
from webtraj.net import local_pages
from webtraj.net.hosts import is_loopback
from webtraj.net.http import httpx
from webtraj.redaction.redactor import without_keys
from webtraj.settings import credentials

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["Gateway", "Observer"]

_LOGGER = logging.getLogger(__name__)

_PATH: Final = re.compile(r"(?:/run/(?P<run>[\w.-]{1,100}))?(?:/v1)?(?P<path>/.*)")
_NOT_FORWARDED: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"host", b"content-length",
        b"accept-encoding", b"date", b"server",
    }
)  # fmt: skip
"""Headers of a connection, and those that the gateway's own client and server set."""
_KEYS: Final = (b"authorization", b"x-api-key", b"api-key")
_CONNECT: Final = 10.0
_WAIT: Final = 5.0
"""Seconds to wait for a server's list of models, and for cancelled calls to end."""
_EVENT: Final = re.compile(rb"\r?\n\r?\n")

Observer = Callable[[RecordedCall], None]
"""Called with each call when it begins, and again when it ends."""


def _complete(given: Mapping[str, str] | str | None) -> dict[Dialect, str]:
    """Return the base URL for each API. See `Gateway`."""
    if isinstance(given, str):
        return dict.fromkeys(DIALECTS.values(), given)
    urls = dict(given or {})
    if unknown := sorted(set(urls) - {*DIALECTS.values()}):
        raise errors.InvalidInputError(
            f"Unknown API {unknown[0]!r:.50}; expected one of {', '.join(DIALECTS.values())}."
        )
    openai = urls.get("openai", OPENAI_URL)
    return {
        "openai": openai,
        "responses": urls.get("responses", openai),
        "anthropic": urls.get("anthropic", ANTHROPIC_URL),
    }


class Gateway:
    """An endpoint on this machine that forwards model calls and records them in a journal.

    ```python
    async with Gateway("runs/calls.jsonl", base_urls="http://127.0.0.1:8000/v1") as gateway:
        os.environ["OPENAI_BASE_URL"] = gateway.openai_url()
        ...
    ```

    Args:
        journal: The file of the journal; see `read_calls`.
        base_urls: One URL for all APIs, or one for each of `openai`, `responses` and `anthropic`.
            By default, calls go to the vendors; `responses` defaults to the URL of `openai`.
        host: The address to listen at.
        port: The port; 0 for a free one.
        observer: Called with each call when it begins, and again when it ends.

    Raises:
        InvalidInputError: An API is unknown, or a URL is invalid.
    """

    def __init__(
        self,
        journal: str | os.PathLike[str],
        *,
        base_urls: Mapping[str, str] | str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        observer: Observer | None = None,
    ) -> None:
        urls = _complete(base_urls)
        self._upstreams = {url: _Upstream(url) for url in set(urls.values())}
        self._by_dialect = {dialect: self._upstreams[url] for dialect, url in urls.items()}
        self._path = journal
        self._host, self._port = host, port
        self._answering: set[asyncio.Task[Any]] = set()
        self._observer = observer
        self._stack = contextlib.AsyncExitStack()
        self._journal: Journal
        self.url = ""
        """The address, with the token if clients need it."""

    def openai_url(self, run: str = "") -> str:
        """Return the `OPENAI_BASE_URL` for agents. `run` labels the calls made with it."""
        return f"{self.anthropic_url(run)}/v1"

    def anthropic_url(self, run: str = "") -> str:
        """Return the `ANTHROPIC_BASE_URL` for agents. `run` labels the calls made with it."""
        return f"{self.url}/run/{run}" if run else self.url

    async def __aenter__(self) -> Self:
        try:
            import uvicorn  # noqa: F401
        except ImportError as error:
            raise local_pages.missing_libraries("The gateway") from error
        async with contextlib.AsyncExitStack() as stack:
            self._journal = Journal(self._path)
            stack.callback(self._journal.close)
            for upstream in self._upstreams.values():
                stack.push_async_callback(upstream.client.aclose)
            stack.push_async_callback(self._wait_for_calls)
            served = local_pages.serving_programs(
                self._answer,
                what="The gateway",
                host=self._host,
                port=self._port,
                lifespan="off",
                ws="none",
            )
            self.url = await stack.enter_async_context(served)
            # Connect now, so that the agent's first call is not slower than the others.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WAIT):
                    await self._by_dialect["openai"].is_vllm([])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # One request.

    async def _wait_for_calls(self) -> None:
        """Wait until the calls that were cancelled when the server ended are recorded."""
        if self._answering:
            await asyncio.wait(set(self._answering), timeout=_WAIT)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        body = await _body_of(receive)
        if body is None:
            return
        found = _PATH.fullmatch(scope["path"])
        if found is None:  # `OPTIONS *`, or a line break.
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        run, path = found["run"] or "", found["path"]
        headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_FORWARDED]
        for name, value in headers:
            if name in _KEYS or credentials.is_secret_name(name.decode("latin-1"), hints=True):
                credentials.use_key((value.decode("latin-1").split() or [""])[-1])
        for name, text in urllib.parse.parse_qsl(scope["query_string"].decode("latin-1")):
            if name == "key" or credentials.is_secret_name(name, hints=True):
                credentials.use_key(text)
        upstream = self._by_dialect[_dialect_of(path, headers)]
        exchange = _Exchange(upstream, scope["method"], path, scope["query_string"], headers, body)
        dialect = DIALECTS.get(path) if scope["method"] == "POST" else None
        request, is_plain = _read(body) if dialect else (None, False)
        if dialect is None or not isinstance(request, dict):
            await _until_gone(exchange.forward(send), receive)
            return
        if dialect == "openai" and is_plain and await upstream.is_vllm(headers):
            exchange.request_extras(request)
        begun = {
            "call": secrets.token_hex(8),
            "at": exchange.at,
            "run": run,
            "dialect": dialect,
            "provider": "vllm" if upstream.vllm and dialect == "openai" else dialect,
            "request": without_keys(request),
        }
        self._record(begun)
        try:
            if not await _until_gone(exchange.forward(send), receive):
                exchange.fail("timeout", "The agent closed the connection before the reply ended.")
        except asyncio.CancelledError:
            exchange.fail("connection", "The gateway was stopped before the reply ended.")
            raise
        finally:
            self._record(begun, without_keys({"call": begun["call"], **exchange.result(dialect)}))

    def _record(self, begun: Mapping[str, Any], ended: Mapping[str, Any] | None = None) -> None:
        self._journal.append(ended or begun)
        if self._observer is not None:
            try:
                self._observer(RecordedCall.of(begun, ended))
            except Exception:  # It must not break the agent's call.
                _LOGGER.exception("The observer of model calls failed.")


class _Upstream:
    """The model server that calls are forwarded to."""

    def __init__(self, base_url: str) -> None:
        url = parse_base_url(base_url)
        self.url = url.copy_with(path=url.path.rstrip("/"))
        self.vllm: bool | None = False if url.host == "api.openai.com" else None
        """Whether it is vLLM; None while unknown. One that does not answer in time is not."""
        self._checking = asyncio.Lock()
        self.client = httpx.AsyncClient(
            transport=Connections(),
            timeout=httpx.Timeout(None, connect=_CONNECT),
            trust_env=not is_loopback(url.host),
        )

    def at(self, path: str, query: bytes = b"") -> httpx.URL:
        """Return the URL of a path below the base URL."""
        return self.url.copy_with(path=self.url.path + path, query=query or self.url.query or None)

    async def is_vllm(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Return whether the server is vLLM: the owner of its models is "vllm"."""
        async with self._checking:
            if self.vllm is None:
                known = [(name, value) for name, value in headers if name in _KEYS]
                try:
                    async with asyncio.timeout(_WAIT):
                        answer = await self.client.get(self.at("/models"), headers=known)
                except TimeoutError:
                    self.vllm = False  # Do not make the next calls wait, too.
                    return False
                except httpx.HTTPError:
                    return False  # Check again with the next call, as after a missing key.
                if answer.status_code in (200, 404):
                    listed = parse_json(answer.content)
                    models = listed.get("data") if isinstance(listed, dict) else None
                    models = models if isinstance(models, list) else []
                    owners = [model.get("owned_by") for model in models if isinstance(model, dict)]
                    self.vllm = "vllm" in owners
            return bool(self.vllm)


class _Exchange:
    """A forwarded request and its reply."""

    def __init__(
        self,
        upstream: _Upstream,
        method: str,
        path: str,
        query: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> None:
        url = upstream.at(path, query)
        self._upstream = upstream
        self._send = functools.partial(httpx.Request, method, url)
        self._headers = [*headers, (b"accept-encoding", b"identity")]
        self._body = body
        self._extras: Extras | None = None
        self.at = time.time()
        self._began = time.monotonic()
        self._ended = self._first = 0.0
        self._status = 0
        self._is_stream = False
        self._received: list[bytes] = []
        self._data: Any = None
        """The whole body, if it was parsed to be forwarded."""
        self._failure = self._error = ""

    def request_extras(self, request: Mapping[str, Any]) -> None:
        """Request token ids, log-probabilities and usage from vLLM, too."""
        extended, self._extras = dialects.with_extras(request)
        self._body = orjson.dumps(extended)

    def fail(self, failure: str, error: str) -> None:
        """Note why there is no complete reply. The first reason counts."""
        self._failure, self._error = self._failure or failure, self._error or error
        self._ended = self._ended or time.monotonic()

    async def forward(self, send: Send) -> None:
        """Send the request, and forward the reply while it arrives."""
        began = False
        try:
            request = self._send(headers=self._headers, content=self._body)
            response = await self._upstream.client.send(request, stream=True)
            async with contextlib.aclosing(response):
                self._status = response.status_code
                kind = response.headers.get("content-type", "")
                self._is_stream = kind.startswith("text/event-stream")
                decoded = "content-encoding" in response.headers
                dropped = set(_NOT_FORWARDED)
                if decoded:
                    dropped.add(b"content-encoding")
                elif self._extras is None:
                    dropped.remove(b"content-length")
                headers = [
                    (name.lower(), value)
                    for name, value in response.headers.raw
                    if name.lower() not in dropped
                ]
                parts = self._keep_parts(
                    response.aiter_bytes() if decoded else response.aiter_raw()
                )
                if self._extras is not None:
                    without_extras = self._events if self._is_stream else self._whole
                    parts = without_extras(parts, self._extras)
                start = {"type": "http.response.start", "status": self._status, "headers": headers}
                await send(start)
                began = True
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            self._ended = time.monotonic()
            await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:
            what = f"{type(error).__name__} {error}".rstrip()
            self.fail("reply" if began else "connection", f"No complete reply: {what}")
            if began:
                # uvicorn then cuts the agent's connection, and logs nothing.
                raise asyncio.CancelledError from error
            content = orjson.dumps({"error": {"message": self._error, "type": "gateway_error"}})
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 502, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    async def _keep_parts(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            self._first = self._first or time.monotonic()
            self._received.append(part)
            yield part

    @staticmethod
    async def _events(parts: AsyncIterator[bytes], extras: Extras) -> AsyncIterator[bytes]:
        rest = b""
        async for part in parts:
            *events, rest = _EVENT.split(rest + part)
            if whole := b"".join(extras.without_in_event(event + b"\n\n") for event in events):
                yield whole
        if rest:
            yield rest

    async def _whole(self, parts: AsyncIterator[bytes], extras: Extras) -> AsyncIterator[bytes]:
        body = b"".join([part async for part in parts])
        self._data, is_plain = _read(body)
        can_change = is_plain and isinstance(self._data, dict)
        yield orjson.dumps(extras.without(self._data)) if can_change else body

    def result(self, dialect: Dialect) -> dict[str, Any]:
        """Return the call's result for the journal."""
        body = b"".join(self._received)
        response: Any = None
        if 200 <= self._status < 300 and self._is_stream:
            try:
                response, error = dialects.assemble(dialect, body)
            except (AttributeError, LookupError, TypeError, ValueError) as failure:
                response = body.decode("utf-8", "replace")
                error = f"The stream is not in the API's format: {type(failure).__name__} {failure}"
            if error:
                self.fail("reply", error)
            elif response is not None:
                self._failure = self._error = ""  # The agent may hang up after the last event.
        elif body:
            data = parse_json(body) if self._data is None else self._data
            response = body.decode("utf-8", "replace") if data is None else data
            failed = ServerError.of(response)
            if self._status >= 300 or (failed and response.get("error")):
                self.fail("status", f"HTTP {self._status}: {failed or body[:200]!r}")
        elif self._status >= 300:
            self.fail("status", f"HTTP {self._status}")
        return {
            "latency": (self._ended or time.monotonic()) - self._began,
            "first_byte": self._first and self._first - self._began,
            "status": self._status,
            "response": response,
            "failure": self._failure,
            "error": self._error,
        }


def _dialect_of(path: str, headers: list[tuple[bytes, bytes]]) -> Dialect:
    """Return the API of a request, which decides where it is forwarded to."""
    for prefix, dialect in DIALECTS.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return dialect
    return "anthropic" if any(name == b"anthropic-version" for name, _ in headers) else "openai"


def _read(body: bytes) -> tuple[Any, bool]:
    """Return a body's data, and whether it survives rewriting, which NaN for example would not."""
    try:
        return orjson.loads(body), True
    except orjson.JSONDecodeError:
        return parse_json(body), False


async def _body_of(receive: Receive) -> bytes | None:
    """Return a request's body; None if the client disconnects before its end."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


async def _until_gone(work: Any, receive: Receive) -> bool:
    """Do the work unless the client disconnects first; return whether it was done."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
