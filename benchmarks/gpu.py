"""Everything that a GPU changes, in one command: training beside peers, and rollouts against vLLM.

    python benchmarks/gpu.py --out results              (a GPU; no network; under 20 minutes)
    python benchmarks/gpu.py --out results --size tiny   (two cores)

Training: webtraj, transformers' Trainer, TRL and LLaMA-Factory on the same samples with pictures,
all weights and adapters, by `benchmarks/training.py`, which says what is measured.

Rollouts (`--rollouts MODEL`): one task by 1, 8, 32 and 64 pages at once, with a model that vLLM
serves on this machine. The shares of the model and of the page in an episode's time tell who waits
for whom. `webtraj serve --install` or `sh scripts/environment.sh vllm` installs vLLM.

It writes `gpu.json` and `gpu.md` into `--out`, and prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import training

ROOT = Path(__file__).resolve().parents[1]
PAGES = (1, 8, 32, 64)
TASK = "miniwob/click-button"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--size", choices=("tiny", "2b"), default="2b")
    parser.add_argument("--samples", type=int, help="default: 384, or 24 of tiny")
    parser.add_argument("--methods", nargs="+", choices=("full", "lora"), default=["full", "lora"])
    parser.add_argument("--trainers", nargs="+", choices=training.TRAINERS, help="default: all")
    parser.add_argument("--rollouts", metavar="MODEL", help="also roll out with this model by vLLM")
    parser.add_argument("--episodes", type=int, default=64, help="of each number of pages")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "size": arguments.size,
        "training": [],
        "rollouts": [],
    }
    began = time.monotonic()
    tiny = arguments.size == "tiny"
    samples = arguments.samples or (24 if tiny else 384)
    for method in arguments.methods:
        wanted = [f"--samples={samples}", f"--size={arguments.size}", f"--method={method}"]
        if arguments.trainers:
            wanted += ["--trainers", *arguments.trainers]
        results["training"] += training.compare(training.parser().parse_args(wanted))
        save(results, arguments.out)
    if arguments.rollouts:
        asyncio.run(roll_out(arguments, results))
    results["seconds"] = time.monotonic() - began
    save(results, arguments.out)
    print((arguments.out / "gpu.md").read_text())


async def roll_out(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """Serve the model, and roll out with more and more pages at once."""
    from webtraj.serving import ModelServer, VllmLaunch

    async with ModelServer(VllmLaunch(model=arguments.rollouts)) as server:
        for pages in PAGES:
            out = arguments.out / f"pages-{pages}"
            row: dict[str, Any] = {"pages": pages}
            results["rollouts"].append(row)
            await asyncio.to_thread(
                *(webtraj, "rollout", "--preset", TASK, "--model", server.model),
                *("--base-url", server.base_url, "--episodes", str(arguments.episodes)),
                *("--parallel", str(pages), "--out", str(out)),
            )
            told = json.loads(await asyncio.to_thread(webtraj, "metrics", str(out), "--json"))
            row |= {key: told["overall"][key] for key in ("throughput", "seconds_by_phase")}
            save(results, arguments.out)


def webtraj(*arguments: str) -> str:
    """Run a webtraj command and return its output."""
    command = [sys.executable, "-m", "webtraj", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def save(results: dict[str, Any], out: Path) -> None:
    (out / "gpu.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "gpu.md").write_text(table(results))


PEERS = ("transformers", "trl", "llamafactory")
SPEED = "tokens_per_second_by_median"


def table(results: dict[str, Any]) -> str:
    """Return the results as Markdown; "beside" is the speed divided by the best peer's."""
    rows = [
        "| trainer | method | tokens/s | by median step | GiB | of peak, % | beside |",
        "|---|---|---|---|---|---|---|",
    ]
    done = [row for row in results["training"] if "error" not in row]
    for row in results["training"]:
        if row not in done:
            rows.append(f"| {row['trainer']} | {row['method']} | {row['error']:.80} | | | | |")
            continue
        peers = [
            other[SPEED]
            for other in done
            if other["trainer"] in PEERS and other["method"] == row["method"]
        ]
        rows.append(
            f"| {row['trainer']} {row['version']} | {row['method']} "
            f"| {row['tokens_per_second']:,.0f} | {row[SPEED]:,.0f} | {row['gib']:.2f} "
            f"| {100 * row['share_of_peak']:.1f} "
            f"| {f'{row[SPEED] / max(peers):.2f}' if peers else ''} |"
        )
    if results["rollouts"]:
        rows += ["", "| pages | episodes/s | steps/s | model, % | page, % | rest, % |"]
        rows += ["|---|---|---|---|---|---|"]
    for row in results["rollouts"]:
        if "throughput" not in row:
            continue
        rates, phases = row["throughput"], row["seconds_by_phase"]
        whole = sum(phases.values())
        page = sum(phases[name] for name in ("act", "settle", "observe", "reset", "environment"))
        shares = (phases["model"], page, whole - phases["model"] - page)
        rows.append(
            f"| {row['pages']} | {rates['episodes_per_second']:.2f} "
            f"| {rates['steps_per_second']:.2f} "
            + "".join(f"| {100 * share / whole:.0f} " for share in shares)
            + "|"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
