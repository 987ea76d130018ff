"""The gateway: a local endpoint that forwards model calls, and records each.

The agent's request goes to the server behind, with its headers; the reply comes back byte by byte
as it arrives. Only vLLM is asked for more than the agent asks for (token ids, log-probabilities,
usage), which its reply loses again on the way back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
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
from webtraj.agents.models.endpoint import Connections
from webtraj.agents.models.openai import OPENAI_URL
from webtraj.agents.models.replies import ServerError
from webtraj.gateway import dialects
from webtraj.gateway.dialects import DIALECTS, Dialect, Extras
from webtraj.gateway.journal import Journal, RecordedCall
from webtraj.net import local_pages
from webtraj.net.hosts import is_loopback
from webtraj.net.http import httpx
from webtraj.redaction.redactor import without_keys
from webtraj.settings import credentials

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Gateway", "Observer", "upstreams_of"]

_LOGGER = logging.getLogger(__name__)

_PATH: Final = re.compile(r"(?:/run/(?P<run>[\w.-]{1,100}))?(?:/v1)?(?P<path>/.*)")
_NOT_FORWARDED: Final = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te",
        b"trailer", b"transfer-encoding", b"upgrade", b"host", b"content-length",
        b"accept-encoding", b"date", b"server",
    }
)  # fmt: skip
"""Headers of a connection, not of a message, and those that each end sets itself."""
_KEYS: Final = (b"authorization", b"x-api-key", b"api-key")
_CONNECT: Final = 10.0
_FIRST: Final = 5.0
"""Seconds that the gateway waits for the server when it starts."""
_EVENT: Final = re.compile(rb"\r?\n\r?\n")

Observer = Callable[[RecordedCall], None]
"""Is told each call when it begins, and again when it has ended."""


def upstreams_of(given: Mapping[Dialect | str, str] | str | None) -> dict[Dialect, str]:
    """Return the base URL for each API.

    Args:
        given: One URL for all, or a URL for each API. By default those of the vendors; Responses
            go where chat completions go.

    Raises:
        InvalidInputError: An API is unknown.
    """
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
        base_urls: Where calls go; see `upstreams_of`.
        host: The address to listen at.
        port: The port; 0 for a free one.
        observer: Is told each call.
    """

    def __init__(
        self,
        journal: str | os.PathLike[str],
        *,
        base_urls: Mapping[Dialect | str, str] | str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        observer: Observer | None = None,
    ) -> None:
        urls = upstreams_of(base_urls)
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
        """Return `OPENAI_BASE_URL` for agents; `run` marks the calls made with it."""
        return f"{self.anthropic_url(run)}/v1"

    def anthropic_url(self, run: str = "") -> str:
        """Return `ANTHROPIC_BASE_URL` for agents; `run` marks the calls made with it."""
        return f"{self.url}/run/{run}" if run else self.url

    async def __aenter__(self) -> Self:
        try:
            import uvicorn  # noqa: F401
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ImportError as error:
            raise local_pages.missing("The gateway") from error
        async with contextlib.AsyncExitStack() as stack:
            self._journal = Journal(self._path)
            stack.callback(self._journal.close)
            for upstream in self._upstreams.values():
                stack.push_async_callback(upstream.client.aclose)
            stack.push_async_callback(self._all_ended)
            app = Starlette(routes=[Route("/{path:path}", _Application(self._answer))])
            served = local_pages.serving_programs(
                app, what="The gateway", host=self._host, port=self._port
            )
            self.url = await stack.enter_async_context(served)
            # Sending the first request takes longest; an agent's should not.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST):
                    await self._by_dialect["openai"].is_vllm([])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    # One request.

    async def _all_ended(self) -> None:
        """Wait until the ends of the requests that the server has cancelled are recorded."""
        if self._answering:
            await asyncio.wait(set(self._answering), timeout=_FIRST)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        body = await _body_of(receive)
        if body is None:
            return
        found = _PATH.fullmatch(scope["path"])
        assert found is not None, "A path begins with a slash."
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
        request = _object(body) if dialect else None
        if dialect is None or request is None:
            await _until_gone(exchange.forward(send), receive)
            return
        if dialect == "openai" and _is_strict(body) and await upstream.is_vllm(headers):
            exchange.ask_for_more(request)
        begun = {
            "call": secrets.token_hex(8),
            "at": exchange.at,
            "run": run,
            "connection": "{}:{}".format(*scope["client"] or ("", 0)),
            "dialect": dialect,
            "provider": "vllm" if upstream.vllm and dialect == "openai" else dialect,
            "request": without_keys(request),
        }
        self._record(begun, begun, None)
        try:
            if not await _until_gone(exchange.forward(send), receive):
                exchange.fail("timeout", "The agent closed the connection before the reply ended.")
        except asyncio.CancelledError:
            exchange.fail("connection", "The gateway was stopped before the reply ended.")
            raise
        finally:
            ended = without_keys({"call": begun["call"], **exchange.told(dialect)})
            self._record(ended, begun, ended)

    def _record(
        self, line: Mapping[str, Any], begun: Mapping[str, Any], ended: Mapping[str, Any] | None
    ) -> None:
        self._journal.append(line)
        if self._observer is not None:
            try:
                self._observer(RecordedCall.of(begun, ended))
            except Exception:  # It must not break the agent's call.
                _LOGGER.exception("A model call could not be joined to steps.")


class _Application:
    """An ASGI application, which Starlette's routes tell from a function by its class."""

    def __init__(self, answer: ASGIApp) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


