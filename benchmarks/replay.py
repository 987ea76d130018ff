"""What a replay buffer takes: to read 100,000 and 1,000,000 steps, to draw from them, to load.

    .venv/bin/python benchmarks/replay.py [--steps 100000 1000000] [--keep FOLDER]

Episodes of ten steps are made first, with a system message, a page of 2,000 characters and a
screenshot in each prompt, 100 tasks, 20 sites, half of them successes. Making them takes longer
than all that is measured; `--keep` keeps them for another time. Then, in a process of its own each:
reading all of them into a buffer, drawing 16,384 samples by recency, loading 2,000 of those. Memory
is the most that the process had resident, less what it had before; what is held itself is about 180
bytes a step; the index of one iteration at a time comes to that, and what sorting needs. Each of
the processes that read has its own, which does not grow. CPU is of all of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

STEPS_AN_EPISODE = 10
DRAWN = 16_384
LOADED = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(orjson.dumps(measure(options.measure)).decode())
        return
    with tempfile.TemporaryDirectory() as scratch:
        table = Table(
            "steps", "read s", "steps/s", "draw s", "load samples/s", "MB", "bytes/step",
            "CPU us/step", "MB a reader",
        )  # fmt: skip
        for steps in options.steps:
            folder = (options.keep or Path(scratch)) / f"steps-{steps}"
            if not (folder / "made").exists():
                make(folder, steps)
            command = [sys.executable, __file__, "--measure", str(folder)]
            found = orjson.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            table.add_row(
                f"{found['steps']:,}",
                f"{found['read']:.1f}",
                f"{found['steps'] / found['read']:,.0f}",
                f"{found['draw']:.2f}",
                f"{LOADED / found['load']:,.0f}",
                f"{found['memory'] / 1e6:,.0f}",
                f"{found['memory'] / found['steps']:,.0f}",
                f"{found['cpu'] / found['steps'] * 1e6:,.0f}",
                f"{found['reader'] / 1e6:,.0f}",
            )
        Console().print(table)


def measure(folder: Path) -> dict[str, float]:
    from webtraj.training.replay import Filters, ReplayBuffer

    places = sorted(path for path in folder.iterdir() if path.is_dir())
    before, used = resident(), cpu()
    began = time.perf_counter()
    buffer = ReplayBuffer.from_datasets(places, filters=Filters(filter_successful_only=False))
    read, used = time.perf_counter() - began, cpu() - used
    began = time.perf_counter()
    drawn = buffer.sample_with_recency(DRAWN)
    draw = time.perf_counter() - began
    began = time.perf_counter()
    assert sum(1 for _ in drawn[:LOADED]) == min(LOADED, len(drawn))
    load = time.perf_counter() - began
    return {
        "steps": len(buffer),
        "read": read,
        "draw": draw,
        "load": load,
        "memory": resident() - before,
        "cpu": used,
        "reader": resident(resource.RUSAGE_CHILDREN),
    }


def resident(whose: int = resource.RUSAGE_SELF) -> int:
    return resource.getrusage(whose).ru_maxrss * 1024


def cpu() -> float:
    """Returns seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def make(folder: Path, steps: int) -> None:
    """Writes four iterations; no waits for the disk, which would take hours."""
    from webtraj.datasets.dataset import encode_episode
    from webtraj.datasets.place import create_place
    from webtraj.store.formats import format_named
    from webtraj.store.index import summarize
    from webtraj.store.layout import DatasetHeader, episode_key

    episodes = steps // STEPS_AN_EPISODE
    encode = format_named("json").encode
    shots = [b"\xff\xd8\xff" + bytes([n]) * 20_000 for n in range(50)]
    for iteration in range(4):
        place = create_place(
            folder / f"iteration_{iteration + 1:04d}", DatasetHeader(format="json")
        )
        assert place.layout is not None
        (place.layout.root / "episodes").mkdir(exist_ok=True)
        place.layout.index.mkdir(exist_ok=True)
        with (place.layout.index / "made.jsonl").open("wb") as index:
            for number in range(iteration, episodes, 4):
                data = encode_episode(episode(number, shots), place.blobs)
                content = encode(data, place.blobs)
                summary = summarize(data, content, place.blobs)
                key = episode_key(summary.episode_id, "json")
                (place.layout.root / key).write_bytes(content)
                index.write(summary.to_line())
    (folder / "made").write_bytes(b"")


def episode(number: int, shots: list[bytes]):
    from webtraj import trajectory as t
    from webtraj.environments.actions import Click

    records = []
    for step in range(STEPS_AN_EPISODE + 1):
        page = f'[{step}] button "page {number} {step}"\n' + "x" * 2_000
        shot = shots[(number + step) % len(shots)]
        observed = {"url": "http://x/", "axtree": page, "screenshot": shot}
        kind = (
            t.StepType.FIRST
            if step == 0
            else t.StepType.LAST
            if step == STEPS_AN_EPISODE
            else t.StepType.MID
        )
        if step == 0:
            records.append(t.StepRecord(0, kind, observed))
            continue
        user = [
            {"type": "image_url", "image_url": {"url": shots[(number + step - 1) % len(shots)]}},
            {"type": "text", "text": f"Task {number}\n{records[-1].observation['axtree']}"},
        ]
        call = t.ModelCall(
            model="m",
            policy_version="1",
            messages=(
                {"role": "system", "content": "s" * 1_000},
                {"role": "user", "content": user},
            ),
            text=f"Thought: now.\nAction: click('{step}')",
            prompt_token_ids=tuple(range(800)),
            completion_token_ids=tuple(range(20)),
            logprobs=(-0.5,) * 20,
        )
        action = Click(str(step))
        decision = t.Decision(action=action, model_calls=(call,))
        last = step == STEPS_AN_EPISODE
        records.append(
            t.StepRecord(step, kind, observed, action, 0.0, float(not last), decision=decision)
        )
    outcome = t.Outcome.SUCCESS if number % 2 else t.Outcome.FAILURE
    info = t.EpisodeInfo(
        episode_id=f"e{number:07}",
        task=f"t{number % 100}",
        site=f"s{number % 20}",
        goal=f"Do {number}",
        policy="model/m",
        group_id=f"g{number // 8}",
    )
    end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=outcome)
    return t.EpisodeTrajectory(info, tuple(records), end, float(number), float(number) + 1)


if __name__ == "__main__":
    main()
