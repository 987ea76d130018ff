"""How the cost of browser environments grows with their number, and with what their pages do.

    make bench-browser_growth        (or: .venv/bin/python benchmarks/browser_growth.py)
    .venv/bin/python benchmarks/browser_growth.py --pages        the second part alone

From 1 to 64 environments, each in a context of its own, play MiniWoB++'s `login-user` by its oracle
at the same time, observing text.

* steps/s: steps over wall time, resets and the oracle's looks at the page included.
* CPU ms: user and system time of the whole process tree (Python, driver, browsers) for each step.
* limit: the steps/s at which that CPU time alone would fill all of the machine's cores, and the
  share of the limit that was reached. On a machine that is busy with something else it is small.
Then 8 and 64 environments without a pool begin their first episodes at once, in the pool that they
share: `start` is the time until the last has its first observation.

* MiB, processes: of the whole tree while all environments are open; MiB counts the memory that is
  shared with no other process. `/context` is what each context more than the first took.

The second part opens pages of the preset `web` that are at rest, restless or large, and links that
lead to no page, and clicks three times in each: seconds by the clock, of which many are waits, and
processor time of the whole tree, which a busy machine changes less; medians of the clicks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table

import webtraj
from process_tree import ProcessTree
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment

TASK = "login-user"
TEXT = ("goal", "url", "axtree", "focused", "last_action", "info")
COUNTS = (1, 2, 4, 8, 16, 32, 64)
LEAST = 60
"""Steps of each environment at least: a page's first episodes cost more than later ones."""


@dataclasses.dataclass
class Growth:
    """The cost of one number of contexts."""

    browsers: int
    contexts: int
    step_ms: float
    steps_per_s: float
    cpu_ms_per_step: float
    memory_mib: float
    processes: int
    solved: float


