"""A model server's address and key, and one exchange with it, including retries."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import limits, replies
from webtraj.agents.models.limits import Clock, Limits, RetryPolicy, Turn
from webtraj.agents.models.replies import AttemptError
from webtraj.net.hosts import is_loopback
from webtraj.net.http import httpx
from webtraj.settings import credentials

__all__ = [
    "ApiKey",
    "Connections",
    "Endpoint",
    "Exchange",
    "Timing",
    "Transport",
    "fail",
    "parse_base_url",
]

# API keys: secrets that appear in request headers and nowhere else.

_REDACTED = f"<secret:{credentials.KEY_NAME}>"


class ApiKey:
    """An API key that never appears in a repr, log, record or error.

    Replies are passed on unchanged, since an agent acts on them. Records that leave this process
    go through `webtraj.redaction.without_keys`. A dummy key, such as vLLM's `EMPTY`, is not a
    secret and is never replaced (`webtraj.settings.credentials.looks_like_key`).

    Args:
        key: The key. May be empty.
        variable: The environment variable for the key, for messages.
    """

    __slots__ = ("_is_secret", "_key", "variable")

    def __init__(self, key: str, variable: str = "") -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise errors.InvalidInputError(
                f"The API key{f' in {variable}' if variable else ''} has characters that an HTTP "
                "header cannot carry. Use visible ASCII characters without spaces."
            )
        self._key = key
        self._is_secret = credentials.looks_like_key(key)
        self.variable = variable
        credentials.use_key(key)

    @classmethod
    def find(
        cls, key: str | None, variable: str, environment: Mapping[str, str] = os.environ
    ) -> ApiKey:
        """Return the given key, else the one in the environment variable, else an empty key."""
        if key is not None:
            return cls(key, variable)
        return cls(environment.get(variable, "") if variable else "", variable)

    def __bool__(self) -> bool:
        return bool(self._key)

    def __repr__(self) -> str:
        return f"<ApiKey: {'given' if self._key else 'none'}>"

    def reveal(self) -> str:
        """Return the key itself, for a header."""
        return self._key

    def redact(self, text: str) -> str:
        """Remove the key from an error's text: some servers quote it when they refuse."""
        if not self._is_secret:
            return text
        escaped = self._key.replace("/", "\\/")
        return text.replace(self._key, _REDACTED).replace(escaped, _REDACTED)

    def __reduce__(self) -> str:
        raise TypeError("An API key cannot be copied or pickled; make a client where you need one.")


# An HTTP endpoint of a model server: requests go out, answers or `AttemptError`s come back.
#
# Every request has its own connection, taken from the idle ones. httpx's own pool searches all of
# its connections for each request, which with hundreds of them takes longer than the request.

CLOSED = "The model client was closed (aclose). Make a new one."
_CONNECT_TIMEOUT = 10.0
_KEEPALIVE = 60.0
"""Seconds that a connection may stay idle; servers and gateways cut it off eventually."""
_SNIPPET = 200


class Transport(Protocol):
    """Sends a client's requests: an `Endpoint`, or a vendor's SDK. See `Endpoint`."""

    @property
    def url(self) -> str:
        """The address for messages."""

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Any:
        """Send JSON and return the JSON data of the answer."""

    async def get(self, path: str, *, from_root: bool = False) -> Any:
        """Request JSON data."""

    async def status(self, path: str, *, from_root: bool = False) -> int:
        """Return the HTTP status of a path."""

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""


