"""Make docs/images/mcp.webp: a browser task done by MCP tool calls, and its episode in the viewer.

A client of the protocol's own package starts `webtraj mcp` and plays a task by calls. Its calls and
what the server answers become the terminal's frames; then the viewer shows what was recorded.

Usage: python scripts/mcp_picture.py [FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from first_picture import (
    COLUMNS,
    HEIGHT,
    PROMPT,
    WIDTH,
    Frame,
    Screen,
    Stage,
    _settled,
    faded,
    typing,
    write,
)
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from playwright.async_api import Page, async_playwright

from webtraj.environments.browser.processes import find_browser

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "mcp.webp"
LARGEST = 600_000
"""Bytes of the picture."""
TASK = "miniwob/click-checkboxes"
SEED = 5
COMMAND = f"webtraj mcp --preset {TASK} --out runs/desk"
_ADDRESS = re.compile(r"http://[\d.]+:\d+/[^\s)]*")


class Conversation:
    """A client's calls, drawn in a terminal.

    Args:
        client: The client.
        stage: What draws them.
    """

    def __init__(self, client: Client, stage: Stage) -> None:
        self._client = client
        self._stage = stage
        self._screen = Screen()

    async def start(self) -> None:
        """Draw the command that a client's configuration names."""
        self._screen.feed(f"\x1b[90m# in the client's configuration\x1b[0m\n{PROMPT}")
        for text, milliseconds in typing(COMMAND):
            await self._stage.terminal([*self._screen.lines[:-1], PROMPT + text], milliseconds)
        self._screen.feed(f"{COMMAND}\n\n")
        await self._stage.terminal(self._screen.lines, 800)

    async def call(self, tool: str, **arguments: Any) -> str:
        """Make a call, and draw it and its answer."""
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self._screen.feed(f"\x1b[36m→ {tool}\x1b[0m({given})\n")
        await self._stage.terminal(self._screen.lines, 600)
        text: str = (await self._client.call_tool(tool, arguments)).content[0].text
        for line in text.split("\n"):
            shown = textwrap.shorten(line, COLUMNS - 4) if len(line) > COLUMNS - 4 else line
            colour = "32" if line[:2] in ("+ ", "~ ") or "reward" in line else "0"
            self._screen.feed(f"  \x1b[{colour}m{shown}\x1b[0m\n")
        self._screen.feed("\n")
        await self._stage.terminal(self._screen.lines, 1900)
        return text


async def play(folder: Path, stage: Stage) -> None:
    """Play the task by calls."""
    arguments = ["-m", "webtraj", "mcp", "--preset", TASK, "--out", "runs/desk"]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=dict(os.environ), cwd=folder
    )
    async with Client(stdio_client(server)) as client:
        conversation = Conversation(client, stage)
        await conversation.start()
        page = await conversation.call("open", seed=SEED)
        wanted = re.search(r"Select (.+) and click", page)
        assert wanted is not None, page
        for name in wanted[1].split(", "):
            box = re.search(rf'\[(\w+)\] checkbox "{re.escape(name)}"', page)
            assert box is not None, page
            await conversation.call("click", ref=box[1])
        button = re.search(r"\[(\w+)\] button", page)
        assert button is not None, page
        last = await conversation.call("click", ref=button[1])
        assert "success" in last, last


@contextlib.asynccontextmanager
async def viewing(folder: Path) -> AsyncIterator[str]:
    """Run the viewer, and yield its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webtraj", "view", "runs/desk", "--port", "0",
        cwd=folder, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        told = ""
        while not (address := _ADDRESS.search(told)):
            told += (await process.stdout.readline()).decode()
        yield address[0]
    finally:
        process.terminate()
        await process.wait()


async def show_episode(stage: Stage, page: Page, address: str) -> None:
    """Add the frames of the list, and of the episode's steps."""
    await page.goto(address)
    row = page.locator(".body .row", has_text=TASK).first
    await row.wait_for()
    await _settled(page)
    await stage.viewer(page, 1600)
    await row.click(position={"x": 250, "y": 10})
    steps = page.locator(".step")
    await steps.first.wait_for()
    await page.mouse.move(0, 0)
    await _settled(page)
    await stage.viewer(page, 2000)
    for _ in range(await steps.count() - 1):
        await page.keyboard.press("ArrowDown")
        await _settled(page)
        await stage.viewer(page, 1600)


async def make(file: Path) -> list[Frame]:
    """Play the task, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_browser().path)
            drawn = await browser.new_page(viewport={"width": WIDTH + 64, "height": HEIGHT + 100})
            shown = await browser.new_page(
                viewport={"width": WIDTH, "height": HEIGHT},
                color_scheme="light",
                reduced_motion="reduce",
            )
            terminal, viewer = Stage(drawn), Stage(drawn)
            await play(Path(folder), terminal)
            async with viewing(Path(folder)) as address:
                await show_episode(viewer, shown, address)
            await browser.close()
    between = faded(terminal.frames[-1].picture, viewer.frames[0].picture)
    frames = [*terminal.frames, *between, *viewer.frames]
    write(frames, file)
    return frames


def main() -> None:
    """Make the picture and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    file = parser.parse_args().file
    frames = asyncio.run(make(file))
    size = file.stat().st_size
    print(f"{file.name}: {len(frames)} frames, {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"{file.name} is larger than {LARGEST:,} bytes.")


if __name__ == "__main__":
    main()