async def measure(browsers: int, contexts: int, *, steps: int) -> Growth:
    """Plays at least `steps` steps, in `contexts` environments over `browsers` browsers."""
    tree = ProcessTree()
    latencies: list[float] = []
    rewards: list[float] = []

    async def play(environment: MiniwobEnvironment, least: int) -> None:
        taken = 0
        while taken < least:
            timestep = await environment.reset()
            while not timestep.last():
                action = await environment.cheat()
                started = time.perf_counter()
                timestep = await environment.step(action)
                latencies.append(time.perf_counter() - started)
                taken += 1
            rewards.append(timestep.reward)

    each = max(steps // contexts, LEAST)
    async with BrowserPool(browsers, -(-contexts // browsers)) as pool:
        environments = [
            MiniwobEnvironment(TASK, pool=pool, observe=TEXT, seed=1000 * i)
            for i in range(contexts)
        ]
        await asyncio.gather(*(play(environment, 1) for environment in environments))
        latencies.clear()
        rewards.clear()
        cpu, started = tree.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(play(environment, each) for environment in environments))
        wall, cpu = time.perf_counter() - started, tree.cpu_seconds() - cpu
        memory, processes = tree.private_bytes(), tree.count()
        await asyncio.gather(*(environment.close() for environment in environments))
    return Growth(
        browsers=browsers,
        contexts=contexts,
        step_ms=statistics.median(latencies) * 1e3,
        steps_per_s=len(latencies) / wall,
        cpu_ms_per_step=cpu / len(latencies) * 1e3,
        memory_mib=memory / 2**20,
        processes=processes,
        solved=sum(reward == 1 for reward in rewards) / len(rewards),
    )


@dataclasses.dataclass
class Start:
    """The cost of environments that begin at once, without a pool of their own."""

    environments: int
    start_s: float
    memory_mib: float
    processes: int


async def measure_start(number: int) -> Start:
    """Begins an episode in each of so many environments at once."""
    tree = ProcessTree()
    environments = [MiniwobEnvironment("click-button", seed=i) for i in range(number)]
    started = time.perf_counter()
    await asyncio.gather(*(environment.reset() for environment in environments))
    seconds = time.perf_counter() - started
    memory, processes = tree.private_bytes(), tree.count()
    await asyncio.gather(*(environment.close() for environment in environments))
    return Start(number, seconds, memory / 2**20, processes)


GO = "<button>Go</button><p id=p>Text</p>"
ANIMATION = "<style>@keyframes k { to { opacity: 0 } } p { animation: k 1s infinite }</style>"


def restless(script: str) -> str:
    return f"{GO}<script>{script}</script>"


def many(number: int, html: str) -> str:
    return GO + "".join(html.replace("#", str(i)) for i in range(number))


def link(path: str) -> str:
    return f"<a href='{path}'>Go</a>"


PAGES: Mapping[str, str] = {
    "at rest": GO,
    "CSS animation": ANIMATION + GO,
    "one-second clock": restless("setInterval(() => { p.textContent = Date.now() }, 1000)"),
    "setInterval(fetch, 200)": restless("setInterval(() => fetch('/n'), 200)"),
    "text every 10 ms": restless("setInterval(() => { p.textContent = performance.now() }, 10)"),
    "style by requestAnimationFrame": restless(
        "const f = t => { p.style.opacity = t % 900 / 900; requestAnimationFrame(f) }; f(0)"
    ),
    "link to a download": link("/file"),
    "link to a PDF": link("/pdf"),
    "link to a 204": link("/nothing"),
    "link to mailto": link("mailto:a@example.com"),
    "20,000 links": many(20_000, "<a href='#x#'>Link #</a> "),
    "50,000 links": many(50_000, "<a href='#x#'>Link #</a> "),
    "100,000 links": many(100_000, "<a href='#x#'>Link #</a> "),
    "20,000 table cells": GO + f"<table>{many(2000, '<tr>' + '<td>#</td>' * 10)}</table>",
    "20,000 options": GO + f"<select>{many(20_000, '<option>Option #')}</select>",
    "20,000 buttons with listeners": many(
        20_000, "<button onclick='p.title = 1'>Button #</button>"
    ),
    "10,000 labelled boxes": many(10_000, "<label>Box # <input type=checkbox></label>"),
    "5,000 paragraphs, 1.2 MB": many(5_000, f"<p>{'lorem ipsum ' * 20}#</p>"),
    "one text of 1.2 MB": GO + f"<p>{'lorem ipsum ' * 100_000}</p>",
    "500 elements in each other": GO + "<div>" * 500 + "<a href=x>inner</a>",
    "100 frames": many(100, "<iframe srcdoc='<button>Inner #</button>'></iframe>"),
    "a list that shows 25 of 20,000 rows": restless(
        """
        p.style.cssText = "display: block; height: 400000px; position: relative";
        const row = number =>
          `<button style="position: absolute; top: ${20 * number}px">Row ${number}</button>`;
        onscroll = () => {
          const first = scrollY / 20 | 0;
          p.innerHTML = Array.from({length: 25}, (_, i) => row(first + i)).join("");
        };
        onscroll();
        """
    ),
}
"""HTML by what is measured."""


class Site(BaseHTTPRequestHandler):
    """A page at `/`, and what its links and scripts ask for."""

    page: ClassVar[str]
    answers: ClassVar[Mapping[str, tuple[int, str, bytes]]] = {
        "/n": (200, "text/plain", b"1"),
        "/file": (200, "application/zip", b"PK"),
        "/pdf": (200, "application/pdf", b"%PDF-1.4"),
        "/nothing": (204, "text/plain", b""),
    }

    def do_GET(self) -> None:
        whole = (200, "text/html", f"<!doctype html><body>{self.page}".encode())
        status, kind, body = self.answers.get(self.path, whole)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        with contextlib.suppress(OSError):  # The browser has left.
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(page: str) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Page", (Site,), {"page": page}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


@dataclasses.dataclass
class PageCost:
    """The cost of one kind of page."""

    page: str
    reset_s: float
    reset_cpu_s: float
    step_s: float
    step_cpu_s: float
    lines: int
    left_out: str


async def measure_page(name: str) -> PageCost:
    """Opens a page and clicks its first element, three times."""
    tree, seconds, processor = ProcessTree(), [], []
    with serving(PAGES[name]) as url:
        task = webtraj.WebTask(goal="Look.", start_url=url)
        async with webtraj.make("web", task=task, observe=TEXT) as env:
            await env.reset()  # Starts the browser.
            for step in range(4):
                cpu, started = tree.cpu_seconds(), time.perf_counter()
                timestep = await (env.step("click('1')") if step else env.reset())
                seconds.append(time.perf_counter() - started)
                processor.append(tree.cpu_seconds() - cpu)
                if not step:
                    lines = timestep.observation["axtree"].splitlines()
    left_out = lines[-1] if lines[-1].startswith("...") else ""
    return PageCost(
        page=name,
        reset_s=seconds[0],
        reset_cpu_s=processor[0],
        step_s=statistics.median(seconds[1:]),
        step_cpu_s=statistics.median(processor[1:]),
        lines=len(lines),
        left_out=left_out,
    )


def show_pages(pages: list[PageCost]) -> None:
    title = f"A page of the preset web ({find_browser().version})"
    table = Table(title=title, caption=f"load of the machine: {os.getloadavg()[0]:.1f}")
    table.add_column("page", no_wrap=True)
    for heading in ("reset s", "CPU s", "step s", "CPU s", "lines", "left out"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cost in pages:
        times = (cost.reset_s, cost.reset_cpu_s, cost.step_s, cost.step_cpu_s)
        cells = [f"{value:.2f}" for value in times]
        table.add_row(cost.page, *cells, str(cost.lines), cost.left_out)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="for each number of contexts")
    parser.add_argument("--contexts", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--pages", action="store_true", help="measure pages alone")
    parser.add_argument("--only", nargs="+", default=tuple(PAGES), help="these pages alone")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    pages = [asyncio.run(measure_page(name)) for name in options.only]
    show_pages(pages)
    if options.json and options.pages:
        options.json.write_text(json.dumps([dataclasses.asdict(row) for row in pages], indent=1))
    if options.pages:
        return
    measured = [
        asyncio.run(measure(browsers, contexts, steps=options.steps))
        for browsers in (1, 2)
        for contexts in options.contexts
        if browsers <= contexts
    ]
    show(measured)
    starts = [asyncio.run(measure_start(n)) for n in (8, 64) if n in options.contexts]
    show_starts(starts)
    if options.json:
        rows = [dataclasses.asdict(row) for row in (*measured, *starts, *pages)]
        options.json.write_text(json.dumps(rows, indent=1))


def show_starts(starts: list[Start]) -> None:
    table = Table(title="environments without a pool, begun at once")
    for heading in ("environments", "start s", "MiB", "processes"):
        table.add_column(heading, justify="right")
    for start in starts:
        table.add_row(
            str(start.environments),
            f"{start.start_s:.1f}",
            f"{start.memory_mib:.0f}",
            str(start.processes),
        )
    Console().print(table)


def show(measured: list[Growth]) -> None:
    cores = len(os.sched_getaffinity(0))
    first = {m.browsers: m for m in reversed(measured)}
    title = f"Text steps of {TASK} on {cores} cores ({find_browser().version})"
    table = Table(title=title, caption=f"load of the machine: {os.getloadavg()[0]:.1f}")
    for heading in (
        "browsers",
        "contexts",
        "step ms",
        "steps/s",
        "CPU ms",
        "limit",
        "of limit",
        "MiB",
        "MiB/context",
        "processes",
        "solved",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in measured:
        limit = cores * 1000 / m.cpu_ms_per_step
        more = m.contexts - first[m.browsers].contexts
        extra = (m.memory_mib - first[m.browsers].memory_mib) / more if more else None
        table.add_row(
            str(m.browsers),
            str(m.contexts),
            f"{m.step_ms:.1f}",
            f"{m.steps_per_s:.0f}",
            f"{m.cpu_ms_per_step:.1f}",
            f"{limit:.0f}",
            f"{m.steps_per_s / limit:.0%}",
            f"{m.memory_mib:.0f}",
            "" if extra is None else f"{extra:.1f}",
            str(m.processes),
            f"{m.solved:.0%}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