class _Upstream:
    """A model server behind the gateway."""

    def __init__(self, base_url: str) -> None:
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise errors.InvalidInputError(
                f"Invalid base URL {base_url!r:.200}: {error}."
            ) from None
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise errors.InvalidInputError(
                f"Invalid base URL {credentials.conceal(base_url)!r:.200}: expected one like "
                "http://127.0.0.1:8000/v1, without a user or password."
            )
        self.url = url.copy_with(path=url.path.rstrip("/") or "/v1")
        self.vllm: bool | None = False if url.host == "api.openai.com" else None
        """Whether it is vLLM; None while that is not known."""
        self._asking = asyncio.Lock()
        self.client = httpx.AsyncClient(
            transport=Connections(),
            timeout=httpx.Timeout(None, connect=_CONNECT),
            trust_env=not is_loopback(url.host),
        )

    def at(self, path: str, query: bytes = b"") -> httpx.URL:
        """Return the URL of a path below the base URL."""
        return self.url.copy_with(path=self.url.path + path, query=query or self.url.query or None)

    async def is_vllm(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Return whether it is vLLM: its models are owned by "vllm"."""
        async with self._asking:
            if self.vllm is None:
                known = [(name, value) for name, value in headers if name in _KEYS]
                try:
                    async with asyncio.timeout(_FIRST):
                        answer = await self.client.get(self.at("/models"), headers=known)
                except TimeoutError:
                    self.vllm = False  # It does not say, and calls must not wait for it again.
                    return False
                except httpx.HTTPError:
                    return False  # Asked again with the next call, as after a missing key.
                if answer.status_code in (200, 404):
                    models = (_object(answer.content) or {}).get("data")
                    models = models if isinstance(models, list) else []
                    owners = [model.get("owned_by") for model in models if isinstance(model, dict)]
                    self.vllm = "vllm" in owners
            return bool(self.vllm)


class _Exchange:
    """A request to the server behind, and what came back."""

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
        self._failure = self._error = ""

    def ask_for_more(self, request: Mapping[str, Any]) -> None:
        """Ask for all that vLLM can tell of a call."""
        more, self._extras = dialects.asked_for_more(request)
        self._body = orjson.dumps(more)

    def fail(self, failure: str, error: str) -> None:
        """Note that there is no whole reply, unless that is known."""
        self._failure, self._error = self._failure or failure, self._error or error
        self._ended = self._ended or time.monotonic()

    async def forward(self, send: Send) -> None:
        """Send the request, and pass the reply on while it arrives."""
        began = False
        try:
            request = self._send(headers=self._headers, content=self._body)
            response = await self._upstream.client.send(request, stream=True)
            async with contextlib.aclosing(response):
                self._status = response.status_code
                kind = response.headers.get("content-type", "")
                self._is_stream = kind.startswith("text/event-stream")
                decoded = "content-encoding" in response.headers
                changed = decoded or self._extras is not None
                dropped = {*_NOT_FORWARDED, b"content-encoding"} if decoded else _NOT_FORWARDED
                length = () if changed else (b"content-length",)
                headers = [
                    (name.lower(), value)
                    for name, value in response.headers.raw
                    if name.lower() not in dropped or name.lower() in length
                ]
                parts = response.aiter_bytes() if decoded else response.aiter_raw()
                if self._extras is None:
                    parts = self._kept(parts)
                elif self._is_stream:
                    parts = self._events(self._kept(parts), self._extras)
                else:
                    parts = self._whole(self._kept(parts), self._extras)
                start = {"type": "http.response.start", "status": self._status, "headers": headers}
                await send(start)
                began = True
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            self._ended = time.monotonic()
            await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:
            what = f"{type(error).__name__} {error}".rstrip()
            self.fail("reply" if began else "connection", f"No whole reply by the server: {what}")
            if began:
                # The server cuts the agent's connection, as the gateway's was, and is quiet.
                raise asyncio.CancelledError from error
            said = orjson.dumps({"error": {"message": self._error, "type": "gateway_error"}})
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 502, "headers": headers})
            await send({"type": "http.response.body", "body": said})

    async def _kept(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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

    @staticmethod
    async def _whole(parts: AsyncIterator[bytes], extras: Extras) -> AsyncIterator[bytes]:
        body = b"".join([part async for part in parts])
        told = _object(body)
        yield body if told is None else orjson.dumps(extras.without(told))

    def told(self, dialect: Dialect) -> dict[str, Any]:
        """Return the end of the call, for the journal."""
        body = b"".join(self._received)
        response: Any = None
        if 200 <= self._status < 300 and self._is_stream:
            try:
                response, error = dialects.assembled(dialect, body)
            except (AttributeError, LookupError, TypeError, ValueError) as failure:
                response = body.decode("utf-8", "replace")
                error = f"The stream is not one of the API: {type(failure).__name__} {failure}"
            if error:
                self.fail("reply", error)
            elif response is not None:
                self._failure = self._error = ""  # It is whole, whoever hung up after it.
        elif body:
            response = _object(body) or body.decode("utf-8", "replace")
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
    """Return whose API a request is of, if only to know where it goes."""
    for prefix, dialect in DIALECTS.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return dialect
    return "anthropic" if any(name == b"anthropic-version" for name, _ in headers) else "openai"


def _object(body: bytes) -> dict[str, Any] | None:
    """Return a body that is a JSON object; None for any other."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        try:  # Python's own JSON has halves of characters, too.
            text = json.dumps(json.loads(body), ensure_ascii=False)
            data = orjson.loads(text.encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return data if isinstance(data, dict) else None


def _is_strict(body: bytes) -> bool:
    """Return whether a body means the same when it is written again."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


async def _body_of(receive: Receive) -> bytes | None:
    """Return a request's body; None if its client goes away before the end."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


async def _until_gone(work: Any, receive: Receive) -> bool:
    """Do the work unless the client goes away first; return whether it was done."""
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
