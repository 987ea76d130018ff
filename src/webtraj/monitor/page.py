"""A run's status as a web page, served on this machine.

`GET /` is the page, `GET /api/status` its data (`RunStatus.to_data`), and `GET /api/rows/7` the
details of a row. Requests read the run, at most once every `every` seconds for all clients.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj import local_pages as serving_lib
from webtraj.monitor.status import RunStatus
from webtraj.reporting.report import plain

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from webtraj.monitor.watching import RunMonitor

__all__ = ["make_app", "serving"]

_FILES = {
    "monitor.js": "text/javascript; charset=utf-8",
    "monitor.css": "text/css; charset=utf-8",
}
_WHAT = "The monitor's page"


class _Looks:
    """Read a run's status in a thread, one read at a time, at most every `every` seconds."""

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


def make_app(monitor: RunMonitor, *, every: float = 1.0) -> ASGIApp:
    """Return the application that serves a run's page, unguarded (see `local_pages.guard`).

    Args:
        monitor: The run's monitor.
        every: The least seconds between two reads.

    Raises:
        MissingDependencyError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError as error:
        raise serving_lib.missing(_WHAT) from error
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
            return json({"error": "No such file."}, 404)
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
    return Starlette(routes=routes)


def serving(
    monitor: RunMonitor,
    *,
    host: str = "127.0.0.1",
    port: int | None = 0,
    token: str | None = None,
    every: float = 1.0,
) -> AbstractAsyncContextManager[str]:
    """Return a context manager that serves a run's page and yields its URL.

    Args:
        monitor: The run's monitor.
        host: The address to listen on; one that others can reach needs a token.
        port: The port; 0 for a free one; None for the usual one, or a free one if it is taken.
        token: The token; by default a new one if the host needs one.
        every: The least seconds between two reads.

    Raises:
        InvalidInputError: On entering: the address is not this machine's, the port is in use, or
            the token is too short to be safe.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    return serving_lib.serving(
        make_app(monitor, every=every),
        host=host,
        port=port,
        token=token,
        what=_WHAT,
        command="webtraj monitor",
        cookie="webtraj-monitor",
        methods=frozenset(("GET", "HEAD")),
    )
