"""What asking a model costs on the client's side, beside the `openai` package.

    make bench-agents        (or: .venv/bin/python benchmarks/agents.py; needs `pip install openai`)

In the first two tables each call sends a conversation with a 100 KB screenshot and 20 KB of text to
a fake model server, which runs in a process of its own:

1. One call after the other: CPU time of the client's process for each call, with a screenshot that
   is new, and with one that was sent before.
2. Many calls at once: the server answers after half a second. How many it held at once, calls a
   second, and CPU a call.
3. Whole rollouts: a model agent plays MiniWoB++ in a browser and everything is recorded, against a
   server that answers after 0.2 s. Where the episodes' time went, from their records alone. The
   aim is that at most 5 % is neither model nor environment.

The `openai` package gets the conversation as its users give it: the picture is put into base64 for
each call, and the reply is parsed into its own types. It keeps no record. Ways alternate in random
order, and the best of several runs is shown, since all else on the machine only makes a run slower.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import httpx
import httpx2
from rich.console import Console
from rich.table import Table

from webtraj import open_dataset
from webtraj.agents import models
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import endpoint
from webtraj.metrics.facts import PhaseTimes, phase_times
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer, ModelRequest, Reply

SCREENSHOT, TEXT, HOLD = 100_000, 20_000, 0.5
THINKING = 0.2
MODEL = "fake-model"

Ask = Callable[[bytes], Awaitable[Any]]
Way = Callable[[str, int], contextlib.AbstractAsyncContextManager[Ask]]


def serve(delay: float) -> None:
    """Answers until stdin ends."""

    def click_a_button(request: ModelRequest) -> Reply:
        button = re.search(r"\[(\w+)\] button", request.text)
        return Reply(f"click('{button[1] if button else 12}')", delay=delay)

    with FakeModelServer(click_a_button) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(server.peak, flush=True)
            server.peak = 0
            server.requests.clear()
            server.visits.clear()


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        self.url = process.stdout.readline().strip()

    def peak(self) -> int:
        """Returns how many requests it has held at once since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def server_process(delay: float) -> Iterator[Server]:
    command = [sys.executable, __file__, "--serve", str(delay)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def text() -> str:
    return random.Random(0).randbytes(TEXT // 2).hex()


@contextlib.asynccontextmanager
async def webtraj_client(url: str, concurrency: int, **options: Any) -> AsyncIterator[Ask]:
    page = text()
    async with models.OpenAICompatibleClient(
        MODEL, url, max_concurrency=concurrency, **options
    ) as client:

        async def ask(picture: bytes) -> Any:
            message = models.Message.of("user", page, models.Image(picture))
            return await client.complete([message])

        yield ask


def over(library: Any) -> Way:
    """Returns webtraj's client with its connections over a library."""

    @contextlib.asynccontextmanager
    async def client(url: str, concurrency: int) -> AsyncIterator[Ask]:
        usual, endpoint.httpx = endpoint.httpx, library
        try:
            async with webtraj_client(url, concurrency) as ask:
                yield ask
        finally:
            endpoint.httpx = usual

    return client


@contextlib.asynccontextmanager
async def openai_client(url: str, concurrency: int) -> AsyncIterator[Ask]:
    import openai

    page = text()
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:

        async def ask(picture: bytes) -> Any:
            data = base64.b64encode(picture).decode()
            content = [
                {"type": "text", "text": page},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
            ]
            return await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": content}]
            )

        yield ask


def alone(library: Any) -> Way:
    """Returns a library's own client, with a pool as large as needed."""

    @contextlib.asynccontextmanager
    async def client(url: str, concurrency: int) -> AsyncIterator[Ask]:
        page = text()
        limits = library.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        async with library.AsyncClient(timeout=None, limits=limits) as client:

            async def ask(picture: bytes) -> Any:
                data = base64.b64encode(picture).decode()
                content = [
                    {"type": "text", "text": page},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
                ]
                body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
                return (await client.post(f"{url}/chat/completions", json=body)).json()

            yield ask

    return client


WAYS: dict[str, Way] = {
    "webtraj, as of vLLM: with token ids, logprobs, weight version": over(httpx),
    "the same over httpx2": over(httpx2),
    "webtraj, asking for no token ids and logprobs": lambda url, concurrency: webtraj_client(
        url, concurrency, token_ids=False, logprobs=False
    ),
    "webtraj, as of OpenAI": lambda url, concurrency: webtraj_client(
        url, concurrency, kind="openai"
    ),
    "openai package": openai_client,
    "httpx2 alone": alone(httpx2),
    "httpx alone": alone(httpx),
}


def pictures(count: int) -> list[bytes]:
    return [b"\x89PNG\r\n\x1a\n" + os.urandom(SCREENSHOT - 8) for _ in range(count)]


async def one_by_one(way: Way, url: str, seen: Sequence[bytes]) -> float:
    """Returns milliseconds of CPU a call."""
    async with way(url, 1) as ask:
        await ask(pictures(1)[0])
        cpu = time.process_time()
        for picture in seen:
            await ask(picture)
        return (time.process_time() - cpu) / len(seen) * 1e3


async def at_once(way: Way, server: Server, concurrency: int, rounds: int) -> tuple[float, ...]:
    """Returns how many were held at once, calls a second, and milliseconds of CPU a call."""
    seen = pictures(16)
    async with way(server.url, concurrency) as ask:
        # Connections are opened, and the server is asked what it is, before the clock starts.
        await asyncio.gather(*(ask(seen[0]) for _ in range(concurrency)))
        server.peak()

        async def episode(number: int) -> None:
            for turn in range(rounds):
                await ask(seen[(number + turn) % len(seen)])

        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(episode, range(concurrency)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    calls = concurrency * rounds
    return server.peak(), calls / wall, cpu / calls * 1e3


async def roll_out(url: str, parallel: int, episodes: int, images: bool) -> tuple[PhaseTimes, int]:
    """Plays; returns where the time went, and the number of steps."""
    agent = ModelAgent(
        client=models.OpenAICompatibleClient(MODEL, base_url=url, max_concurrency=parallel),
        context=ContextSettings(images=images),
    )
    with tempfile.TemporaryDirectory() as out:
        await collect(
            RunSpec(
                preset="miniwob/click-button",
                episodes=episodes,
                parallel=parallel,
                out=out,
                environment_options={"observe": [*agent.channels, "timings", "info"]},
            ),
            agent=agent,
        )
        await agent.aclose()
        dataset = open_dataset(out, blobs="lazy")
        steps = sum(summary.num_steps for summary in dataset.summaries)
        return sum(map(phase_times, dataset), PhaseTimes()), steps


def shuffle_ways(ways: dict[str, Way]) -> list[tuple[str, Way]]:
    return random.sample(list(ways.items()), len(ways))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve)
        return
    ways = dict(WAYS)
    if args.without_peers:
        del ways["openai package"]
    console = Console(width=120)
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")

    new, old = pictures(args.calls), pictures(1) * args.calls
    best = {name: [float("inf")] * 2 for name in ways}
    with server_process(0) as server:
        for _ in range(args.repeats):
            for name, way in shuffle_ways(ways):
                for column, seen in enumerate((new, old)):
                    used = asyncio.run(one_by_one(way, server.url, seen))
                    best[name][column] = min(best[name][column], used)
                server.peak()
    table = Table("one call after the other: ms of CPU a call", "new picture", "same picture")
    for name, figures in best.items():
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    console.print(table)

    for concurrency in (64, 256):
        held: dict[str, tuple[float, ...]] = {}
        with server_process(HOLD) as server:
            for _ in range(args.repeats):
                for name, way in shuffle_ways(ways):
                    row = asyncio.run(at_once(way, server, concurrency, args.rounds))
                    if name not in held or row[2] < held[name][2]:
                        held[name] = row
        table = Table(
            f"{concurrency} at once, each {HOLD} s", "held at once", "calls/s", "ms of CPU a call"
        )
        for name in ways:
            peak, rate, cpu = held[name]
            table.add_row(name, f"{peak}", f"{rate:.0f}", f"{cpu:.2f}")
        console.print(table)

    table = Table(
        f"rollouts, {THINKING} s a reply", "model", "environment", "neither", "neither, ms a step"
    )
    with server_process(THINKING) as server:
        for images in (False, True):
            for parallel in (1, 8):
                split, steps = asyncio.run(roll_out(server.url, parallel, args.episodes, images))
                browser = split.act + split.settle + split.observe + split.reset + split.environment
                neither = split.waiting + split.other
                table.add_row(
                    f"{parallel} at once, {'with pictures' if images else 'text alone'}",
                    *(
                        f"{100 * seconds / split.total:.1f} %"
                        for seconds in (split.model, browser, neither)
                    ),
                    f"{1000 * neither / steps:.1f}",
                )
    console.print(table)


if __name__ == "__main__":
    main()
