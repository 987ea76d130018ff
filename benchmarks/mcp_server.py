"""`webtraj mcp` beside Playwright's MCP server: what a model must read, and how long calls take.

    python benchmarks/mcp_server.py [--tries 5]

Both servers run over stdio with their defaults, driven by the protocol's own client and the same
script, in turn, on the same pages from this machine:

* four MiniWoB++ pages, opened as plain pages: open, START, solve, look at the reward;
* a long page, this repository's documentation as one: open, then tick boxes and type into a field.

Playwright's server answers an action with the name of a file that holds the page, so the script
takes a snapshot where it needs to see the page; webtraj's answers with what changed. Sizes are of
all text in results, in tokens of o200k_base.

Needs Node: the first run installs `@playwright/mcp` and `gpt-tokenizer` to `.venv-playwright-mcp`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.server
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import markdown
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from webtraj.environments.browser.processes import find_browser

ROOT = Path(__file__).parents[1]
NODE = ROOT / ".venv-playwright-mcp"
PACKAGES = ("@playwright/mcp@0.0.83", "gpt-tokenizer@4.0.0")
TASKS = ("click-test", "enter-text", "click-checkboxes", "login-user")
NO_DEADLINE = b"<script>core.EPISODE_MAX_TIME = 3600000;</script></body>"
ROUNDS = 10
COUNT = """
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { readFileSync } from 'node:fs';
const texts = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map((text) => encode(text, { allowedSpecial: 'all' }).length)));
"""


# Pages.


def long_page() -> bytes:
    """Return the documentation as one page, with a form on top."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    text = "\n\n".join(page.read_text() for page in pages)
    body = markdown.markdown(text, extensions=["tables", "fenced_code"])
    boxes = "".join(f"<label><input type=checkbox>Page {page.stem}</label>" for page in pages[:10])
    form = f'<form><input aria-label="Search">{boxes}</form>'
    return f"<!doctype html><title>Documentation</title>{form}{body}".encode()


class Pages(http.server.SimpleHTTPRequestHandler):
    """MiniWoB++'s files without a deadline, and the long page."""

    long = b""

    def do_GET(self) -> None:
        """Answer a request."""
        path = Path(self.translate_path(self.path))
        if self.path == "/long.html":
            body = self.long
        elif path.suffix == ".html" and path.is_file():
            body = path.read_bytes().replace(b"</body>", NO_DEADLINE)
        else:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def pages() -> Iterator[str]:
    """Serve the pages and yield their URL."""
    folder = str(resources.files("miniwob") / "html")
    Pages.long = long_page()

    def handler(*args: Any) -> Pages:
        return Pages(*args, directory=folder)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# The two servers.


class Browser:
    """One server, as the script uses it."""

    name = ""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls: list[tuple[str, float, str]] = []
        """The tool, the seconds and the text of each call."""

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        begun = time.perf_counter()
        result = await self.client.call_tool(tool, arguments)
        seconds = time.perf_counter() - begun
        text = "\n".join(part.text for part in result.content if part.type == "text")
        assert not result.is_error, text
        self.calls.append((tool, seconds, text))
        return text


class Webtraj(Browser):
    """`webtraj mcp`."""

    name = "webtraj mcp"
    options: tuple[str, ...] = ()

    @classmethod
    def server(cls, out: str, url: str) -> StdioServerParameters:
        """Return how to start it."""
        arguments = ["-m", "webtraj", "mcp", "--allow", url, "--out", f"{out}/runs", *cls.options]
        arguments += ["--page-tokens", "1000000"]  # Playwright's sends all of a page, too.
        return StdioServerParameters(
            command=sys.executable, args=arguments, env=dict(os.environ), cwd=out
        )

    async def begin(self) -> None:
        """Open a session."""
        await self.call("open")

    async def renew(self) -> None:
        """End the session, and open another."""
        await self.call("close")
        await self.begin()

    async def open(self, url: str) -> str:
        return await self.call("navigate", url=url)

    async def look(self) -> str:
        return await self.call("snapshot")

    async def click(self, ref: str, *, look: bool = False) -> str:
        return await self.call("click", ref=ref)

    async def type(self, ref: str, text: str, *, look: bool = False) -> str:
        return await self.call("type", ref=ref, text=text, clear=True)

    @staticmethod
    def find(text: str, role: str, name: str | None = None) -> str:
        named = "" if name is None else rf' "{re.escape(name)}"'
        found = re.search(rf"\[(\w+)\] {role}{named}(?: |$)", text, re.MULTILINE)
        assert found, (role, name, text)
        return found[1]


