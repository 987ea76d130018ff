"""Peers in virtual environments of their own, so that their pins touch nothing of ours.

The benchmarks run peers there, and so does `make test-peers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def browsergym_venv() -> Path:
    """Returns the Python of `.venv-browsergym`, which scripts/environment.sh makes.

    Raises:
        subprocess.CalledProcessError: The environment cannot be made; stderr says why.
    """
    subprocess.run(["sh", "scripts/environment.sh", "browsergym"], check=True, cwd=ROOT)
    return ROOT / ".venv-browsergym/bin/python"


def make_venv(name: str, packages: Sequence[str]) -> Path:
    """Returns the Python of `.venv-<name>` in the checkout, made if it is not there yet.

    Args:
        name: The peer's name.
        packages: What pip installs, paths relative to the checkout; a change makes the environment
            anew.

    Raises:
        subprocess.CalledProcessError: It cannot be made; pip has said why on stderr.
    """
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    stamp = folder / "packages.txt"
    wanted = "\n".join(packages)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"making {folder.name} ({', '.join(packages)})", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
            check=True,
            cwd=ROOT,
        )
        stamp.write_text(wanted)
    return python


def run_peer(python: Path, script: Path, *args: str, env: Mapping[str, str] | None = None) -> Any:
    """Runs a script there and returns the JSON that is the last line of what it prints."""
    result = subprocess.run(
        [python, script, *args],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **(env or {})},
    )
    return json.loads(result.stdout.strip().splitlines()[-1])


def browsergym_variables(python: Path, browsers: Path, browser: str, pages: Path) -> dict[str, str]:
    """Returns the environment variables by which BrowserGym finds its pages and its browser.

    Args:
        python: The Python of its virtual environment.
        browsers: An empty folder, in which the browser is put where the environment's Playwright
            looks for its own: BrowserGym takes a path for the task's browser, but none for its chat
            window's.
        browser: The browser.
        pages: The folder of MiniWoB++'s pages.
    """
    (manifest,) = python.parents[1].glob(
        "lib/*/site-packages/playwright/driver/package/browsers.json"
    )
    revisions = {b["name"]: b["revision"] for b in json.loads(manifest.read_text())["browsers"]}
    place = browsers / f"chromium-{revisions['chromium']}" / "chrome-linux" / "chrome"
    place.parent.mkdir(parents=True)
    place.symlink_to(browser)
    return {
        "MINIWOB_URL": pages.as_uri() + "/",
        "PLAYWRIGHT_BROWSERS_PATH": str(browsers),
    }
