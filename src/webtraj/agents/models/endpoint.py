"""An HTTP endpoint of a model server: requests go out, answers or `AttemptError`s come back.

Every request has a connection to itself, taken from those that are idle. httpx's own pool looks
through all of its connections for each request, which takes longer than the request itself when
there are hundreds.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from webtraj import credentials, errors
from webtraj.agents.models import failures, retries
from webtraj.agents.models.clock import Clock
from webtraj.agents.models.keys import ApiKey
from webtraj.hosts import is_loopback
from webtraj.http import httpx

__all__ = ["Endpoint"]

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
        """Closes all connections. Idempotent."""
        await self._client.aclose()

    async def post(self, path: str, body: bytes) -> Any:
        """Sends JSON; returns the JSON data that came back.

        Raises:
            AttemptError: There is no answer, or one that is none.
        """
        return await self._request("POST", self._at(path), body)

    async def get(self, path: str, *, from_root: bool = False) -> Any:
        """Asks for JSON data.

        Args:
            path: Below the base URL.
            from_root: Whether it stands beside the base URL's `/v1`, as vLLM's `/health` does.

        Raises:
            AttemptError: There is no answer, or one that is none.
        """
        return await self._request("GET", self._at(path, from_root=from_root))

    async def status(self, path: str, *, from_root: bool = False) -> int:
        """Returns the HTTP status of an address.

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
        content = failures.parse_json(response.content)
        if not response.is_success or failures.ServerError.of(content):
            content = failures.parse_json(self._key.redact(response.text).encode())
        elif isinstance(content, str):  # Bytes that are no JSON stay none, whatever their text is.
            content = self._key.redact(content)
        shown = str(url)
        failure = failures.failure_of(
            response.status_code,
            response.headers,
            content,
            url=shown,
            key_hint=_key_hint(self._key),
            retry_after=retries.retry_after(response.headers, self._clock),
        )
        if failure is not None:
            raise failure
        if isinstance(content, str):
            raise failures.AttemptError(
                f"{shown} answered what is no JSON: {content[:_SNIPPET]!r}. Check that base_url is "
                "that of a model server.",
                response=content,
            )
        return content

    async def _send(self, method: str, url: httpx.URL, body: bytes | None = None) -> httpx.Response:
        if self._client.is_closed:
            raise failures.AttemptError(CLOSED, error_class=errors.ModelRefusedError)
        request = self._client.build_request(method, url, content=body, headers=self._headers)
        try:
            return await self._client.send(request)
        except httpx.HTTPError as error:
            raise self._failure(error, url) from error

    def _failure(self, error: httpx.HTTPError, url: httpx.URL) -> failures.AttemptError:
        shown = str(url)
        detail = self._key.redact(f"{type(error).__name__} {error}".rstrip())
        if isinstance(error, httpx.LocalProtocolError):
            return failures.AttemptError(
                f"The request to {shown} is no HTTP: {detail}. Check `headers`.",
                error_class=errors.ModelRefusedError,
            )
        if _is_certificate_error(error):
            return failures.AttemptError(
                f"{shown} has no certificate to trust: {detail}. Set SSL_CERT_FILE to its "
                "authority's, or give the right base_url.",
                error_class=errors.ModelRefusedError,
            )
        return failures.AttemptError(
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
