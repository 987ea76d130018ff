"""Which handler answers which path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TypeAlias

from webtraj.environments.fixture_site import html
from webtraj.environments.fixture_site.messages import Request, Response
from webtraj.environments.fixture_site.world import World

__all__ = ["Handler", "Routes", "Visit"]


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """One request, in the world that it is made in."""

    request: Request
    world: World
    token: str
    """The name of the visit's session."""
    other_origin: str
    """The origin of the site's second server."""
    arguments: tuple[str, ...] = ()
    """What the path holds in place of each `*` of the route."""

    def show(self, title: str, *content: html.Child, status: int = 200) -> Response:
        """Returns a page in the site's frame."""
        from webtraj.environments.fixture_site.pages import layout

        return Response(status=status, body=layout.document(self.world, title, content).encode())


Handler: TypeAlias = Callable[[Visit], Response]


class Routes:
    """Handlers by method and path, registered by decorator."""

    def __init__(self) -> None:
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []

    def __call__(self, method: str, path: str) -> Callable[[Handler], Handler]:
        """Registers a handler; `*` in the path stands for any one segment."""
        pattern = re.compile(re.escape(path).replace(r"\*", "([^/]+)"))

        def register(handler: Handler) -> Handler:
            self._routes.append((method, pattern, handler))
            return handler

        return register

    def find(self, method: str, path: str) -> tuple[Handler, tuple[str, ...]] | None:
        """Returns the handler of a path and its arguments; None if there is none."""
        method = "GET" if method == "HEAD" else method
        for route_method, pattern, handler in self._routes:
            if route_method == method and (match := pattern.fullmatch(path)):
                return handler, match.groups()
        return None


routes = Routes()
"""The site's routes; the modules of `pages` fill them."""
