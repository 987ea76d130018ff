"""Rollouts per second through webtraj's OpenEnv server, beside OpenEnv's own BrowserGym server.

    git clone https://github.com/meta-pytorch/OpenEnv
    make bench-openenv THEIRS=OpenEnv

Both serve MiniWoB++ tasks of one click, from the same pages in the same browser. webtraj records
every episode meanwhile; OpenEnv's server records nothing. OpenEnv's own client drives both over
WebSockets, by the same policy: reset, then click the button that the goal names, or the page's
first one. Ways:

* webtraj, text: what `webtraj openenv serve` sends by default.
* webtraj, pictures: `--images` adds a JPEG to every observation.
* OpenEnv, as it ships: an accessibility tree, pruned HTML, and the screenshot as nested lists of
  numbers; BrowserGym's default delays. There are no switches for these.
* OpenEnv, lean: no screenshot is sent and all delays are zero. Their application cannot do that;
  `openenv_browsergym_server.py` does it from outside.

A server of theirs has one task, and one thread that plays all of its sessions. So each task has
servers of its own, as many as `--servers` says, with a client each. More numbers are more rows of
the lean way; the shipped way, which takes much longer, uses the first. webtraj has one server for
all tasks, with `--clients` clients.

All ways take turns, `--repeats` times. In each turn the servers start afresh, every client does a
reset that does not count, and then all play for `--seconds`, at least one rollout each. A client's
rate is its whole rollouts over the time they took; the way's is the sum. CPU is that of the whole
process tree, clients included. Medians, with the lowest and highest.

OpenEnv's server runs in `.venv-openenv-browsergym`, made on the first run from its own list of
packages. Without `--theirs` only webtraj's ways are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openenv import GenericEnvClient
from rich.console import Console
from rich.table import Table

import peers
import webtraj
from process_tree import ProcessTree
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob import tasks

TASKS = ("click-test", "click-button", "click-dialog")
BUTTON = re.compile(r"""\[(\w+)\] button ['"](.*?)['"]""")
MOST_STEPS = 5
LEAN = "openenv_browsergym_server:app"


@dataclasses.dataclass(frozen=True, slots=True)
class Seat:
    """What one client needs: a server, a task, and how that server says things."""

    url: str
    task: str
    reset: dict[str, Any]
    """Arguments of every reset."""
    action: str
    """The field of an action."""
    page: str
    """The field of an observation that has the page."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What one turn of a way took."""

    rollouts: int
    steps: int
    solved: int
    rate: float
    """Rollouts a second."""
    cpu: float
    """CPU seconds a rollout."""
    message_bytes: int
    """The size of an observation as JSON: the median of the first ones."""
    step_ms: float
    """Milliseconds from an action to its observation: the median."""
    recorded: int = 0
    """Episodes on the disk, those that do not count included."""


def choose(goal: str, page: str) -> str:
    """Returns the click on the button that the goal names, or on the page's first one."""
    buttons = BUTTON.findall(page)
    wanted = re.search('"(.*?)"', goal)
    named = [ref for ref, name in buttons if wanted and name.lower() == wanted[1].lower()]
    return f"click('{(named or [ref for ref, _ in buttons])[0]}')"


async def rollout(client: GenericEnvClient, seat: Seat, seed: int) -> tuple[list[float], float]:
    """Returns the milliseconds of each step, and the reward, of one episode."""
    result = await client.reset(seed=seed, **seat.reset)
    steps: list[float] = []
    while not result.done and len(steps) < MOST_STEPS:
        seen = result.observation
        action = {seat.action: choose(seen["goal"], seen[seat.page])}
        began = time.perf_counter()
        result = await client.step(action)
        steps.append(1000 * (time.perf_counter() - began))
    return steps, result.reward or 0.0


