"""What a list of 100,000 episodes costs the viewer's server, in CPU time.

    make bench-viewer         (or: .venv/bin/python benchmarks/viewer.py [--episodes 100000])

A dataset of so many index lines is made, and `webtraj view` run on it as a process of its own. It
is asked over HTTP as the page asks. Printed is the CPU time of all of its threads, which other work
on the machine lengthens less than the time by the clock: for the start, in which the first page is
made ready, for that page, and for lists that it has not been asked for before. At last 1,000
episodes are added, as a rollout adds them, and the first page is asked for again.

The aim is 300 ms of CPU for any page, the first one and one that is in a new order.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import DatasetHeader, DatasetLayout
from webtraj.trajectory import EndReason, Outcome

AIM = 0.3
TASKS, SITES, POLICIES = 500, 40, 6
VERBS = ("Buy", "Find", "Log in to", "Book", "Compare", "Cancel", "Reserve", "Rate")
THINGS = ("the red lamp", "a table for two", "your account", "the cheapest flight", "a blue kettle")


def summary(number: int, chance: random.Random) -> EpisodeSummary:
    task = chance.randrange(TASKS)
    outcome = chance.choice((Outcome.SUCCESS, Outcome.FAILURE, Outcome.FAILURE, Outcome.TIMEOUT))
    start = 1.79e9 + number * 3.0
    return EpisodeSummary(
        episode_id=f"20261120T130405-{number:016x}",
        task=f"shop/{task:03d}-{VERBS[task % len(VERBS)].split()[0].lower()}",
        goal=f"{VERBS[task % len(VERBS)]} {THINGS[task % len(THINGS)]} at shop {task % SITES}, "
        f"and say what it cost. Attempt {number}.",
        site=f"shop{task % SITES}.example",
        environment="BrowserEnvironment",
        policy=f"model-{chance.randrange(POLICIES)}",
        policy_version=f"iteration_{number * 8 // 100_000:04d}",
        seed=number,
        group_id=f"g{number // 8}",
        attempt=number % 8,
        end_reason=chance.choice((EndReason.TERMINATED, EndReason.TRUNCATED)),
        outcome=outcome,
        num_steps=chance.randrange(1, 40),
        total_reward=float(outcome is Outcome.SUCCESS),
        start_time=start,
        end_time=start + chance.expovariate(0.02),
        size=chance.randrange(10_000, 500_000),
        sha256=f"{chance.getrandbits(256):064x}",
    )


def cpu(pid: int) -> float:
    """Returns the seconds that all threads of a process have been running."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    count = parser.parse_args().episodes
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        layout = DatasetLayout(Path(folder) / "many")
        layout.create(DatasetHeader())
        lines = [summary(number, chance).to_line() for number in range(count + 1000)]
        (layout.index / "writer.jsonl").write_bytes(b"".join(lines[:count]))
        process = subprocess.Popen(
            [sys.executable, "-m", "webtraj", "view", str(layout.root), "--no-open"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            measure(process, layout, lines, count)
        finally:
            process.terminate()
            process.communicate()


def measure(
    process: subprocess.Popen[str], layout: DatasetLayout, lines: list[bytes], count: int
) -> None:
    assert process.stdout is not None
    url = process.stdout.readline().split()[2]
    table = Table(title=f"{count:,} episodes", box=None)
    table.add_column("")
    for column in ("CPU", "clock", "found", "KB"):
        table.add_column(column, justify="right")
    table.add_row("start, index read", f"{cpu(process.pid):.2f} s", "", "", "")
    questions = {
        "first page": {"sort": "-start_time"},
        "page 500 of it": {"sort": "-start_time", "offset": count // 2},
        "by reward": {"sort": "-reward"},
        "by task": {"sort": "task"},
        "by goal (all differ)": {"sort": "goal"},
        "the other way round": {"sort": "-goal"},
        "by id (all differ)": {"sort": "id"},
        "one task": {"task": "shop/007-rate"},
        "three filters": {"outcome": "success", "site": "shop3.example", "policy": "model-1"},
        "reward from 1": {"min_reward": "1"},
        "a word": {"q": "lamp"},
        "two words": {"q": "kettle shop 19"},
        "what is not there": {"q": "zebra"},
    }
    with httpx.Client(base_url=url, trust_env=False, timeout=120) as client:

        def ask(name: str, **params: object) -> float:
            before, began = cpu(process.pid), time.perf_counter()
            reply = client.get("/api/episodes", params=params).raise_for_status()
            cost, waited = cpu(process.pid) - before, time.perf_counter() - began
            table.add_row(
                name,
                f"{cost * 1e3:.1f} ms",
                f"{waited * 1e3:.0f} ms",
                f"{reply.json()['total']:,}",
                f"{len(reply.content) / 1e3:.0f}",
            )
            return cost

        took = {name: ask(name, **params) for name, params in questions.items()}
        with (layout.index / "other.jsonl").open("ab") as file:
            file.write(b"".join(lines[count:]))
        time.sleep(1.0)  # It looks for what is new twice a second at most.
        ask("first page, 1,000 more", sort="-start_time")
        ask("by goal, 1,000 more", sort="goal")
    console = Console(width=100)
    console.print(table)
    for name in ("first page", "by goal (all differ)"):
        console.print(f"{name}: {took[name] / AIM:.0%} of the aim of {AIM * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
