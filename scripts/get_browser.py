"""Gets a browser: Playwright's own download where it can be had, else one that is installed.

Starts it, to be sure. Says which it is and exits with 0, or says what to run and exits with 1. With
`--check` it downloads nothing. Run by scripts/setup.sh, in the virtual environment.
"""

import asyncio
import os
import subprocess
import sys

from webtraj.cli import doctor
from webtraj.environments.browser import processes

DOWNLOAD_SECONDS = 300  # 100 MB on a slow line.
CONNECTION_MILLISECONDS = 10_000  # A network that swallows packets answers nothing, for minutes.


def main() -> int:
    """Get the browser, and return the exit code."""
    if "--check" not in sys.argv[1:] and not os.environ.get(processes.ENVIRONMENT_VARIABLE):
        download()
    browser = asyncio.run(doctor.try_browser())
    if not browser.ok:
        sys.stderr.write(f"{browser.problem}\n")
        return 1
    sys.stdout.write(f"setup: the browser is {browser.version} ({browser.source})\n")
    return 0


def download() -> None:
    """Let Playwright download its headless browser, unless it has it."""
    command = [sys.executable, "-m", "playwright", "install", "chromium-headless-shell"]
    limits = {"PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": str(CONNECTION_MILLISECONDS)}
    try:
        subprocess.run(
            command,
            check=True,
            timeout=DOWNLOAD_SECONDS,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **limits},
        )
    except (OSError, subprocess.SubprocessError):
        sys.stdout.write("setup: Playwright's own browser cannot be downloaded here\n")


if __name__ == "__main__":
    sys.exit(main())