class Quick(Webtraj):
    """`webtraj mcp` that waits for late content no longer than Playwright's does for typing."""

    name = "webtraj mcp --settle 0"
    options = ("--settle", "0")


class Playwright(Browser):
    """Playwright's."""

    name = "@playwright/mcp 0.0.83"

    @staticmethod
    def server(out: str, url: str) -> StdioServerParameters:
        """Return how to start it."""
        script = str(NODE / "node_modules/@playwright/mcp/cli.js")
        flags = ["--browser", "chromium", "--executable-path", str(find_browser().path)]
        flags += ["--headless", "--isolated", "--no-sandbox"]
        return StdioServerParameters(command="node", args=[script, *flags], cwd=out)

    async def begin(self) -> None:
        """Do nothing: it has one session."""

    async def renew(self) -> None:
        """Close the browser; the next call opens another."""
        await self.call("browser_close")

    async def open(self, url: str) -> str:
        await self.call("browser_navigate", url=url)
        return await self.look()

    async def look(self) -> str:
        return await self.call("browser_snapshot")

    async def click(self, ref: str, *, look: bool = False) -> str:
        done = await self.call("browser_click", target=ref)
        return await self.look() if look else done

    async def type(self, ref: str, text: str, *, look: bool = False) -> str:
        done = await self.call("browser_type", target=ref, text=text)
        return await self.look() if look else done

    @staticmethod
    def find(text: str, role: str, name: str | None = None) -> str:
        for line in text.split("\n"):
            found = re.match(
                r'\s*- (\w+)(?: "(.*?)")?(?: \[[^\]]*\])*?(?: \[ref=(\w+)\])(.*)', line
            )
            if found and found[1] == role:
                said = found[2] or found[4].rpartition(": ")[2]
                if name is None or said == name:
                    return found[3]
        raise AssertionError((role, name, text))


# The script.


def words(text: str) -> str:
    """Return a page's texts in a line, without quotes and markup, to read the goal from."""
    lines = (re.sub(r"^[+~ -]*(?:\[?\w+\]? )?\w+:?(?= |$)", "", line) for line in text.split("\n"))
    return " ".join(re.sub(r"\[[^\]]*\]|[\"'\\:]", " ", " ".join(lines)).split())


async def solve(browser: Any, task: str, url: str) -> bool:
    """Play one MiniWoB++ page; return whether its reward is above 0."""
    page = await browser.open(f"{url}/miniwob/{task}.html")
    before = page
    page = await browser.click(browser.find(page, "generic", "START"), look=True)
    page = f"{page}\n{before}" if isinstance(browser, Webtraj) else page
    goal = words(page)
    if task == "click-test":
        last = browser.find(page, "button", "Click Me!")
    elif task == "enter-text":
        word = re.search(r"Enter (\w+) into", goal)
        assert word, goal
        await browser.type(browser.find(page, "textbox"), word[1])
        last = browser.find(page, "button", "Submit")
    elif task == "click-checkboxes":
        wanted = re.search(r"Select (.+?) and click Submit", goal)
        assert wanted, goal
        for name in [] if wanted[1] == "nothing" else wanted[1].split(", "):
            await browser.click(browser.find(page, "checkbox", name))
        last = browser.find(page, "button", "Submit")
    else:
        said = re.search(r"username (\S+) and the password (\S+) into", goal)
        assert said, goal
        boxes = re.findall(r"\[(?:ref=)?(\w+)\] textbox|textbox.*?\[ref=(\w+)\]", page)
        user, password = ("".join(box) for box in boxes[-2:])
        await browser.type(user, said[1])
        await browser.type(password, said[2])
        last = browser.find(page, "button", "Login")
    page = await browser.click(last, look=True)
    # The first number on the page is the last reward; webtraj sends it as a changed line.
    reward = re.search(r'(?:Last reward: |^~ +\[\w+\] generic ")(-?[\d.]+)', page, re.MULTILINE)
    return bool(reward) and float(reward[1]) > 0


