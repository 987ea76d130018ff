"""Guards against slowing down: what each part costs, as a multiple of plain Python's way.

    make bench-ratios        (or: .venv/bin/python benchmarks/ratios.py [--save NOTE] [ROW ...])

Each row does the same work twice, webtraj's way and a plain way, in turns in one process. A cost is
processor time: of this process and the ones that it starts, for browsers of the whole process tree.
So a busy or slow machine changes a ratio far less than it changes seconds. The table shows the
median ratio of all turns with its range, beside the last one in `benchmarks/ratios.jsonl`; with
`--save` it becomes the next line there. Nothing fails: a person judges.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import gc
import os
import pickle
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
from playwright.async_api import async_playwright
from rich.console import Console
from rich.table import Table

import recording
import replay
import storage
import webtraj
from process_tree import ProcessTree
from webtraj.datasets.transfer import convert
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import MiniwobEnvironment, tasks
from webtraj.training.replay import Filters, ReplayBuffer

HISTORY = Path(__file__).with_name("ratios.jsonl")
CLICKS = 4

Way = Callable[[], Any]
"""Does the work once. The first of a pair is webtraj's."""


def seconds_used(ways: tuple[Way, Way], turns: int) -> Iterator[tuple[float, float]]:
    """Yields the processor time of both ways, a turn at a time; the first turn is not counted."""
    for turn in range(turns + 1):
        pair = []
        for way in ways:
            gc.collect()  # Or one way pays for what the other left.
            began = _used()
            way()
            pair.append(_used() - began)
        if turn:
            yield pair[0], pair[1]


def _used() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def wrapping(place: Path) -> tuple[Way, Way]:
    """A step that takes no time, wrapped with the null collector; bare."""

    async def play(env: Any) -> None:
        await env.reset()
        for action in range(20_000):
            await env.step(action)

    def bare() -> Any:
        return recording.BareEnvironment([{"x": 1}], None)

    def wrapped() -> Any:
        return webtraj.TrajectoryCollectingEnvironment(bare(), webtraj.NullTrajectoryCollector())

    return lambda: asyncio.run(play(wrapped())), lambda: asyncio.run(play(bare()))


def web_steps(place: Path) -> tuple[Way, Way]:
    """Web steps with a new screenshot, collected as JSON; a pickle for each step."""
    seen = recording.observations(300)
    ways = recording.ways(seen)

    def record(name: str) -> Way:
        return lambda: asyncio.run(recording.web_step(ways[name], len(seen)))

    return record("webtraj JSON, fsync episode"), record("pickle a step, no fsync")


def scanning(collector: Any) -> Callable[[Path], tuple[Way, Way]]:
    """Small steps, read episode by episode; one pickle of the same as plain dictionaries."""

    def prepare(place: Path) -> tuple[Way, Way]:
        steps = 20_000
        episodes = storage.small_episodes(steps)
        asyncio.run(storage.collect(collector(place / "small", fsync="never"), episodes))
        content = pickle.dumps(storage.plain_trajectories(episodes))

        def scan() -> None:
            assert sum(len(each.steps) for each in webtraj.open_dataset(place / "small")) == steps

        return scan, lambda: pickle.loads(content)

    return prepare


def opening(place: Path) -> tuple[Way, Way]:
    """The index of 20,000 episodes, opened; its lines, parsed."""
    root = storage.make_many(20_000, place / "many")
    lines = [line for file in sorted((root / "index").iterdir()) for line in file.open("rb")]
    return lambda: len(webtraj.open_dataset(root)), lambda: [orjson.loads(line) for line in lines]


def converting(place: Path) -> tuple[Way, Way]:
    """200 small episodes from JSON to `.pb.zst`; the same files, parsed and deflated."""
    collector = webtraj.JsonTrajectoryCollector(place / "small", fsync="never")
    asyncio.run(storage.collect(collector, storage.small_episodes(10_000)))
    contents = [path.read_bytes() for path in place.glob("small/episodes/*.json")]

    def ours() -> None:
        convert(place / "small", place / "copy", format="pb.zst")
        shutil.rmtree(place / "copy")

    def plain() -> None:
        for content in contents:
            zlib.compress(orjson.dumps(orjson.loads(content)))

    return ours, plain


def filling(place: Path) -> tuple[Way, Way]:
    """A replay buffer of 10,000 steps; the same files, parsed."""
    replay.make(place, 10_000)
    places = sorted(path for path in place.iterdir() if path.is_dir())
    files = sorted(place.glob("*/episodes/*.json"))

    def ours() -> None:
        filters = Filters(filter_successful_only=False)
        assert len(ReplayBuffer.from_datasets(places, filters=filters)) == 10_000

    return ours, lambda: [orjson.loads(file.read_bytes()) for file in files]


