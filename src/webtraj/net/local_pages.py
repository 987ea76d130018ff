"""Web pages served on this machine, for their user and no one else.

The viewer is such an application; this module decides which requests reach it (`webtraj.net.hosts`
parses hosts), adds the security headers, and serves it at an address of this machine for as long as
a context lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
import socket
import urllib.parse
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.net.hosts import (
    LOOPBACK,
    host_of,
    is_address,
    is_loopback,
    is_mine,
    knows_owners,
    netloc,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = [
    "DEFAULT_PORT",
    "HEADERS",
    "Guard",
    "OnlyPrograms",
    "listen",
    "missing_libraries",
    "open_privately",
    "served",
    "serving",
    "serving_programs",
]

# Access: only requests to this address, with the token.
#
# Any page open in a browser can send requests to this machine. So:
#
# * the Host header must be an address or a name of this machine: foreign names can be made to
#   resolve here (DNS rebinding);
# * requests by pages of other sites to `/api/` and `/static/` are refused, based on the origin
#   headers that browsers send;
# * requests need the token, since every user of the machine reaches the address. It comes once, in
#   the URL that the page's command prints, and from then on in a cookie that no script can read.
#
# The headers of answers allow the page to run, load and request only its own files, since the data
# shown was written by strangers.

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_CACHE_CONTROL = b"cache-control"
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (_CACHE_CONTROL, b"no-store"),
)
"""Headers of every answer, except `cache-control` where the application sets it."""

_SAFE = ("GET", "HEAD")


class Guard:
    """ASGI middleware that refuses requests the application must not answer.

    Args:
        app: The application. Its `/api/` and `/static/` are for its own pages.
        what: Its name in refusals, such as "The viewer".
        command: The command that printed its URL.
        hosts: The host names it answers to, without ports, in lower case.
        any_address: Whether it also answers to any numeric address.
        methods: The methods it answers; None leaves that to the application.
        token: The required token: once as `?token=`, then in a cookie.
        cookie: The cookie's name.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        what: str,
        command: str,
        hosts: frozenset[str],
        any_address: bool = False,
        methods: frozenset[str] | None = None,
        token: str,
        cookie: str = "webtraj",
    ) -> None:
        self._app = app
        self._what = what
        self._printed = f"open the URL that `{command}` printed"
        self._hosts = hosts
        self._any_address = any_address
        self._methods = methods
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request or pass it to the application."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":  # No websockets here.
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_closed(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                cached = any(name == _CACHE_CONTROL for name, _ in given)
                closed = [pair for pair in HEADERS if not (cached and pair[0] == _CACHE_CONTROL)]
                message["headers"] = [*given, *closed]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._find_refusal(scope, headers)
        if refused is not None:
            await _refuse(send_closed, *refused)
        elif self._has_cookie(headers.get(b"cookie", "")):
            await self._app(scope, receive, send_closed)
        elif self._has_token(scope):
            await _let_in(send_closed, f"{self._cookie}={self._token}")
        else:
            why = f"{self._what} needs its token: {self._printed}, the whole of it."
            await _refuse(send_closed, 401, why)

    def _find_refusal(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Return the status and reason of a refusal, other than for a missing token."""
        host = headers.get(b"host", "")
        if not self._is_ours(host_of(host)):
            return 421, f"{self._what} only answers at its own address: {self._printed}."
        if not _is_own(scope, headers, host):
            return 403, f"{self._what} does not answer other sites' pages."
        if self._methods is not None and scope["method"] not in self._methods:
            methods = " and ".join(sorted(self._methods))
            return 405, f"{self._what} only accepts {methods} requests."
        return None

    def _is_ours(self, name: str) -> bool:
        return name in self._hosts or (self._any_address and is_address(name))

    def _has_token(self, scope: Scope) -> bool:
        if scope["method"] not in _SAFE or scope["path"].startswith("/api/"):
            return False
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"))
        return self._matches(query.get("token", [""])[-1])

    def _has_cookie(self, cookies: str) -> bool:
        for part in cookies.split(";"):  # A strict parser stops at some sites' cookies.
            name, _, value = part.strip().partition("=")
            if name == self._cookie and self._matches(value):
                return True
        return False

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _is_own(scope: Scope, headers: dict[bytes, str], host: str) -> bool:
    """Return whether a request comes from one of the application's own pages, or from no page."""
    origin = headers.get(b"origin")
    if origin is not None and _netloc_of(origin) != host.lower():
        return False
    # Other sites may link to the page, but not use it.
    asks = scope["path"].startswith(("/api/", "/static/")) or scope["method"] not in _SAFE
    return not asks or headers.get(b"sec-fetch-site") in (None, "same-origin", "none")


def _netloc_of(origin: str) -> str:
    try:
        return urllib.parse.urlsplit(origin).netloc.lower()
    except ValueError:  # It is not a URL.
        return ""


class OnlyPrograms:
    """ASGI middleware that admits programs of this user, and programs that know the token.

    Clients of such servers send no password, so the kernel is asked who owns the connection. If the
    kernel cannot tell, or if others can reach the address, the token is the first part of the path.
    Web pages are refused in any case: their requests carry `Origin`, or a foreign `Host`.

    Args:
        app: The application.
        host: The address it is served at.
        token: The token.
    """

    def __init__(self, app: ASGIApp, *, host: str, token: str) -> None:
        self._app = app
        self._alone = is_loopback(host)
        self._hosts = {*LOOPBACK, host.lower(), socket.gethostname().lower()}
        self._prefix = f"/{token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        name = host_of(headers.get(b"host", b"").decode("latin-1"))
        known = name in self._hosts or (not self._alone and is_address(name))
        given, path = scope["path"][: len(self._prefix)], scope["path"][len(self._prefix) :]
        if b"origin" in headers or not known:
            await self._refuse(scope, send, 403, b"Web pages have no access.\n")
        elif hmac.compare_digest(given.encode(), self._prefix.encode()) and path[:1] in ("", "/"):
            await self._app(
                {**scope, "path": path or "/", "raw_path": path.encode()}, receive, send
            )
        elif self._alone and is_mine(scope["client"], scope["server"]):
            await self._app(scope, receive, send)
        else:
            await self._refuse(scope, send, 401, b"Use the whole address that was printed.\n")

    @staticmethod
    async def _refuse(scope: Scope, send: Send, status: int, why: bytes) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": why})


@contextlib.asynccontextmanager
async def serving_programs(
    app: ASGIApp, *, what: str, host: str, port: int | None, **config: Any
) -> AsyncIterator[str]:
    """Serve an application to programs for as long as the context lasts. See `OnlyPrograms`.

    Args:
        app: The application.
        what: Its name, such as "The MCP server".
        host: The address to listen at.
        port: The port; 0 for a free one.
        **config: Settings for uvicorn.

    Yields:
        The URL for clients, without a final slash. It includes the token if clients need it.

    Raises:
        InvalidInputError: The address cannot be listened at.
    """
    token = secrets.token_urlsafe(24)
    with contextlib.closing(listen(what, host, port)) as listener:
        guarded = OnlyPrograms(app, host=host, token=token)
        async with served(guarded, listener, **{"lifespan": "on", **config}):
            address = netloc(_EVERYWHERE.get(host, host), listener.getsockname()[1])
            free = is_loopback(host) and knows_owners()
            yield f"http://{address}" + ("" if free else f"/{token}")


async def _let_in(send: Send, cookie: str) -> None:
    jar = f"{cookie}; HttpOnly; SameSite=Lax; Path=/"  # Links in reports lead here.
    headers = [(b"location", b"/"), (b"set-cookie", jar.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, why: str) -> None:
    body = orjson.dumps({"error": why})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# Serving a page at an address of this machine, until its context ends.

DEFAULT_PORT = 8640
"""The port of a page if none is given."""

_STARTED = 0.01
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen at that cannot be opened, and the addresses to open instead."""


def missing_libraries(what: str) -> errors.MissingDependencyError:
    """Return the error to raise if a page's libraries are not installed.

    Args:
        what: The page's name, such as "The viewer".
    """
    return errors.missing_dependency(f"{what} needs starlette and uvicorn", "web")


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    host: str,
    port: int | None,
    token: str | None,
    what: str,
    command: str,
    cookie: str,
    methods: frozenset[str] | None = None,
) -> AsyncIterator[str]:
    """Serve an application behind a guard for as long as the context lasts.

    Args:
        app: The application.
        host: The address to listen at.
        port: The port; 0 lets the system choose a free one. None means `DEFAULT_PORT`, so that the
            address is the same each time, or a free port if `DEFAULT_PORT` is taken.
        token: The required token; None makes a new one.
        what: The page's name in refusals, such as "The viewer".
        command: The command that prints its URL.
        cookie: The start of its cookie's name. The port is appended: browsers share cookies among
            the ports of a host.
        methods: The methods it answers; None leaves that to the application.

    Yields:
        The URL to open, with the token.

    Raises:
        InvalidInputError: It cannot listen there, or the token is too short to be safe.
        MissingDependencyError: uvicorn is not installed.
    """
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise missing_libraries(what) from error
    alone = is_loopback(host)
    token = secrets.token_urlsafe(24) if token is None else token
    if not _TOKEN.fullmatch(token):
        raise errors.InvalidInputError(
            "Invalid token: expected at least 16 characters of A-Z a-z 0-9 _ -. Leave it out to "
            "have one made."
        )
    with contextlib.closing(listen(what, host, port)) as listener:
        port = listener.getsockname()[1]
        names = {*LOOPBACK, host.lower()} | (set() if alone else {socket.gethostname().lower()})
        guard = Guard(
            app,
            what=what,
            command=command,
            hosts=frozenset(names),
            any_address=not alone,
            methods=methods,
            token=token,
            cookie=f"{cookie}-{port}",
        )
        async with served(guard, listener, ws="none", lifespan="off"):
            shown = netloc(_EVERYWHERE.get(host, host), port)
            yield f"http://{shown}/?token={token}"


@contextlib.asynccontextmanager
async def served(app: ASGIApp, listener: socket.socket, **config: Any) -> AsyncIterator[None]:
    """Serve an application at a socket for as long as the context lasts.

    Args:
        app: The application.
        listener: The listening socket. Left open.
        **config: Settings for uvicorn.
    """
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            **config,
        )
    )
    logging.getLogger("uvicorn.error").addFilter(_is_error)
    # The caller handles signals and cancels this.
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
    running = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if running.done():
                running.result()
                raise errors.InvalidInputError("The server ended before it had started.")
            await asyncio.sleep(_STARTED)
        yield
    finally:
        server.should_exit = True
        await asyncio.shield(running)


def _is_error(record: logging.LogRecord) -> bool:
    """Return False for a log record of a request that was cancelled when the server stopped."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def listen(what: str, host: str, port: int | None) -> socket.socket:
    """Return a listening socket. Clients that connect before it is served have to wait."""
    if port is None:
        with contextlib.suppress(errors.InvalidInputError):
            return listen(what, host, DEFAULT_PORT)
        port = 0
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # `getaddrinfo` changes a port that is too large; `bind` refuses it.
            listener.bind((address[0], port, *address[2:]))
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise errors.InvalidInputError(
            f"{what} cannot listen on {host!r:.100}, port {port}: {errors.reason(error)}. Choose "
            "an address of this machine and a free port; port 0 finds one."
        ) from error
    return listener


def open_privately(url: str) -> None:
    """Open a URL with a token in the user's browser.

    Every user of the machine sees the arguments of a browser's process. So the browser gets the
    path of a file that only this user can read and that leads to the URL. The file is deleted when
    this process ends.
    """
    import atexit
    import html
    import shutil
    import tempfile
    import webbrowser
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix="webtraj-open-"))  # For this user alone.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    target = html.escape(url)
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">'
        f'<a href="{target}">Open the page</a>',
        encoding="utf-8",
    )
    webbrowser.open(page.as_uri())