async def use_long(browser: Any, url: str) -> None:
    """Tick and type on the long page, and see the page after each."""
    page = await browser.open(f"{url}/long.html")
    boxes = re.findall(r"\[(\w+)\] checkbox|checkbox.*?\[ref=(\w+)\]", page)[:ROUNDS]
    field = browser.find(page, "textbox", "Search")
    for number, box in enumerate(boxes):
        await browser.click("".join(box), look=True)
        await browser.type(field, f"word {number}", look=True)


# Measuring.


@contextlib.asynccontextmanager
async def started(kind: type[Any], url: str) -> AsyncIterator[Any]:
    """Start a server and yield it."""
    with tempfile.TemporaryDirectory() as out:
        async with Client(stdio_client(kind.server(out, url))) as client:
            yield kind(client)


async def measure(kind: type[Any], url: str, tries: int) -> dict[str, Any]:
    """Return one server's texts, seconds and calls."""
    async with started(kind, url) as browser:
        tools = [t.model_dump(exclude_none=True) for t in (await browser.client.list_tools()).tools]
        await browser.begin()
        await browser.open(f"{url}/miniwob/click-test.html")  # Starts the browser.
        per_task = {}
        for task in TASKS:
            solved, before = 0, len(browser.calls)
            for _ in range(tries):
                solved += await solve(browser, task, url)
            calls = browser.calls[before:]
            seconds = sum(each for _, each, _ in calls) / tries
            texts = [text for _, _, text in calls]
            per_task[task] = (solved, len(calls) / tries, seconds, texts)
        short = browser.calls[:]
        await browser.renew()  # The passwords of login-user are of another session.
        browser.calls = []
        await use_long(browser, url)
        whole = await browser.look()
        long = browser.calls[:-1]
    return {
        "tools": json.dumps(tools),
        "tasks": per_task,
        "short": short,
        "whole": whole,
        "first": [
            text for _, _, text in long[: len(long) - len(long) // (2 * ROUNDS) * 2 * ROUNDS]
        ],
        "long": long,
    }


def tokens(texts: list[str]) -> list[int]:
    """Return the number of tokens of each text."""
    script = NODE / "count.mjs"
    script.write_text(COUNT)
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    return [int(n) for n in json.loads(done.stdout)]


def size(texts: list[str], each: int = 1) -> str:
    """Return bytes and tokens of texts, divided among `each`."""
    total = sum(len(text.encode()) for text in texts) / each
    return f"{total:10,.0f} bytes {sum(tokens(texts)) / each:8,.0f} tokens"


def milliseconds(seconds: list[float]) -> str:
    """Return median and 95th percentile."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return f"{1e3 * statistics.median(ordered):6.0f} / {1e3 * high:6.0f} ms"


def report(name: str, got: dict[str, Any], tries: int) -> None:
    """Print one server's figures."""
    print(f"\n{name}")
    print(f"  list of tools           {size([got['tools']])}")
    for task, (solved, calls, taken, texts) in got["tasks"].items():
        print(
            f"  {task:22}  {size(texts, tries)}  {calls:4.1f} calls  {taken:5.1f} s  "
            f"{solved}/{tries} solved"
        )
    print(f"  long page, once         {size([got['whole']])}")
    acted = [text for _, _, text in got["long"]][len(got["first"]) :]
    print(f"  long page, an action    {size(acted, 2 * ROUNDS)}")
    for what, made in (("MiniWoB++", got["short"]), ("long page", got["long"])):
        for tool in dict.fromkeys(tool for tool, _, _ in made):
            seconds = [each for name, each, _ in made if name == tool]
            if len(seconds) > 2:
                print(f"  {what}, {tool:20} {milliseconds(seconds)}  ({len(seconds)} calls)")


def main() -> None:
    """Measure both servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5)
    tries = parser.parse_args().tries
    if not (NODE / "node_modules").exists():
        subprocess.run(["npm", "install", "--prefix", str(NODE), *PACKAGES], check=True)
    with pages() as url:
        for kind in (Webtraj, Quick, Playwright):
            report(kind.name, asyncio.run(measure(kind, url, tries)), tries)


if __name__ == "__main__":
    main()