def starting(*arguments: str) -> Callable[[Path], tuple[Way, Way]]:
    """A new Python that does this; one that does nothing."""

    def start(*words: str) -> Way:
        return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)

    return lambda place: (start(*arguments), start("-c", "pass"))


ROWS: dict[str, Callable[[Path], tuple[Way, Way]]] = {
    "wrapper, a step": wrapping,
    "record a web step": web_steps,
    "scan, JSON": scanning(webtraj.JsonTrajectoryCollector),
    "scan, .pb": scanning(webtraj.ProtobufTrajectoryCollector),
    "open an index": opening,
    "convert to .pb.zst": converting,
    "fill a replay buffer": filling,
    "import webtraj": starting("-c", "import webtraj"),
    "webtraj --help": starting("-m", "webtraj", "--help"),
}
BROWSER_ROWS = {"browser, text": ("axtree",), "browser, picture": ("axtree", "screenshot")}


async def browser_turns(
    channels: tuple[str, ...], turns: int
) -> AsyncIterator[tuple[float, float]]:
    """Yields the processor time of a click and what is then observed, webtraj's and Playwright's.

    Both play in a page that is open already. Playwright's reads the page's whole HTML instead of an
    accessibility tree, and waits for nothing that a click brings about.
    """
    tree = ProcessTree()
    page_of_task = (tasks.html_folder() / "miniwob" / "click-checkboxes.html").as_uri()

    async def used(work: Awaitable[int]) -> float:
        began = tree.cpu_seconds()
        steps = await work
        return (tree.cpu_seconds() - began) / steps

    async def ours(env: MiniwobEnvironment) -> int:
        steps = 0
        for _ in range(20):
            timestep = await env.reset()
            while not timestep.last():
                timestep = await env.step(await env.cheat())
                steps += 1
        return steps

    async def plain(page: Any) -> int:
        for _ in range(20):
            await page.goto(page_of_task)
            await page.evaluate("core.startEpisodeReal()")
            for number in range(CLICKS):
                await page.locator("#boxes input").nth(number % 2).click()
                await page.content()
                if "screenshot" in channels:
                    await page.screenshot(type="jpeg")
        return 20 * CLICKS

    async with contextlib.AsyncExitStack() as stack:
        pool = await stack.enter_async_context(BrowserPool(contexts_per_browser=1))
        env = MiniwobEnvironment("click-checkboxes", pool=pool, observe=channels)
        stack.push_async_callback(env.close)
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=find_browser().path)
        stack.push_async_callback(browser.close)
        page = await browser.new_page(viewport={"width": 1280, "height": 720})
        for turn in range(turns + 1):
            pair = await used(ours(env)), await used(plain(page))
            if turn:
                yield pair


async def _all(turns: AsyncIterator[tuple[float, float]]) -> list[tuple[float, float]]:
    return [pair async for pair in turns]


def measure(name: str, turns: int) -> list[float]:
    """Returns the ratio of each turn of a row."""
    if name in BROWSER_ROWS:
        pairs = asyncio.run(_all(browser_turns(BROWSER_ROWS[name], turns)))
    else:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            pairs = list(seconds_used(ROWS[name](Path(folder)), turns))
    return [ours / plain for ours, plain in pairs]


def main() -> None:
    """Measure, show, and save if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", default=[*ROWS, *BROWSER_ROWS])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--save", metavar="NOTE", help="append to the history, with this note")
    options = parser.parse_args()
    unknown = sorted({*options.rows} - {*ROWS, *BROWSER_ROWS})
    if unknown:
        parser.error(f"no row {unknown[0]!r}; the rows: {', '.join([*ROWS, *BROWSER_ROWS])}")
    history = [orjson.loads(line) for line in HISTORY.open("rb")] if HISTORY.exists() else []
    table = Table("processor time", "of plain Python's", "range", "last saved", "change")
    medians: dict[str, float] = {}
    for name in options.rows:
        ratios = measure(name, options.turns)
        now = medians[name] = round(statistics.median(ratios), 2)
        before = next((each["ratios"][name] for each in history[::-1] if name in each["ratios"]), 0)
        table.add_row(
            name,
            f"{now:.2f}",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            f"{before:.2f}" if before else "",
            f"{now / before - 1:+.0%}" if before else "",
        )
    console = Console(width=100)
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    console.print(table)
    if options.save:
        line = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "note": options.save,
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
            "ratios": medians,
        }
        with HISTORY.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")


if __name__ == "__main__":
    main()
