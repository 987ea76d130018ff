"""The MiniWoB++ pages, as they come in the `miniwob` package.

Browsers see them at an origin that is the same on every machine: the browser's proxy hands
connections to it over to `serve`, which answers from the package's files and nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import importlib.util
import mimetypes
import re
import urllib.parse
from importlib import resources
from pathlib import Path
from typing import Final

from webtraj import errors as errors_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.fixture_site import server as server_lib
from webtraj.environments.fixture_site.messages import Request, Response

__all__ = ["LOCAL_SITES", "html_folder", "package_version", "page_url", "task_script"]

_HOST: Final = "miniwob.localhost"
_KEPT: Final = "max-age=31536000, immutable"
_PATH: Final = re.compile(r"[\w./ @+-]{1,200}")
_NOT_FOUND: Final = Response(status=404, body=b"Not found.", content_type="text/plain", cache=_KEPT)

_MISSING = "MiniWoB++ needs the miniwob package"


@functools.cache
def html_folder() -> Path:
    """Returns the folder of the pages.

    Raises:
        MissingDependencyError: The `miniwob` package is not installed.
    """
    # Found, not imported: importing it pulls in Gymnasium and Selenium.
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise errors_lib.missing_dependency(_MISSING, "web")
    return Path(next(iter(spec.submodule_search_locations))) / "html"


def page_url(task: str) -> str:
    """Return the URL of a task's page, the same on every machine."""
    return f"http://{_HOST}/miniwob/{task}.html"


@functools.lru_cache(maxsize=1024)
def _file(path: str) -> Response:
    folder = html_folder().resolve()
    file = (folder / path.removeprefix("/")).resolve()
    if not file.is_relative_to(folder) or not file.is_file():
        return _NOT_FOUND
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    charset = "; charset=utf-8" if kind.startswith("text/") else ""
    return Response(body=file.read_bytes(), content_type=kind + charset, cache=_KEPT)


def _answer(request: Request) -> Response:
    path = urllib.parse.unquote(request.path)
    return _file(path) if _PATH.fullmatch(path) else _NOT_FOUND


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await server_lib.serve(_answer, reader, writer)


LOCAL_SITES: Final[network_lib.LocalSites] = {(_HOST, 80): _serve}
"""The pages' site, for the browser's proxy."""


@functools.cache  # Reading a package's metadata takes a millisecond.
def package_version() -> str:
    """Returns the version of the `miniwob` package."""
    return importlib.metadata.version("miniwob")


@functools.cache
def task_script() -> str:
    """Returns what MiniWoB++ adds to the page script."""
    folder = resources.files("webtraj.environments.miniwob")
    return (folder / "page.js").read_text(encoding="utf-8")
