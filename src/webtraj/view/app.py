"""The viewer's HTTP API: JSON over HTTP. A failure is `{"error": "what to do"}`.

::

    GET /api/datasets               {"datasets": [{"name", "place", "episodes", "iteration", "open",
                                    "writing", "runs", "problem"}]}
    GET /api/episodes               {"total", "offset", "rows", "facets", "graded": {"success",
                                    "of", "low", "high", "broken"}}
    GET /api/episodes/DATASET/ID    what `webtraj.view.episode.episode_data` returns, with
                                    "state", "label" and "note"
    GET /api/blobs/DATASET/SHA256.EXT    bytes, as an episode's data names them
    GET /api/thumbnails/DATASET/ID  a small WebP image of the episode's last page; 204 without one
    GET /api/iterations             what `webtraj.view.iterations.iterations_data` returns
    GET /api/runs/DATASET?run=ID    the status of a dataset's run, by default the latest: what
                                    `webtraj.view.RunStatus.to_data` returns
    GET /api/runs/DATASET/rows/7    a row of its plan, with its episodes
    GET /api/changes?since=VERSION  {"version", "changed", "datasets": [{"name", "open",
                                    "writing"}]}
    PUT /api/labels/DATASET/ID      takes {"label", "note"} as application/json, with the header
                                    X-Webtraj: 1, which no other site's page can send; without
                                    "note", the stored note is kept; returns what is stored

`/api/episodes` takes `dataset`, `task`, `site`, `outcome`, `end_reason`, `policy`,
`policy_version`, `iteration`, `run` and `label` (`none`: without one), each repeatable; `seed`;
`min_reward` and `max_reward`; `q`, words that must all occur; `sort`, a column, with `-` in front
for descending; `offset`, and `limit` up to 1,000. `facets` has the 200 most frequent values of each
field, with the number of episodes that have it and match everything else. `graded` counts the
successes of all matching episodes that succeeded or failed, with the rate's 95 % interval; `broken`
counts those that ended with an infrastructure failure, which are in no rate.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from webtraj import errors
from webtraj.metrics.rates import bounds
from webtraj.net import local_pages as serving_lib
from webtraj.net.local_pages import missing_libraries
from webtraj.view import values
from webtraj.view.table import parse_query

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from webtraj.view.viewer import Viewer

__all__ = ["WHAT", "make_app", "serving"]

WHAT = "The viewer"

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_FILE = re.compile(r"[A-Za-z0-9_-]+(\.[a-z0-9]+)")
_BLOB = re.compile(r"([0-9a-f]{64})\.([a-z0-9]{1,8})")
_LONGEST_BODY = 64 * 1024
_FOREVER = "private, max-age=31536000, immutable"
_STATUS = (
    (errors.UnknownEpisodeError, 404),
    (errors.InvalidInputError, 400),
    (errors.DatasetError, 422),
    (errors.StorageError, 503),
)


def make_app(viewer: Viewer) -> ASGIApp:
    """Return the application without its guard (see `local_pages.Guard`).

    Raises:
        MissingDependencyError: starlette is not installed.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise missing_libraries(WHAT) from error
    handlers = _Handlers(viewer)
    routes = [
        Route("/", handlers.page),
        Route("/static/{name}", handlers.file),
        Route("/api/datasets", _with_error_responses(handlers.datasets)),
        Route("/api/episodes", _with_error_responses(handlers.episodes)),
        Route("/api/episodes/{dataset}/{id}", _with_error_responses(handlers.episode)),
        Route("/api/blobs/{dataset}/{name}", _with_error_responses(handlers.blob)),
        Route("/api/thumbnails/{dataset}/{id}", handlers.thumbnail),
        Route("/api/iterations", _with_error_responses(handlers.iterations)),
        Route("/api/runs/{dataset}", _with_error_responses(handlers.run)),
        Route("/api/runs/{dataset}/rows/{number:int}", _with_error_responses(handlers.run_row)),
        Route("/api/changes", _with_error_responses(handlers.changes)),
        Route("/api/labels/{dataset}/{id}", _with_error_responses(handlers.label), methods=["PUT"]),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={
            404: _plain_error("No such page.", 404),
            405: _plain_error("This path does not support that method.", 405),
            500: _plain_error("The viewer failed; see its terminal for the error.", 500),
        },
    )


