"""A pool leases from browsers that a Playwright server runs."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment


@contextlib.asynccontextmanager
async def playwright_server(folder: Path) -> AsyncIterator[str]:
    config = folder / "server.json"
    options = {"headless": True, "args": ["--no-sandbox"], "chromiumSandbox": False}
    if path := find_browser().path:
        options["executablePath"] = path
    config.write_text(json.dumps(options))
    # A session of its own: the Python that is started only waits for the server it starts.
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "playwright", "launch-server"),
            *("--browser", "chromium", "--config", str(config)),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = await asyncio.to_thread(process.stdout.readline)
            assert line.startswith(b"ws://"), line
            yield line.decode().strip()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.browser
async def test_episodes_are_played_in_a_browser_of_a_playwright_server(tmp_path: Path) -> None:
    async with (
        playwright_server(tmp_path) as endpoint,
        BrowserPool(endpoint=endpoint) as pool,
        MiniwobEnvironment("click-test", pool=pool) as environment,
    ):
        for _ in range(2):
            await environment.reset()
            timestep = await environment.step(await environment.cheat())
            assert timestep.reward == 1
