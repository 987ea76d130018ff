"""Real applications: what a world costs, and how fast tasks in them are played.

    python packages/webtraj-apps/benchmarks/apps.py [--apps shop ...] [--worlds 200] [--episodes 64]

The applications must be installed (`webtraj apps install --all`). The first table has, for each,
the state of a world on disk, the time to make and to throw away a world, and the time of the first
response without a browser (some redirect). The second has 32 worlds at once: responses a second of
all together, and the memory of the server with one world and with 32. The third plays oracles in a
browser, beside MiniWoB++ in the same run: episodes and steps a second, starting the browser
included, and the time of a reset.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

import webtraj
from webtraj.rollouts import RunSpec, collect
from webtraj_apps.app import App, World, find_app, find_apps

AT_ONCE = 32
PAGES = 4
"""Pages that each of the worlds at once is asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--apps", nargs="*", default=[app.name for app in find_apps() if app.installed]
    )
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--parallel", type=int, default=8)
    args = parser.parse_args()
    console = Console(width=120)
    apps = [find_app(name) for name in args.apps]
    costs = Table("application", "MB", "files", "make, ms", "discard, ms", "a page, ms")
    crowd = Table("application", f"pages/s, {AT_ONCE} worlds", "server, MB", f"with {AT_ONCE}, MB")
    for app in apps:
        one, many = asyncio.run(measured(app, args.worlds))
        costs.add_row(app.name, *one)
        crowd.add_row(app.name, *many)
    console.print(costs, crowd)
    played = Table("oracle", "episodes", "solved", "episodes/s", "steps/s", "reset, ms")
    for preset in ("miniwob/solved", *(f"apps/{app.name}/all" for app in apps)):
        played.add_row(preset, *play(preset, args.episodes, args.parallel))
    console.print(played)


async def measured(app: App, count: int) -> tuple[list[str], list[str]]:
    """Return the rows of the first two tables."""
    world = await app.world()
    files = [file for file in world.folder.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    server = psutil.Process(world._host.start().pid)
    await fetch(world)
    pages = [await timed(fetch(world)) for _ in range(20)]
    alone = memory(server)
    made, gone = [], []
    for _ in range(count):
        begun = time.perf_counter()
        other = await app.world()
        made.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        other.discard()
        gone.append(time.perf_counter() - begun)
    worlds = [await app.world(number) for number in range(AT_ONCE)]
    begun = time.perf_counter()
    await asyncio.gather(*(several(one) for one in worlds))
    rate = AT_ONCE * PAGES / (time.perf_counter() - begun)
    crowded = memory(server)
    return (
        [f"{size / 1e6:.1f}", str(len(files)), *map(ms, (made, gone, pages))],
        [f"{rate:.0f}", f"{alone:.0f}", f"{crowded:.0f}"],
    )


def memory(server: psutil.Process) -> float:
    """Return the memory of a server and its children, in MB."""
    every = (server, *server.children(recursive=True))
    return sum(process.memory_full_info().pss for process in every) / 1e6


def ms(seconds: list[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.1f}"


async def timed(fetching: asyncio.Future[None]) -> float:
    begun = time.perf_counter()
    await fetching
    return time.perf_counter() - begun


async def several(world: World) -> None:
    for _ in range(PAGES):
        await fetch(world)


async def fetch(world: World) -> None:
    """Ask for the first page of the user, as a browser's proxy hands the request over."""
    jar = world.facts["cookies"].get(world.facts["user"], {})
    cookies = "; ".join(f"{name}={value}" for name, value in jar.items())
    reader, writer = await world._host.connect()
    writer.write(
        f"WORLD {world.name}\nGET / HTTP/1.1\r\nHost: {world.app.host}\r\nAccept: text/html\r\n"
        f"Cookie: {cookies}\r\n\r\n".encode()
    )
    answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.0 200", b"HTTP/1.0 302", b"HTTP/1.0 303")), answer[:200]


def play(preset: str, episodes: int, parallel: int) -> list[str]:
    """Return the row of a preset in the third table."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "played"
        options = {"observe": ("goal", "url", "axtree", "last_action", "info", "timings")}
        begun = time.perf_counter()
        asyncio.run(
            collect(
                RunSpec(
                    preset=preset,
                    agent="oracle",
                    episodes=episodes,
                    parallel=parallel,
                    out=out,
                    environment_options=options,
                )
            )
        )
        seconds = time.perf_counter() - begun
        dataset = webtraj.open_dataset(out)
        steps = sum(summary.num_steps for summary in dataset.summaries)
        solved = sum(summary.outcome is webtraj.Outcome.SUCCESS for summary in dataset.summaries)
        resets = [episode.steps[0].end_time - episode.steps[0].start_time for episode in dataset]
    return [
        str(episodes), f"{solved / episodes:.0%}", f"{episodes / seconds:.1f}",
        f"{steps / seconds:.0f}", ms(resets),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
