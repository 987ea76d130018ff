"""Which browser to run: found once, named in every record.

The order is: the file that `WEBTRAJ_BROWSER` names; Playwright's own download; then the system's
Chromium, the headless shell first, since it starts faster and uses a quarter of the memory.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from webtraj import errors as errors_lib

__all__ = ["BrowserExecutable", "find_browser"]

ENVIRONMENT_VARIABLE = "WEBTRAJ_BROWSER"

_SYSTEM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

_NOT_FOUND = (
    "No browser was found: {looked}. Run `python -m playwright install chromium-headless-shell`, "
    "or on Debian `apt-get install chromium-headless-shell`, or set "
    f"{ENVIRONMENT_VARIABLE} to the path of a Chromium."
)

_VERSION_TIMEOUT = 20.0
"""Seconds for `--version`; a cold start of full Chromium from a slow disk takes several."""


@dataclasses.dataclass(frozen=True, slots=True)
class BrowserExecutable:
    """A browser that can be run."""

    path: str | None
    """Path of the program itself, wrapper scripts taken off; None lets Playwright choose."""
    version: str
    """What it says of itself, `Chromium 156.0.8078.79` for example."""
    source: Literal["playwright", "system", "WEBTRAJ_BROWSER"]
    """Where it was found."""


def find_browser() -> BrowserExecutable:
    """Returns the browser to run.

    Raises:
        BrowserNotFoundError: There is none, or the one that `WEBTRAJ_BROWSER` names does not run.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return _browser_named_by_user(named)
    for path in _playwright_downloads():
        version = _version_of(path)
        if version:
            return BrowserExecutable(str(path), version, "playwright")
    for name in _SYSTEM_NAMES:
        found = shutil.which(name)
        version = _version_of(Path(found)) if found else ""
        if found and version:
            return BrowserExecutable(str(_without_wrapper(Path(found))), version, "system")
    looked = f"not in Playwright's downloads, and none of {', '.join(_SYSTEM_NAMES)} runs from PATH"
    raise errors_lib.BrowserNotFoundError(_NOT_FOUND.format(looked=looked))


def _browser_named_by_user(named: str) -> BrowserExecutable:
    path = shutil.which(named)
    version = _version_of(Path(path)) if path else ""
    if not path or not version:
        looked = f"{ENVIRONMENT_VARIABLE}={named!r} names no browser that runs"
        raise errors_lib.BrowserNotFoundError(_NOT_FOUND.format(looked=looked))
    return BrowserExecutable(str(_without_wrapper(Path(path))), version, "WEBTRAJ_BROWSER")


def _playwright_downloads() -> Iterator[Path]:
    """Yields the Chromiums in Playwright's download folder, newest revision first.

    The folder is read instead of asking Playwright, because asking starts its driver.
    """
    folder = _playwright_folder()
    patterns = (
        "chromium_headless_shell-*/*/*headless[-_]shell",
        "chromium-*/*/chrome",
        "chromium-*/*/*.app/Contents/MacOS/*",
    )
    for pattern in patterns:
        found = folder.glob(pattern)
        yield from sorted(found, key=lambda path: _revision(path, folder), reverse=True)


def _playwright_folder() -> Path:
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if given and given != "0":
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"


def _revision(path: Path, folder: Path) -> int:
    revision = path.relative_to(folder).parts[0].rpartition("-")[2]
    return int(revision) if revision.isdigit() else 0


def _version_of(path: Path) -> str:
    """Returns what the program answers to `--version`; empty if it does not run."""
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _without_wrapper(path: Path) -> Path:
    """Returns the program that a one-command shell wrapper runs; else the path itself.

    Debian's `chromium-headless-shell` is such a wrapper, and one that stays alive between us and
    the browser: a signal to it would not reach the browser.
    """
    try:
        head = path.read_bytes()[:512]
    except OSError:
        return path
    found = re.fullmatch(rb'#!/bin/sh[^\n]*\n\s*(?:exec )?(/[^\s"]+) "\$@"\s*', head)
    if found is None:
        return path
    program = Path(os.fsdecode(found.group(1)))
    return program if os.access(program, os.X_OK) else path
