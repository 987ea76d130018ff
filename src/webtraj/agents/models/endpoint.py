"""Where a model is asked, by which key, and one exchange with it, attempts included."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from webtraj import credentials, errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import limits, replies
from webtraj.agents.models.limits import Clock, Limits, RetryPolicy, Turn
from webtraj.agents.models.replies import AttemptError
from webtraj.hosts import is_loopback
from webtraj.http import httpx

__all__ = ["ApiKey", "Endpoint", "Exchange", "Timing", "fail"]

# API keys: secrets that go into a request's header, and nowhere else.

_REDACTED = f"<secret:{credentials.KEY_NAME}>"


class ApiKey:
    """A key that shows in no repr, log, record or error.

    Replies are handed on to the letter, since an agent acts on them. What leaves this process in
    records goes through `webtraj.environments.redaction.without_keys`. A dummy, such as vLLM's
    `EMPTY`, is no secret and is not replaced anywhere (`webtraj.credentials.looks_like_key`).

    Args:
        key: The key; empty if there is none.
        variable: The environment variable that it can be given by, for messages.
    """

    __slots__ = ("_is_secret", "_key", "variable")

    def __init__(self, key: str, variable: str = "") -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise errors.InvalidInputError(
                f"The API key{f' in {variable}' if variable else ''} has characters that no HTTP "
                "header can carry; give visible ASCII characters without spaces."
            )
        self._key = key
        self._is_secret = credentials.looks_like_key(key)
        self.variable = variable
        credentials.use_key(key)

    @classmethod
    def find(
        cls, key: str | None, variable: str, environment: Mapping[str, str] = os.environ
    ) -> ApiKey:
        """Return the given key; else that of the environment variable; else an empty one."""
        if key is not None:
            return cls(key, variable)
        return cls(environment.get(variable, "") if variable else "", variable)

    def __bool__(self) -> bool:
        return bool(self._key)

    def __repr__(self) -> str:
        return f"<ApiKey: {'given' if self._key else 'none'}>"

    def reveal(self) -> str:
        """Return the key itself, for the header."""
        return self._key

    def redact(self, text: str) -> str:
        """Return an error's text without the key: some servers quote it when they refuse."""
        if not self._is_secret:
            return text
        escaped = self._key.replace("/", "\\/")
        return text.replace(self._key, _REDACTED).replace(escaped, _REDACTED)

    def __reduce__(self) -> str:
        raise TypeError("An API key is not copied or pickled; make a client where it is needed.")


# An HTTP endpoint of a model server: requests go out, answers or `AttemptError`s come back.
#
# Every request has a connection to itself, taken from those that are idle. httpx's own pool looks
# through all of its connections for each request, which takes longer than the request itself when
# there are hundreds.

CLOSED = "The model client was closed (aclose); make a new one."
_CONNECT_TIMEOUT = 10.0
_KEEPALIVE = 60.0
"""Seconds that a connection may be idle; servers and gateways cut it off sooner or later."""
_SNIPPET = 200