class Endpoint:
    """One server's address, its key, and the connections to it.

    Args:
        base_url: The base of all paths, such as `http://127.0.0.1:8000/v1`.
        key: The API key.
        headers: Headers of every request, including the key's.
        clock: The clock.

    Raises:
        InvalidInputError: The address is invalid, or contains a password.
    """

    def __init__(
        self, base_url: str, key: ApiKey, headers: Mapping[str, str], clock: Clock
    ) -> None:
        address = parse_base_url(base_url)
        # httpx logs the URL of each request; a query, which may hold a key, is added later.
        self._base = address.copy_with(query=None)
        self._key = key
        self._headers = dict(headers)
        self._clock = clock
        # Do not use a proxy for a server on this machine.
        local = is_loopback(self._base.host)
        self._client = httpx.AsyncClient(
            transport=_WholeReplies(address.query),
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT),
            trust_env=not local,
            headers={"user-agent": "webtraj"},
        )

    @property
    def url(self) -> str:
        """The address for messages, without the query, which may hold secrets."""
        return str(self._base).rstrip("/")

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Any:
        """Send JSON and return the JSON data of the answer.

        Raises:
            AttemptError: There is no answer, or not a valid one.
        """
        return await self._request("POST", self._at(path), body, headers)

    async def get(self, path: str, *, from_root: bool = False) -> Any:
        """Request JSON data.

        Args:
            path: The path below the base URL.
            from_root: Whether the path is next to the base URL's `/v1`, like vLLM's `/health`.

        Raises:
            AttemptError: There is no answer, or not a valid one.
        """
        return await self._request("GET", self._at(path, from_root=from_root))

    async def status(self, path: str, *, from_root: bool = False) -> int:
        """Return the HTTP status of a path.

        Raises:
            AttemptError: There is no answer.
        """
        return (await self._send("GET", self._at(path, from_root=from_root))).status_code

    def _at(self, path: str, *, from_root: bool = False) -> httpx.URL:
        base = self._base.path.rstrip("/")
        if from_root:
            base = base.removesuffix("/v1")
        return self._base.copy_with(path=base + path)

    async def _request(
        self,
        method: str,
        url: httpx.URL,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        response = await self._send(method, url, body, headers)
        content = replies.parse_json(response.content)
        if not response.is_success or replies.ServerError.of(content):
            content = replies.parse_json(self._key.redact(response.text).encode())
        elif isinstance(content, str):  # Not JSON, and must not become JSON.
            content = self._key.redact(content)
        shown = str(url)
        failure = replies.failure_of(
            response.status_code,
            response.headers,
            content,
            url=shown,
            key_hint=_key_hint(self._key),
            retry_after=limits.retry_after(response.headers, self._clock),
        )
        if failure is not None:
            raise failure
        if isinstance(content, str):
            raise replies.AttemptError(
                f"{shown} did not answer with JSON: {content[:_SNIPPET]!r}. Check that base_url is "
                "that of a model server.",
                kind="reply",
                response=content,
            )
        return content

    async def _send(
        self,
        method: str,
        url: httpx.URL,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        if self._client.is_closed:
            raise replies.AttemptError(CLOSED, error_class=errors.ModelRefusedError)
        all_headers = {**self._headers, **(headers or {})}
        request = self._client.build_request(method, url, content=body, headers=all_headers)
        try:
            return await self._client.send(request)
        except httpx.HTTPError as error:
            raise self._failure(error, url) from error

    def _failure(self, error: httpx.HTTPError, url: httpx.URL) -> replies.AttemptError:
        shown = str(url)
        detail = self._key.redact(f"{type(error).__name__} {error}".rstrip())
        if isinstance(error, httpx.LocalProtocolError):
            return replies.AttemptError(
                f"The request to {shown} is not valid HTTP: {detail}. Check `headers`.",
                kind="connection",
                error_class=errors.ModelRefusedError,
            )
        if _is_certificate_error(error):
            return replies.AttemptError(
                f"The certificate of {shown} is not trusted: {detail}. Set SSL_CERT_FILE to that "
                "of its authority, or correct base_url.",
                kind="connection",
                error_class=errors.ModelRefusedError,
            )
        return replies.AttemptError(
            f"No answer from {shown}: {detail}. Check that the model server runs there.",
            kind="connection",
        )


class Connections(httpx.AsyncBaseTransport):
    """A pool of connections to one server. The last one used is used first.

    Args:
        query: A query string that is added to every URL. May be empty.
    """

    def __init__(self, query: bytes = b"") -> None:
        self._query = query
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._all: set[httpx.AsyncHTTPTransport] = set()
        self._ssl: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Its connection is free again when the response is closed."""
        if self._query:
            request = httpx.Request(
                request.method,
                request.url.copy_with(query=self._query),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        connection = self._idle.pop() if self._idle else self._open(request.url)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            # It has closed its socket and opens another one next time.
            self._idle.append(connection)
            raise
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        response.stream = _Lent(stream, functools.partial(self._idle.append, connection))
        return response

    def _open(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
        if self._ssl is None:
            # Loading the authorities' certificates is slow, and plain HTTP does not need them.
            secure = url.scheme == "https"
            self._ssl = (
                httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEEPALIVE)
        connection = httpx.AsyncHTTPTransport(verify=self._ssl, limits=limits)
        self._all.add(connection)
        return connection

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        while self._all:
            await self._all.pop().aclose()
        self._idle.clear()


class _Lent(httpx.AsyncByteStream):
    """A response body that returns its connection to the pool when it is closed."""

    def __init__(self, body: httpx.AsyncByteStream, give_back: Callable[[], None]) -> None:
        self._body = body
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            try:
                await self._body.aclose()
            finally:
                give_back()


class _WholeReplies(Connections):
    """Connections that read the body with each response."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await _read(await super().handle_async_request(request))


async def _read(response: httpx.Response) -> httpx.Response:
    """Return a response with its body.

    If the connection breaks after a whole JSON object, the body counts as complete. A retry would
    make the model reply twice.
    """
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
    except httpx.TransportError:
        if not isinstance(replies.parse_json(bytes(body)), dict):
            raise
    finally:
        await response.aclose()
    headers = [item for item in response.headers.multi_items() if item[0] not in _OF_THE_WIRE]
    return httpx.Response(
        response.status_code,
        headers=headers,
        content=bytes(body),
        extensions=response.extensions,
    )


_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")


def parse_base_url(text: str) -> httpx.URL:
    """Return a server's base URL. The values in its query are treated as keys and not recorded.

    Raises:
        InvalidInputError: It is invalid, or contains a password.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise errors.InvalidInputError(
            f"base_url is invalid ({error}); expected one like http://127.0.0.1:8000/v1."
        ) from None
    if url.userinfo:
        # Not quoted: it would show the password.
        raise errors.InvalidInputError(
            f"The base_url of {url.host} contains a user or password, which would end up in logs. "
            "Remove it, and pass the key separately."
        )
    if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > 65535:
        raise errors.InvalidInputError(
            f"base_url is {credentials.conceal(text)!r}; expected one like http://127.0.0.1:8000/v1."
        )
    for value in url.params.values():
        credentials.use_key(value)
    return url if url.path.strip("/") else url.copy_with(path="/v1")


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _key_hint(key: ApiKey) -> str:
    return f"as api_key or in {key.variable}" if key.variable else "as api_key"


# One call of a client: its turn, its attempts, its deadline, and its record.

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)

_PATIENCE = 3
"""The number of failed attempts before a call is logged."""
_TOLD_EVERY = 30.0
"""Seconds between log messages of a client about waiting: all its calls wait together."""
_MOST_TOLD = 500
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclasses.dataclass(slots=True)
class Timing:
    """A call's start, duration and failed attempts. The first attempt's turn starts it."""

    clock: Clock
    start_time: float = dataclasses.field(init=False)
    failed_attempts: list[trajectory_lib.FailedAttempt] = dataclasses.field(default_factory=list)
    _start: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start the call now."""
        self.start_time = self.clock.time()
        self._start = self.clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the call started."""
        return self.clock.monotonic() - self._start

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one attempt, and note it if it fails."""
        start_time, start = self.clock.time(), self.clock.monotonic()
        try:
            yield
        except (AttemptError, asyncio.CancelledError) as error:
            kind, status = "timeout", None  # The call's deadline cancels what is going on.
            if isinstance(error, AttemptError):
                kind, status = error.kind, error.status
            if kind:
                failed = trajectory_lib.FailedAttempt(
                    error=kind,
                    status=status,
                    start_time=start_time,
                    latency=self.clock.monotonic() - start,
                )
                self.failed_attempts.append(failed)
            raise

    def record(self, call: trajectory_lib.ModelCall, **fields: Any) -> trajectory_lib.ModelCall:
        """Return a call's record with its times, failed attempts and other fields."""
        return dataclasses.replace(
            call,
            start_time=self.start_time,
            latency=self.elapsed,
            failed_attempts=tuple(self.failed_attempts),
            **fields,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """How a client makes its calls."""

    limits: Limits
    retries: RetryPolicy
    clock: Clock
    timeout: float | None
    """Seconds for calls without their own timeout; None for no limit."""
    attempt_timeout: float | None
    """Seconds for each attempt; None for no limit except the call's."""
    notices: Notices = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notices", Notices(self.clock))

    async def call(
        self,
        attempt: Callable[[Turn], Awaitable[_T]],
        timing: Timing,
        *,
        timeout: float | None,
        tokens: float,
    ) -> _T:
        """Make attempts until one succeeds.

        Between attempts, the call gives up its slot to other calls.

        Args:
            attempt: Makes one attempt. Raises `AttemptError`.
            timing: Starts when the first attempt has its turn.
            timeout: Seconds for the whole call, instead of the client's own.
            tokens: The estimated tokens of an attempt, for the limit.

        Raises:
            AttemptError: Retrying cannot help, or there is no time or retry left.
        """
        seconds = self.timeout if timeout is None else timeout
        deadline = None if seconds is None else self.clock.monotonic() + seconds
        attempts = 0
        failure: AttemptError | None = None
        try:
            async with asyncio.timeout(seconds) as whole:
                while True:
                    try:
                        async with self.limits.turn(tokens) as turn:
                            if attempts == 0:
                                timing.begin()
                            attempts += 1
                            with timing.attempt():
                                return await self._attempt(attempt, turn)
                    except AttemptError as error:
                        if not error.may_heal:
                            raise
                        failure = error
                    assert failure is not None
                    await self._pause(failure, attempts, deadline)
        except TimeoutError:
            # Timeouts of single attempts were turned into failures.
            assert whole.expired()
            raise _too_late(seconds, failure, attempts) from failure

    async def _attempt(self, attempt: Callable[[Turn], Awaitable[_T]], turn: Turn) -> _T:
        if self.attempt_timeout is None:
            return await attempt(turn)
        try:
            async with asyncio.timeout(self.attempt_timeout) as limit:
                return await attempt(turn)
        except TimeoutError:
            if not limit.expired():
                raise
            raise AttemptError(
                f"The model server did not answer within {self.attempt_timeout:g} s, the limit of "
                "one attempt (attempt_timeout).",
                kind="timeout",
            ) from None

    async def _pause(self, failure: AttemptError, attempts: int, deadline: float | None) -> None:
        """Wait before the next attempt.

        Raises:
            AttemptError: There is no next attempt.
        """
        if attempts > self.retries.max_retries:
            raise _give_up(failure, f"Given up after {attempts} attempts.")
        delay = self.retries.delay(attempts - 1, failure.retry_after, self.clock)
        if deadline is not None and self.clock.monotonic() + delay >= deadline:
            why = f"Given up: the next attempt is due in {delay:.1f} s, after the call's deadline."
            raise _give_up(failure, why)
        if attempts >= _PATIENCE:
            most = self.retries.max_retries + 1
            self.notices.log_wait(failure, delay, f"{attempts} of {most} attempts")
        await self.clock.sleep(delay)


@dataclasses.dataclass(slots=True)
class Notices:
    """Logs that calls wait for the server, when a rollout seems to stand still."""

    clock: Clock
    _last: float = float("-inf")

    def log_wait(self, failure: AttemptError, delay: float, tried: str) -> None:
        """Log why a call waits, unless another message was logged just before."""
        now = self.clock.monotonic()
        if now - self._last < _TOLD_EVERY:
            return
        self._last = now
        said = _CONTROLS.sub("?", str(failure)[:_MOST_TOLD])  # It may be printed to a terminal.
        _logger.warning("%s Trying again in %.0f s (%s failed).", said, delay, tried)


def _give_up(failure: AttemptError, why: str) -> AttemptError:
    last = AttemptError(
        f"{failure} {why}", retry_after=failure.retry_after, response=failure.response
    )
    last.__cause__ = failure.__cause__
    return last


def _too_late(seconds: float | None, failure: AttemptError | None, attempts: int) -> AttemptError:
    if failure is not None:
        before = f"The failure before: {failure}"
    elif attempts:
        before = "The server got the request but did not answer. Increase the timeout."
    else:
        before = "It never got its turn behind other calls. Raise max_concurrency or the timeout."
    message = f"No reply within {seconds:g} s (timeout), in attempt {attempts}. {before}"
    return AttemptError(message, response=failure.response if failure else None)


def fail(
    failure: AttemptError, call: trajectory_lib.ModelCall, timing: Timing
) -> errors.ModelError:
    """Return the error of a failed call, including its record."""
    message = str(failure)
    error = failure.error_class(message)
    error.call = timing.record(call, response=failure.response, error=message)
    error.__cause__ = failure.__cause__
    return error
