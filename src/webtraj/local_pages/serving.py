"""Serving a page: at an address of this machine, until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from webtraj import errors
from webtraj.hosts import LOOPBACK, is_loopback, netloc
from webtraj.local_pages.guard import Guard

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["missing", "serving"]

_STARTED = 0.01
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that are listened at and cannot be opened, and what to open instead."""


def missing(what: str) -> errors.MissingDependencyError:
    """Returns what to raise where a page's libraries are not installed.

    Args:
        what: What the page is called, such as "The viewer".
    """
    return errors.missing_dependency(f"{what} needs starlette and uvicorn", "web")


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    token: str | None,
    what: str,
    command: str,
    cookie: str,
    methods: frozenset[str] | None = None,
) -> AsyncIterator[str]:
    """Serves an application, behind a guard, for as long as the context lasts.

    Args:
        app: The application.
        host: The address to listen at.
        port: The port; 0 has the system choose one that is free.
        token: What who looks must have. None is none for an address of this machine alone, and a
            new one for any other.
        what: What it is called where something is refused, such as "The viewer".
        command: The command that prints its URL.
        cookie: What the name of its cookie begins with. The port comes after: browsers share
            cookies among the ports of a host.
        methods: The methods that it may be asked by; None leaves that to the application.

    Yields:
        The URL to open, with the token.

    Raises:
        InvalidInputError: It cannot listen there, or the token is too short to keep anyone out.
        MissingDependencyError: uvicorn is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise missing(what) from error
    alone = is_loopback(host)
    if token is None and not alone:
        token = secrets.token_urlsafe(24)
    if token is not None and not _TOKEN.fullmatch(token):
        raise errors.InvalidInputError(
            "A token has at least 16 characters of A-Z a-z 0-9 _ -; leave it out, and one is made "
            "where it is needed."
        )
    with contextlib.closing(_listen(what, host, port)) as listener:
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
        server = uvicorn.Server(
            uvicorn.Config(
                guard,
                http="h11",
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
        )
        # Signals are for who serves: they cancel this.
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if running.done():
                    running.result()
                    raise errors.InvalidInputError("The server ended before it had begun.")
                await asyncio.sleep(_STARTED)
            shown = netloc(_EVERYWHERE.get(host, host), port)
            yield f"http://{shown}/" + (f"?token={token}" if token else "")
        finally:
            server.should_exit = True
            await asyncio.shield(running)


def _listen(what: str, host: str, port: int) -> socket.socket:
    """Returns a socket that listens there: who comes before it is served waits."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # `getaddrinfo` makes another port of one that is too large; `bind` refuses it.
            listener.bind((address[0], port, *address[2:]))
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise errors.InvalidInputError(
            f"{what} cannot be served at {host!r:.100}, port {port}: {error}. Name an address of "
            "this machine, and a port that is free (0 finds one)."
        ) from error
    return listener