class Endpoint:
    """One server's address, its key, and the connections to it.

    Args:
        base_url: What all paths are relative to, `http://127.0.0.1:8000/v1` for example.
        key: What it is opened with.
        headers: Headers of every request; the key's is among them.
        clock: The time to go by.

    Raises:
        InvalidInputError: The address is none, or has a password in it.
    """

    def __init__(
        self, base_url: str, key: ApiKey, headers: Mapping[str, str], clock: Clock
    ) -> None:
        address = _parse_url(base_url)
        # httpx logs the URL of each request; a query, which may hold a key, is added below that.
        self._base = address.copy_with(query=None)
        for value in address.params.values():
            credentials.use_key(value)
        self._key = key
        self._headers = dict(headers)
        self._clock = clock
        # A server on this machine is not to be looked for behind a proxy.
        local = is_loopback(self._base.host)
        self._client = httpx.AsyncClient(
            transport=_Connections(address.query),
            timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT),
            trust_env=not local,
            headers={"user-agent": "webtraj"},
        )

    @property
    def url(self) -> str:
        """The address, for messages: without a query, which may hold secrets."""
        return str(self._base).rstrip("/")

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()

    async def post(self, path: str, body: bytes) -> Any:
        """Send JSON; returns the JSON data that came back.

        Raises:
            AttemptError: There is no answer, or one that is none.
        """
        return await self._request("POST", self._at(path), body)

    async def get(self, path: str, *, from_root: bool = False) -> Any:
        """Ask for JSON data.

        Args:
            path: Below the base URL.
            from_root: Whether it stands beside the base URL's `/v1`, as vLLM's `/health` does.

        Raises:
            AttemptError: There is no answer, or one that is none.
        """
        return await self._request("GET", self._at(path, from_root=from_root))

    async def status(self, path: str, *, from_root: bool = False) -> int:
        """Return the HTTP status of an address.

        Raises:
            AttemptError: There is no answer.
        """
        return (await self._send("GET", self._at(path, from_root=from_root))).status_code

    def _at(self, path: str, *, from_root: bool = False) -> httpx.URL:
        base = self._base.path.rstrip("/")
        if from_root:
            base = base.removesuffix("/v1")
        return self._base.copy_with(path=base + path)

    async def _request(self, method: str, url: httpx.URL, body: bytes | None = None) -> Any:
        response = await self._send(method, url, body)
        content = replies.parse_json(response.content)
        if not response.is_success or replies.ServerError.of(content):
            content = replies.parse_json(self._key.redact(response.text).encode())
        elif isinstance(content, str):  # Bytes that are no JSON stay none, whatever their text is.
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
                f"{shown} answered what is no JSON: {content[:_SNIPPET]!r}. Check that base_url is "
                "that of a model server.",
                response=content,
            )
        return content

    async def _send(self, method: str, url: httpx.URL, body: bytes | None = None) -> httpx.Response:
        if self._client.is_closed:
            raise replies.AttemptError(CLOSED, error_class=errors.ModelRefusedError)
        request = self._client.build_request(method, url, content=body, headers=self._headers)
        try:
            return await self._client.send(request)
        except httpx.HTTPError as error:
            raise self._failure(error, url) from error

    def _failure(self, error: httpx.HTTPError, url: httpx.URL) -> replies.AttemptError:
        shown = str(url)
        detail = self._key.redact(f"{type(error).__name__} {error}".rstrip())
        if isinstance(error, httpx.LocalProtocolError):
            return replies.AttemptError(
                f"The request to {shown} is no HTTP: {detail}. Check `headers`.",
                error_class=errors.ModelRefusedError,
            )
        if _is_certificate_error(error):
            return replies.AttemptError(
                f"{shown} has no certificate to trust: {detail}. Set SSL_CERT_FILE to its "
                "authority's, or give the right base_url.",
                error_class=errors.ModelRefusedError,
            )
        return replies.AttemptError(
            f"No answer from {shown}: {detail}. Check that the model server runs there."
        )


class _Connections(httpx.AsyncBaseTransport):
    """Connections that are used by one request at a time, the last used first.

    Args:
        query: What is added to the URL of every request; empty if nothing is.
    """

    def __init__(self, query: bytes = b"") -> None:
        self._query = query
        self._idle: list[httpx.AsyncHTTPTransport] = []
        self._all: set[httpx.AsyncHTTPTransport] = set()
        self._ssl: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
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
            await response.aread()
        finally:
            # Whatever went wrong, it has closed its socket and opens another one next time.
            self._idle.append(connection)
        return response

    def _open(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
        if self._ssl is None:
            # Reading the authorities' certificates takes long; plain HTTP needs none.
            secure = url.scheme == "https"
            self._ssl = (
                httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEEPALIVE)
        connection = httpx.AsyncHTTPTransport(verify=self._ssl, limits=limits)
        self._all.add(connection)
        return connection

    async def aclose(self) -> None:
        while self._all:
            await self._all.pop().aclose()
        self._idle.clear()


def _parse_url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise errors.InvalidInputError(
            f"base_url cannot be read ({error}); give one like http://127.0.0.1:8000/v1."
        ) from None
    if url.userinfo:
        # Not quoted: it would show the password.
        raise errors.InvalidInputError(
            f"The base_url of {url.host} has a user or password in it, which would end up in logs; "
            "give the key as api_key."
        )
    if url.scheme not in ("http", "https") or not url.host:
        raise errors.InvalidInputError(
            f"base_url is {credentials.conceal(text)!r}; give one like http://127.0.0.1:8000/v1."
        )
    return url if url.path.strip("/") else url.copy_with(path="/v1")


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _key_hint(key: ApiKey) -> str:
    return f"as api_key or in {key.variable}" if key.variable else "as api_key"


# One call of a client: its turn, its attempts, its one deadline, and the record of how it went.

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)

