"""A run's status as a web page, served on this machine.

`GET /` is the page, `GET /api/status` what it shows (`RunStatus.to_data`), and `GET /api/rows/7`
what is known of a row. The run is looked at when somebody asks, at most once in `every` seconds,
however many do.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import socket
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.monitor.guard import Guard, is_loopback, netloc
from webtraj.monitor.status import RunStatus
from webtraj.reporting.plain import plain

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from webtraj.monitor.watching import RunMonitor

__all__ = ["MonitorServer", "make_app"]

_FILES = {
    "monitor.js": "text/javascript; charset=utf-8",
    "monitor.css": "text/css; charset=utf-8",
}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,}")
_MISSING = 'The monitor\'s page needs starlette and uvicorn: pip install "webtraj[view]".'


class _Looks:
    """Looks at a run in a thread, one look at a time, and not too often."""

    def __init__(self, monitor: RunMonitor, every: float) -> None:
        self._monitor = monitor
        self._every = every
        self._lock = asyncio.Lock()
        self._status: RunStatus | None = None
        self._next = 0.0

    async def status(self) -> RunStatus:
        async with self._lock:
            if self._status is None or time.monotonic() >= self._next:
                self._status = await asyncio.to_thread(self._monitor.look)
                self._next = time.monotonic() + self._every
            return self._status

    async def row(self, number: int) -> dict[str, Any]:
        async with self._lock:
            return self._monitor.row(number)


def make_app(
    monitor: RunMonitor,
    *,
    every: float = 1.0,
    hosts: frozenset[str] | None = frozenset(("127.0.0.1", "localhost", "::1")),
    token: str | None = None,
    cookie: str = "webtraj-monitor",
) -> ASGIApp:
    """Returns the application that serves a run's page.

    Args:
        monitor: Looks at the run.
        every: Seconds between two looks, at least.
        hosts: The names that it may be asked by; None for any.
        token: What who asks must have.
        cookie: The name of the cookie that the token is kept in.

    Raises:
        MissingDependencyError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise errors.MissingDependencyError(_MISSING) from error
    looks = _Looks(monitor, every)
    static = resources.files("webtraj.monitor") / "static"

    def json(data: Any, status: int = 200) -> Response:
        content = orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)
        return Response(content, status, media_type="application/json")

    async def page(request: Request) -> Response:
        return Response((static / "monitor.html").read_bytes(), media_type="text/html")

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return json({"error": "There is no such file."}, 404)
        return Response((static / name).read_bytes(), media_type=_FILES[name])

    async def status(request: Request) -> Response:
        try:
            return json((await looks.status()).to_data())
        except errors.WebtrajError as error:
            return json({"error": str(error)}, 503)

    async def row(request: Request) -> Response:
        try:
            return json(plain(await looks.row(request.path_params["number"])))
        except errors.InvalidInputError as error:
            return json({"error": str(error)}, 404)

    routes = [
        Route("/", page),
        Route("/static/{name}", file),
        Route("/api/status", status),
        Route("/api/rows/{number:int}", row),
    ]
    return Guard(Starlette(routes=routes), hosts=hosts, token=token, cookie=cookie)


class MonitorServer:
    """Serves a run's page until it is cancelled.

    Args:
        monitor: Looks at the run.
        host: The address to listen at; one that others can reach asks for a token.
        port: The port; 0 for one that is free.
        token: The token; by default a new one where one is needed.
        every: Seconds between two looks, at least.

    Raises:
        InvalidInputError: The address is not this machine's, or the port is taken.
        MissingDependencyError: starlette or uvicorn is not installed.
    """

    def __init__(
        self,
        monitor: RunMonitor,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        every: float = 1.0,
    ) -> None:
        try:
            import uvicorn
        except ImportError as error:
            raise errors.MissingDependencyError(_MISSING) from error
        alone = is_loopback(host)
        if token is not None and not _TOKEN.fullmatch(token):
            raise errors.InvalidInputError(
                "A token has 16 characters of A-Z a-z 0-9 _ - or more; leave it out, and one is "
                "made where it is needed."
            )
        if token is None and not alone:
            token = secrets.token_urlsafe(24)
        hosts = frozenset(("127.0.0.1", "localhost", "::1", host)) if alone else None
        self._socket = _listen(host, port)
        port = self._socket.getsockname()[1]
        app = make_app(
            monitor, every=every, hosts=hosts, token=token, cookie=f"webtraj-monitor-{port}"
        )
        address = netloc(host, port)
        self.url = f"http://{address}/" + (f"?token={token}" if token else "")
        """Where the page is."""
        self._server = uvicorn.Server(
            uvicorn.Config(
                app, log_level="warning", access_log=False, lifespan="off", server_header=False
            )
        )
        # Signals are its caller's: they cancel `serve`.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]

    async def serve(self) -> None:
        """Serves until it is cancelled."""
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._server.should_exit = self._server.force_exit = True
            await serving
            raise
        finally:
            self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()  # Who comes before it serves has to wait, and is not refused.
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise errors.InvalidInputError(
            f"The page cannot be served at {host!r:.100}, port {port}: {error}. Name an address of "
            "this machine, and a port that is free (0 finds one)."
        ) from error
    return listener
