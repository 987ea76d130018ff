"""The site's own styles and scripts."""

from __future__ import annotations

import functools
from importlib import resources

from webtraj.environments.fixture_site.messages import Response
from webtraj.environments.fixture_site.routing import Visit, routes

__all__: list[str] = []

_TYPES = {"css": "text/css", "js": "text/javascript"}


@routes("GET", "/static/*")
def static_file(visit: Visit) -> Response:
    """Gives a file of the folder `static`."""
    (name,) = visit.arguments
    body = _files().get(name)
    if body is None:
        raise LookupError(visit.request.path)
    content_type = _TYPES[name.rpartition(".")[2]]
    return Response(body=body, content_type=f"{content_type}; charset=utf-8")


@functools.cache
def _files() -> dict[str, bytes]:
    folder = resources.files("webtraj.environments.fixture_site") / "static"
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in _TYPES
    }
