"""The MiniWoB++ pages, as they come in the `miniwob` package."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from importlib import resources
from pathlib import Path

from webtraj import errors as errors_lib

__all__ = ["html_folder", "package_version", "page_url", "task_script"]

_MISSING = "MiniWoB++ needs the miniwob package: pip install 'webtraj[miniwob]'."


@functools.cache
def html_folder() -> Path:
    """Returns the folder of the pages.

    Raises:
        MissingDependencyError: The `miniwob` package is not installed.
    """
    # Found, not imported: importing it pulls in Gymnasium and Selenium.
    spec = importlib.util.find_spec("miniwob")
    if spec is None or not spec.submodule_search_locations:
        raise errors_lib.MissingDependencyError(_MISSING)
    return Path(next(iter(spec.submodule_search_locations))) / "html"


def page_url(task: str) -> str:
    """Returns the file URL of a task's page."""
    return (html_folder() / "miniwob" / f"{task}.html").as_uri()


@functools.cache  # Reading a package's metadata takes a millisecond.
def package_version() -> str:
    """Returns the version of the `miniwob` package."""
    return importlib.metadata.version("miniwob")


@functools.cache
def task_script() -> str:
    """Returns what MiniWoB++ adds to the page script."""
    folder = resources.files("webtraj.environments.miniwob")
    return (folder / "page.js").read_text(encoding="utf-8")