async def play(seats: list[Seat], seconds: float) -> Figures:
    """Plays with one client in each seat, all at once."""
    tree = ProcessTree()
    rates, steps, rewards = [], [], []

    async def work(number: int) -> None:
        played, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            played += 1
            seed = number * 10**6 + played  # No page twice.
            taken, reward = await rollout(clients[number], seats[number], seed)
            steps.append(taken)
            rewards.append(reward)
        rates.append(played / (time.perf_counter() - began))

    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                # Nor does it answer a client's.
                GenericEnvClient(
                    seat.url,
                    connect_timeout_s=600,
                    message_timeout_s=600,
                    websocket_ping_timeout_s=None,
                )
            )
            for seat in seats
        ]
        resets = (
            client.reset(seed=0, **seat.reset) for client, seat in zip(clients, seats, strict=True)
        )
        firsts = [len(json.dumps(one.observation)) for one in await asyncio.gather(*resets)]
        cpu = tree.cpu_seconds()
        await asyncio.gather(*(work(number) for number in range(len(seats))))
        cpu = tree.cpu_seconds() - cpu
    return Figures(
        rollouts=len(steps),
        steps=sum(map(len, steps)),
        solved=sum(reward > 0 for reward in rewards),
        rate=sum(rates),
        cpu=cpu / len(steps),
        message_bytes=round(statistics.median(firsts)),
        step_ms=statistics.median(one for taken in steps for one in taken),
    )


# Servers.