_PATIENCE = 3
"""Attempts of a call that may fail before anybody is told."""
_TOLD_EVERY = 30.0
"""Seconds in which a client tells no more than once that it is waiting: all its calls wait."""
_MOST_TOLD = 500
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclasses.dataclass(slots=True)
class Timing:
    """When a call was made, and how long it took. It begins with its first attempt's turn."""

    clock: Clock
    start_time: float = dataclasses.field(init=False)
    _start: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Let the call begin now."""
        self.start_time = self.clock.time()
        self._start = self.clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self.clock.monotonic() - self._start


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """How a client makes its calls."""

    limits: Limits
    retries: RetryPolicy
    clock: Clock
    timeout: float | None
    """Seconds for a call that does not bring its own; None for no limit."""
    attempt_timeout: float | None
    """Seconds for each attempt; None for no limit but the call's."""
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

        While it waits between attempts, it leaves its place to other calls.

        Args:
            attempt: Makes one attempt. Raises `AttemptError`.
            timing: Begins when the first attempt has its turn.
            timeout: Seconds for all of it, instead of the client's own.
            tokens: An estimate of what an attempt takes, for the limit.

        Raises:
            AttemptError: No attempt can help, or there is no time or retry left.
        """
        seconds = self.timeout if timeout is None else timeout
        progress = _Progress()
        deadline = None if seconds is None else self.clock.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds) as whole:
                return await self._attempts(attempt, timing, tokens, deadline, progress)
        except TimeoutError:
            # Those of single attempts have become failures.
            assert whole.expired()
            raise _too_late(seconds, progress) from progress.failure

    async def _attempts(
        self,
        attempt: Callable[[Turn], Awaitable[_T]],
        timing: Timing,
        tokens: float,
        deadline: float | None,
        progress: _Progress,
    ) -> _T:
        while True:
            try:
                async with self.limits.turn(tokens) as turn:
                    if progress.attempts == 0:
                        timing.begin()
                    progress.attempts += 1
                    return await self._attempt(attempt, turn)
            except AttemptError as failure:
                if not failure.may_heal:
                    raise
                progress.failure = failure
            await self._pause(progress, deadline)

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
                "one attempt (attempt_timeout)."
            ) from None

    async def _pause(self, progress: _Progress, deadline: float | None) -> None:
        """Wait before the next attempt.

        Raises:
            AttemptError: There is to be none.
        """
        failure = progress.failure
        assert failure is not None
        if progress.attempts > self.retries.max_retries:
            raise _given_up(failure, f"Given up after {progress.attempts} attempts.")
        delay = self.retries.delay(progress.attempts - 1, failure.retry_after, self.clock)
        if deadline is not None and self.clock.monotonic() + delay >= deadline:
            why = f"Given up: the next attempt is due in {delay:.1f} s, after the call's deadline."
            raise _given_up(failure, why)
        if progress.attempts >= _PATIENCE:
            most = self.retries.max_retries + 1
            self.notices.waiting(failure, delay, f"{progress.attempts} of {most} attempts")
        await self.clock.sleep(delay)


@dataclasses.dataclass(slots=True)
class Notices:
    """Tells whoever watches that calls wait for the server: a rollout seems to stand still then."""

    clock: Clock
    _last: float = float("-inf")

    def waiting(self, failure: AttemptError, delay: float, tried: str) -> None:
        """Logs why a call waits, unless that was told just now."""
        now = self.clock.monotonic()
        if now - self._last < _TOLD_EVERY:
            return
        self._last = now
        said = _CONTROLS.sub("?", str(failure)[:_MOST_TOLD])  # It may end up on a terminal.
        _logger.warning("%s Trying again in %.0f s (%s failed).", said, delay, tried)


@dataclasses.dataclass(slots=True)
class _Progress:
    """How far the attempts of a call have got."""

    attempts: int = 0
    failure: AttemptError | None = None


def _given_up(failure: AttemptError, why: str) -> AttemptError:
    last = AttemptError(
        f"{failure} {why}", retry_after=failure.retry_after, response=failure.response
    )
    last.__cause__ = failure.__cause__
    return last


def _too_late(seconds: float | None, progress: _Progress) -> AttemptError:
    failure = progress.failure
    if failure is not None:
        before = f"The failure before it: {failure}"
    elif progress.attempts:
        before = "The server had the request, and has not answered. Give it more time."
    else:
        before = "It never got its turn: other calls had all places. Allow more, or more time."
    message = f"No reply within {seconds:g} s (timeout), in attempt {progress.attempts}. {before}"
    return AttemptError(message, response=failure.response if failure else None)


def fail(
    failure: AttemptError, call: trajectory_lib.ModelCall, timing: Timing
) -> errors.ModelError:
    """Return the error of a call that failed, with the call on record."""
    message = str(failure)
    error = failure.error_class(message)
    error.call = dataclasses.replace(
        call,
        response=failure.response,
        error=message,
        start_time=timing.start_time,
        latency=timing.elapsed,
    )
    error.__cause__ = failure.__cause__
    return error
