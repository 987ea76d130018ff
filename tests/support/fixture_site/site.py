"""The site: two servers, and a world for each visit.

A visit begins at `/enter/<token>`, which sets a cookie; from then on the browser that holds the
cookie sees that visit's world and no other, so that any number of episodes run side by side. Who
comes without a cookie gets a world of seed 0 to walk around in.

The second server is the same site at another origin, for frames that cross origins. Its ports
change from run to run, so the environment shows the site at `ORIGINS` instead, which are the same
everywhere: the browser's proxy hands connections to them over to `serve`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import secrets
from collections.abc import Callable
from typing import Self

from fixture_site import forum, layout, shop, widgets  # noqa: F401  They register routes.
from fixture_site.world import World, make_world
from webtraj.environments.local_server import HttpServer, Request, Response, see_other, serve

HOST = "fixture.localhost"
PORTS = (80, 8080)
ORIGINS = (f"http://{HOST}", f"http://{HOST}:8080")
"""Where browsers of the environment see the site, and its second server."""

_COOKIE = "visit"
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class SiteVisit:
    """One visit to a site."""

    token: str
    world: World
    """Its state, now."""
    url: str
    """Where a browser begins it."""


class FixtureSite:
    """A shop and forum on 127.0.0.1, for as long as its `async with` lasts.

    >>> import asyncio, httpx
    >>> async def look():
    ...     async with FixtureSite() as site, httpx.AsyncClient(follow_redirects=True) as client:
    ...         visit = site.visit(seed=3, start="/products")
    ...         page = await client.get(visit.url)
    ...         await client.post(f"{site.origin}/cart/add", data={"product": "1"})
    ...         return page.status_code, visit.world.cart
    >>> asyncio.run(look())
    (200, {1: 1})
    """

    def __init__(self) -> None:
        self._worlds: dict[str, World] = {}
        self._servers = contextlib.AsyncExitStack()
        self._origins: tuple[str, str] = ("", "")

    @property
    def origin(self) -> str:
        """Scheme, host and port, such as `http://127.0.0.1:41234`."""
        return self._origins[0]

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as servers:
            first = await servers.enter_async_context(HttpServer(self._handler(1)))
            second = await servers.enter_async_context(HttpServer(self._handler(0)))
            self._origins = first.origin, second.origin
            self._servers = servers.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop both servers and cut open connections. Idempotent."""
        await self._servers.aclose()

    async def serve(
        self, index: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a connection to one of `ORIGINS`."""
        await serve(self._handler(1 - index), reader, writer)

    def visit(
        self, *, seed: int = 0, start: str = "/", prepare: Callable[[World], object] | None = None
    ) -> SiteVisit:
        """Begin a visit at a path; `prepare` changes the world first."""
        token = secrets.token_hex(8)
        world = make_world(seed)
        if prepare is not None:
            prepare(world)
        self._worlds[token] = world
        return SiteVisit(token, world, f"{self.origin}/enter/{token}?to={start}")

    def end_visit(self, visit: SiteVisit) -> None:
        """Forget a visit; its browser gets 410 from now on."""
        self._worlds.pop(visit.token, None)

    def _handler(self, other: int) -> Callable[[Request], Response]:
        def handle(request: Request) -> Response:
            try:
                return self._answer(request, other)
            except LookupError as error:
                return _plain(404, f"Not found: {error}")
            except ValueError as error:
                return _plain(400, f"Bad request: {error}")
            except Exception:
                _logger.exception("The fixture site failed at %s %s", request.method, request.path)
                return _plain(500, "The site has a fault.")

        return handle

    def _answer(self, request: Request, other: int) -> Response:
        if request.path.startswith("/enter/"):
            token = request.path.removeprefix("/enter/")
            return self._enter(token, request.query.get("to", "/"))
        token = request.query.get(_COOKIE) or request.cookies.get(_COOKIE, "")
        if not token:
            asked = layout.query(request.query)
            return self._enter(self.visit().token, request.path + (asked and f"?{asked}"))
        world = self._worlds.get(token)
        if world is None:
            return _plain(410, "This visit is over.")
        handler, arguments = layout.routes.find(request.method, request.path)
        stable = request.headers.get("host", "").partition(":")[0] == HOST
        other_origin = (ORIGINS if stable else self._origins)[other]
        return handler(layout.Visit(request, world, token, other_origin, arguments))

    def _enter(self, token: str, to: str) -> Response:
        return see_other(to, ("set-cookie", f"{_COOKIE}={token}; Path=/; HttpOnly; SameSite=Lax"))


def _plain(status: int, text: str) -> Response:
    return Response(status=status, body=text.encode(), content_type="text/plain; charset=utf-8")