class _Handlers:
    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._static = resources.files("webtraj.view") / "static"

    async def page(self, request: Request) -> Response:
        return _response((self._static / "index.html").read_bytes(), "text/html; charset=utf-8")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        known = _FILE.fullmatch(name)
        file = self._static / name
        if known is None or known[1] not in _TYPES or not file.is_file():
            return _json({"error": "No such file."}, 404)
        return _response(file.read_bytes(), _TYPES[known[1]])

    async def datasets(self, request: Request) -> Response:
        return _json({"datasets": await _in_thread(self._viewer.datasets)})

    async def episodes(self, request: Request) -> Response:
        query = parse_query(request.query_params.multi_items())
        page = await _in_thread(self._viewer.page, query)
        solved, graded = page.success.counts
        return _json(
            {
                "total": page.total,
                "offset": query.offset,
                "rows": [row.to_data() for row in page.rows],
                "facets": page.facets,
                "graded": {
                    "success": solved,
                    "of": graded,
                    **bounds(page.success.interval),
                    "broken": page.broken,
                },
            }
        )

    async def iterations(self, request: Request) -> Response:
        return _json(await _in_thread(self._viewer.iterations))

    async def run(self, request: Request) -> Response:
        run_id = request.query_params.get("run", "")
        return _json(await _in_thread(self._viewer.run, request.path_params["dataset"], run_id))

    async def run_row(self, request: Request) -> Response:
        names, run_id = request.path_params, request.query_params.get("run", "")
        return _json(
            await _in_thread(self._viewer.run_row, names["dataset"], names["number"], run_id)
        )

    async def episode(self, request: Request) -> Response:
        names = request.path_params
        return _json(await _in_thread(self._viewer.episode, names["dataset"], names["id"]))

    async def blob(self, request: Request) -> Response:
        found = _BLOB.fullmatch(request.path_params["name"])
        if found is None:
            raise errors.UnknownEpisodeError("No such blob: expected SHA256.EXTENSION.")
        size = request.query_params.get("size")
        if size is not None and not (size.isascii() and size.isdigit() and len(size) < 20):
            raise errors.InvalidInputError(f"size={size!r:.60}: expected a number of bytes.")
        data = await _in_thread(
            self._viewer.blob,
            request.path_params["dataset"],
            found[1],
            found[2],
            None if size is None else int(size),
            request.query_params.get("episode", ""),
        )
        # Bytes from a page or a person are shown as an image or downloaded, never opened.
        media_type = values.media_type(data)
        if not media_type:
            name = f"attachment; filename={found[1][:16]}.bin"
            headers = {"cache-control": _FOREVER, "content-disposition": name}
            return _response(data, "application/octet-stream", headers)
        return _response(data, media_type, {"cache-control": _FOREVER})

    async def thumbnail(self, request: Request) -> Response:
        names = request.path_params
        try:
            data = await _in_thread(self._viewer.thumbnail, names["dataset"], names["id"])
        except errors.WebtrajError:  # Opening the episode shows the problem.
            data = None
        if data is None:
            return _response(b"", "image/webp", status=204)
        return _response(data, "image/webp", {"cache-control": "private, max-age=60"})

    async def changes(self, request: Request) -> Response:
        since = request.query_params.get("since", "")
        known = int(since) if since.isascii() and since.isdigit() and len(since) < 20 else -1
        return _json(await _in_thread(self._viewer.changes, known))

    async def label(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or "x-webtraj" not in request.headers:
            return _json(
                {"error": "Send labels as application/json with the header X-Webtraj: 1."}, 415
            )
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_BODY:
                return _json({"error": f"The label exceeds {_LONGEST_BODY} bytes."}, 413)
        label, note = _label_of(body)
        names = request.path_params
        made = await _in_thread(self._viewer.set_label, names["dataset"], names["id"], label, note)
        return _json(made)


def _label_of(body: bytes) -> tuple[str, str | None]:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.InvalidInputError(f"The label is not JSON: {error}.") from None
    known = {"label", "note"}
    if not isinstance(given, dict) or not given.keys() <= known or "label" not in given:
        raise errors.InvalidInputError('Expected {"label": "success", "note": "..."}.')
    label, note = given["label"], given.get("note")
    if not isinstance(label, str) or not isinstance(note, str | None):
        raise errors.InvalidInputError("label and note must be strings.")
    return label, note


_Handler = Callable[["Request"], Awaitable["Response"]]


def _with_error_responses(handler: _Handler) -> _Handler:
    """Return a handler that turns webtraj's errors into error responses."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except errors.WebtrajError as error:
            status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
            return _json({"error": str(error).encode("utf-8", "replace").decode()}, status)

    return answer


def _plain_error(text: str, status: int) -> Any:
    async def answer(request: Request, error: Exception) -> Response:
        return _json({"error": text}, status)

    return answer


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(function, *args)


def _json(data: Any, status: int = 200) -> Response:
    return _response(orjson.dumps(data), "application/json", status=status)


def _response(
    content: bytes, media_type: str, headers: dict[str, str] | None = None, status: int = 200
) -> Response:
    from starlette.responses import Response

    return Response(content, status, {**(headers or {}), "content-type": media_type})


# Serving the viewer.


def serving(
    viewer: Viewer, *, host: str = "127.0.0.1", port: int | None = 0, token: str | None = None
) -> AbstractAsyncContextManager[str]:
    """Return a context manager that serves a viewer and yields the URL to open.

    Args:
        viewer: The viewer to serve.
        host: The address to listen on.
        port: The port. 0 means a free one. None means the usual one, or a free one if that is
            taken.
        token: The token that visitors need; None makes a new one.

    Raises:
        InvalidInputError: On entering: the address cannot be used, or the token is too short to
            be safe.
        MissingDependencyError: starlette or uvicorn is not installed.
    """
    return serving_lib.serving(
        make_app(viewer),
        host=host,
        port=port,
        token=token,
        what=WHAT,
        command="webtraj view",
        cookie="webtraj-view",
    )