@contextlib.contextmanager
def running(command: list[Any], log: Path, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A process, ended with Ctrl-C as a person would; what it prints as errors goes to `log`."""
    with log.open("a") as file:
        process = subprocess.Popen(command, stderr=file, text=True, **settings)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def ours(clients: int, images: str, place: Path) -> Iterator[list[Seat]]:
    """One server of webtraj, which records to `place / "out"`."""
    presets = [f"miniwob/{task}" for task in TASKS]
    command = [
        *(sys.executable, "-m", "webtraj", "openenv", "serve", *presets),
        *("--sessions", str(clients), "--dialect", "browsergym", "--port", "0"),
        *("--out", place / "out", images),
    ]
    with running(command, place / "log", stdout=subprocess.PIPE) as process:
        assert process.stdout
        said = re.search(r"http://\S+[0-9]", process.stdout.readline())
        if not said:
            raise RuntimeError(f"webtraj's server did not start: {(place / 'log').read_text()}")
        used = [TASKS[number % len(TASKS)] for number in range(clients)]
        yield [Seat(said[0], task, {"task": task}, "text", "page") for task in used]


@contextlib.contextmanager
def theirs(servers: int, python: Path, app: str, place: Path) -> Iterator[list[Seat]]:
    """As many servers of OpenEnv's for each task."""
    variables = peers.browsergym_variables(
        python, place / "browsers", find_browser().path or "", tasks.html_folder() / "miniwob"
    )
    seats, started = [], {}
    with contextlib.ExitStack() as stack:
        for task in TASKS * servers:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port = listener.getsockname()[1]
            server = running(
                [
                    *(python, "-m", "uvicorn", app, "--port", str(port)),
                    # While it encodes a screenshot, a server sees no answer to its pings.
                    *("--log-level", "error", "--ws-ping-timeout", "600"),
                ],
                place / "log",
                stdout=subprocess.DEVNULL,
                cwd=Path(__file__).parent,
                env={
                    **os.environ,
                    **variables,
                    "BROWSERGYM_TASK_NAME": task,
                    "MAX_CONCURRENT_ENVS": "1",
                    # Ten seconds by default, which a busy machine exceeds.
                    "BROWSERGYM_TIMEOUT": "120000",
                },
            )
            started[port] = stack.enter_context(server)
            seats.append(Seat(f"http://127.0.0.1:{port}", task, {}, "action_str", "axtree_txt"))
        for port, process in started.items():
            while not listens(port):
                if process.poll() is not None:
                    raise RuntimeError(f"OpenEnv's server ended: {(place / 'log').read_text()}")
                time.sleep(0.1)
        yield seats


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


# The run.

Way = Callable[[Path], contextlib.AbstractContextManager[list[Seat]]]


def their_python(checkout: Path) -> Path:
    """Returns the Python that has OpenEnv's server, with an environment made if it is missing."""
    package = checkout.resolve() / "envs" / "browsergym_env"
    # BrowserGym imports tqdm and does not ask for it.
    return peers.make_venv("openenv-browsergym", [str(package), "tqdm"])


def installed(python: Path) -> list[str]:
    """Returns the versions there of the packages that count."""
    program = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    names = ("openenv-core", "browsergym-core", "playwright")
    told = subprocess.run(
        [python, "-c", program, *names], check=True, stdout=subprocess.PIPE, text=True
    )
    return [f"{name} {found}" for name, found in zip(names, told.stdout.split(), strict=True)]


def ways(options: argparse.Namespace) -> dict[str, Way]:
    """Returns all ways by name, webtraj's first."""
    clients = options.clients
    found: dict[str, Way] = {
        f"webtraj, text, {clients} clients": functools.partial(ours, clients, "--no-images"),
        f"webtraj, pictures, {clients} clients": functools.partial(ours, clients, "--images"),
    }
    if not options.theirs:
        return found
    python = their_python(options.theirs)
    shipped = ("as it ships", "browsergym_env.server.app:app", options.servers[0])
    lean = [("lean", LEAN, servers) for servers in options.servers]
    for label, app, servers in (shipped, *lean):
        name = f"OpenEnv, {label}, {servers * len(TASKS)} servers"
        found[name] = functools.partial(theirs, servers, python, app)
    return found


def measure(way: Way, seconds: float) -> Figures:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        place = Path(folder).resolve()
        with way(place) as seats:
            figures = asyncio.run(play(seats, seconds))
        out = place / "out"
        recorded = len(webtraj.open_dataset(out)) if out.exists() else 0
    return dataclasses.replace(figures, recorded=recorded)


def median(figures: list[Figures], field: str) -> float:
    return statistics.median(getattr(one, field) for one in figures)


def show(console: Console, measured: dict[str, list[Figures]]) -> None:
    table = Table(title="Rollouts of one click through OpenEnv servers, MiniWoB++")
    table.add_column("way", no_wrap=True)
    headings = ("rollouts/s", "lowest to highest", "CPU s each", "steps each", "solved", "recorded")
    for heading in (*headings, "kB seen", "ms a step"):
        table.add_column(heading, justify="right")
    for name, figures in measured.items():
        rates = [one.rate for one in figures]
        rollouts = sum(one.rollouts for one in figures)
        table.add_row(
            name,
            f"{statistics.median(rates):.3g}",
            f"{min(rates):.3g} to {max(rates):.3g}",
            f"{median(figures, 'cpu'):.3g}",
            f"{sum(one.steps for one in figures) / rollouts:.2f}",
            f"{sum(one.solved for one in figures)}/{rollouts}",
            str(sum(one.recorded for one in figures)),
            f"{median(figures, 'message_bytes') / 1e3:.3g}",
            f"{median(figures, 'step_ms'):.3g}",
        )
    console.print(table)


def ratios(measured: dict[str, list[Figures]]) -> dict[str, dict[str, float]]:
    """Returns each of webtraj's ways by the best of each kind of OpenEnv's, in rate and CPU."""
    kinds: dict[str, list[list[Figures]]] = {}
    for name, figures in measured.items():
        if name.startswith("OpenEnv"):
            kinds.setdefault(name.rpartition(",")[0], []).append(figures)
    return {
        f"{mine} / {kind}": {
            "rate": median(measured[mine], "rate") / max(median(one, "rate") for one in rows),
            "cpu": min(median(one, "cpu") for one in rows) / median(measured[mine], "cpu"),
        }
        for mine in measured
        if mine.startswith("webtraj")
        for kind, rows in kinds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--theirs", type=Path, metavar="DIR", help="a checkout of OpenEnv")
    parser.add_argument("--clients", type=int, default=8, help="of webtraj's server")
    parser.add_argument(
        "--servers", type=int, nargs="+", default=[1], help="of OpenEnv's for each task"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="for each turn of a way")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    console = Console(width=140)
    console.print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {find_browser().version}; "
        f"openenv {version('openenv')} (clients, webtraj's server); {', '.join(TASKS)}"
    )
    chosen = ways(options)
    if options.theirs:
        console.print(f"OpenEnv's server: {', '.join(installed(their_python(options.theirs)))}")
    measured: dict[str, list[Figures]] = {name: [] for name in chosen}
    for repeat in range(options.repeats):
        for name, way in chosen.items():
            figures = measure(way, options.seconds)
            measured[name].append(figures)
            said = f"{figures.rate:.3g} rollouts/s, {figures.cpu:.3g} s of CPU each"
            print(f"turn {repeat + 1}, {name}: {said}", file=sys.stderr)
    show(console, measured)
    compared = ratios(measured)
    for name, ratio in compared.items():
        console.print(
            f"{name}: {ratio['rate']:.1f} times the rate, 1/{ratio['cpu']:.1f} of the CPU"
        )
    if options.json:
        told = {name: [dataclasses.asdict(one) for one in all_] for name, all_ in measured.items()}
        options.json.write_text(json.dumps({"ways": told, "ratios": compared}, indent=1))


if __name__ == "__main__":
    main()
