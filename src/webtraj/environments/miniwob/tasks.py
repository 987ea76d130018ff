"""The tasks of MiniWoB++ and the pages that hold them."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import importlib.util
import mimetypes
import re
import urllib.parse
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

from webtraj import errors as errors_lib
from webtraj.environments import local_server as local_server_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.local_server import Request, Response

__all__ = [
    "LOCAL_SITES",
    "MAX_STEPS",
    "MOST_STEPS",
    "SUBSETS",
    "TASKS",
    "html_folder",
    "package_version",
    "page_url",
    "task_script",
]

# The MiniWoB++ pages, as they come in the `miniwob` package.
#
# Their origin is the same on every machine: the browser's proxy passes its connections to `serve`,
# which serves only the package's files.

_HOST: Final = "miniwob.localhost"
_KEPT: Final = "max-age=31536000, immutable"
_PATH: Final = re.compile(r"[\w./ @+-]{1,200}")
_NOT_FOUND: Final = Response(status=404, body=b"Not found.", content_type="text/plain", cache=_KEPT)

_MISSING = "MiniWoB++ needs the miniwob package"


@functools.cache
def html_folder() -> Path:
    """Return the folder of the pages.

    Raises:
        MissingDependencyError: The `miniwob` package is not installed.
    """
    # Located without importing it, which would load Gymnasium and Selenium.
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
    await local_server_lib.serve(_answer, reader, writer)


LOCAL_SITES: Final[network_lib.LocalSites] = {(_HOST, 80): _serve}
"""The pages' site, for the browser's proxy."""


@functools.cache  # Reading a package's metadata takes a millisecond.
def package_version() -> str:
    """Return the version of the `miniwob` package."""
    return importlib.metadata.version("miniwob")


@functools.cache
def task_script() -> str:
    """Return MiniWoB++'s addition to the page script."""
    folder = resources.files("webtraj.environments.miniwob")
    return (folder / "page.js").read_text(encoding="utf-8")


TASKS: Final = (
    "ascending-numbers",
    "bisect-angle",
    "book-flight",
    "book-flight-nodelay",
    "buy-ticket",
    "choose-date",
    "choose-date-easy",
    "choose-date-medium",
    "choose-date-nodelay",
    "choose-list",
    "circle-center",
    "click-button",
    "click-button-sequence",
    "click-checkboxes",
    "click-checkboxes-large",
    "click-checkboxes-soft",
    "click-checkboxes-transfer",
    "click-collapsible",
    "click-collapsible-2",
    "click-collapsible-2-nodelay",
    "click-collapsible-nodelay",
    "click-color",
    "click-dialog",
    "click-dialog-2",
    "click-link",
    "click-menu",
    "click-menu-2",
    "click-option",
    "click-pie",
    "click-pie-nodelay",
    "click-scroll-list",
    "click-shades",
    "click-shape",
    "click-tab",
    "click-tab-2",
    "click-tab-2-easy",
    "click-tab-2-hard",
    "click-tab-2-medium",
    "click-test",
    "click-test-2",
    "click-test-transfer",
    "click-widget",
    "copy-paste",
    "copy-paste-2",
    "count-shape",
    "count-sides",
    "daily-calendar",
    "drag-box",
    "drag-circle",
    "drag-cube",
    "drag-items",
    "drag-items-grid",
    "drag-shapes",
    "drag-shapes-2",
    "drag-single-shape",
    "drag-sort-numbers",
    "draw-circle",
    "draw-line",
    "email-inbox",
    "email-inbox-delete",
    "email-inbox-forward",
    "email-inbox-forward-nl",
    "email-inbox-forward-nl-turk",
    "email-inbox-important",
    "email-inbox-nl-turk",
    "email-inbox-noscroll",
    "email-inbox-reply",
    "email-inbox-star-reply",
    "enter-date",
    "enter-password",
    "enter-text",
    "enter-text-2",
    "enter-text-dynamic",
    "enter-time",
    "find-greatest",
    "find-midpoint",
    "find-word",
    "focus-text",
    "focus-text-2",
    "form-sequence",
    "form-sequence-2",
    "form-sequence-3",
    "generate-number",
    "grid-coordinate",
    "guess-number",
    "highlight-text",
    "highlight-text-2",
    "hot-cold",
    "identify-shape",
    "login-user",
    "login-user-popup",
    "multi-layouts",
    "multi-orderings",
    "navigate-tree",
    "number-checkboxes",
    "odd-or-even",
    "order-food",
    "phone-book",
    "read-table",
    "read-table-2",
    "resize-textarea",
    "right-angle",
    "scroll-text",
    "scroll-text-2",
    "search-engine",
    "sign-agreement",
    "simple-algebra",
    "simple-arithmetic",
    "social-media",
    "social-media-all",
    "social-media-some",
    "stock-market",
    "terminal",
    "text-editor",
    "text-transform",
    "tic-tac-toe",
    "unicode-test",
    "use-autocomplete",
    "use-autocomplete-nodelay",
    "use-colorwheel",
    "use-colorwheel-2",
    "use-slider",
    "use-slider-2",
    "use-spinner",
    "visual-addition",
)
"""The 125 tasks that Farama's `miniwob` package registers, in alphabetical order.

The package has five more pages, unregistered because they are real-time tasks: button-delay,
chase-circle, hover-shape, moving-items, simon-says.
"""

