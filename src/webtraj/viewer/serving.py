"""Serving the viewer: at an address of this machine, until it is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from webtraj import errors
from webtraj.monitor.guard import is_loopback, netloc
from webtraj.viewer.app import MISSING, make_app
from webtraj.viewer.guarding import Guard, cookie_name

if TYPE_CHECKING:
    from webtraj.viewer.viewer import Viewer

__all__ = ["serving"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_STARTED = 0.01
_SHORTEST_TOKEN = 16


@contextlib.asynccontextmanager
async def serving(
    viewer: Viewer, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> AsyncIterator[str]:
    """Serves a viewer for as long as the context lasts.

    Args:
        viewer: What is served.
        host: The address to listen at.
        port: The port; 0 has the system choose one that is free.
        token: What who looks must have. By default there is none for an address of this machine
            alone, and a new one for any other.

    Yields:
        The URL to open, with the token.

    Raises:
        InvalidInputError: It cannot listen there, or the token is too short to keep anyone out.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise errors.MissingDependencyError(MISSING) from error
    alone = is_loopback(host)
    if token is None and not alone:
        token = secrets.token_urlsafe(24)
    if token is not None and not _is_token(token):
        raise errors.InvalidInputError(
            f"A token has at least {_SHORTEST_TOKEN} characters of A-Z a-z 0-9 _ -; leave it out, "
            "and one is made."
        )
    app = make_app(viewer)
    with contextlib.closing(_listen(host, port)) as listener:
        port = listener.getsockname()[1]
        names = {*_LOOPBACK, host.lower()} | (set() if alone else {socket.gethostname().lower()})
        guard = Guard(
            app,
            hosts=frozenset(names),
            any_address=not alone,
            token=token,
            cookie=cookie_name(port),
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
            shown = "127.0.0.1" if host in ("0.0.0.0", "") else "::1" if host == "::" else host
            yield f"http://{netloc(shown, port)}/" + (f"?token={token}" if token else "")
        finally:
            server.should_exit = True
            await asyncio.shield(running)


def _is_token(token: str) -> bool:
    plain = token.isascii() and token.replace("-", "").replace("_", "").isalnum()
    return plain and len(token) >= _SHORTEST_TOKEN


def _listen(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound there."""
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise errors.InvalidInputError(
            f"The viewer cannot listen at {host!r:.100}, port {port}: {error}. Name an address of "
            "this machine, and a port that is free (0 finds one)."
        ) from error
    return listener