MOST_STEPS: Final = 10

MAX_STEPS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "click-checkboxes-large": 20,
        "hot-cold": 20,
        "number-checkboxes": 20,
        "social-media-all": 20,
    }
)
"""The default step limits of tasks, where not `MOST_STEPS`.

These four need more than ten actions with some seeds: over 300 seeds each, an optimal agent takes
up to 13, 15, 15 and 12.
"""


_TRAIN: Final = """
    book-flight book-flight-nodelay buy-ticket choose-date choose-date-easy choose-date-medium
    choose-date-nodelay circle-center click-checkboxes click-checkboxes-large
    click-checkboxes-soft click-checkboxes-transfer click-collapsible click-collapsible-2
    click-collapsible-2-nodelay click-collapsible-nodelay click-dialog click-dialog-2
    click-option click-shades click-test-2 click-test-transfer count-shape daily-calendar
    drag-box drag-items drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers
    draw-circle draw-line enter-date enter-password enter-text enter-text-2 enter-text-dynamic
    enter-time find-midpoint focus-text focus-text-2 form-sequence identify-shape login-user
    login-user-popup multi-layouts multi-orderings navigate-tree odd-or-even read-table
    read-table-2 search-engine text-editor text-transform unicode-test use-autocomplete
    use-autocomplete-nodelay use-colorwheel use-colorwheel-2 use-slider use-slider-2
    visual-addition
"""

_WEBGUM: Final = """
    book-flight choose-date choose-date-easy choose-date-medium choose-list click-button
    click-button-sequence click-checkboxes click-checkboxes-large click-checkboxes-soft
    click-checkboxes-transfer click-collapsible click-collapsible-2 click-color click-dialog
    click-dialog-2 click-link click-menu click-option click-pie click-scroll-list click-shades
    click-shape click-tab click-tab-2 click-tab-2-hard click-test click-test-2 click-widget
    count-shape email-inbox email-inbox-forward-nl email-inbox-forward-nl-turk
    email-inbox-nl-turk enter-date enter-password enter-text enter-text-dynamic enter-time
    focus-text focus-text-2 grid-coordinate guess-number identify-shape login-user
    login-user-popup multi-layouts multi-orderings navigate-tree search-engine social-media
    social-media-all social-media-some tic-tac-toe use-autocomplete use-spinner
"""

_ORIGINAL: Final = """
    bisect-angle book-flight choose-date choose-list circle-center click-button
    click-button-sequence click-checkboxes click-collapsible click-collapsible-2 click-color
    click-dialog click-dialog-2 click-link click-menu click-menu-2 click-option click-pie
    click-scroll-list click-shades click-shape click-tab click-tab-2 click-test click-test-2
    click-widget copy-paste copy-paste-2 count-shape count-sides drag-box drag-circle drag-cube
    drag-items drag-items-grid drag-shapes drag-sort-numbers email-inbox enter-date
    enter-password enter-text enter-text-2 enter-text-dynamic enter-time find-midpoint find-word
    focus-text focus-text-2 grid-coordinate guess-number highlight-text highlight-text-2
    identify-shape login-user navigate-tree number-checkboxes read-table read-table-2
    resize-textarea right-angle scroll-text scroll-text-2 search-engine simple-algebra
    simple-arithmetic social-media terminal text-editor text-transform tic-tac-toe
    use-autocomplete use-colorwheel use-colorwheel-2 use-slider use-slider-2 use-spinner
    visual-addition
"""


def _subsets() -> dict[str, tuple[str, ...]]:
    train = tuple(_TRAIN.split())
    return {
        "all": TASKS,
        "train": train,
        "test": tuple(task for task in TASKS if task not in train),
        "webgum": tuple(_WEBGUM.split()),
        "original": tuple(_ORIGINAL.split()),
    }


SUBSETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(_subsets())
"""Sets of tasks by name, each in alphabetical order.

* `all`: all of `TASKS`.
* `train`, `test`: BrowserGym's split (its benchmark metadata, version 0.14.3), which keeps similar
  tasks on the same side.
* `webgum`: the 56 tasks that WebGUM and others report on, by the same source.
* `original`: the 77 tasks that the same source counts as the original ones.
"""
