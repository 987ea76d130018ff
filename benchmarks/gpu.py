"""Everything that a GPU changes, in one command: training beside peers, and rollouts against vLLM.

    python benchmarks/gpu.py --out results              (a GPU; no network; under 20 minutes)
    python benchmarks/gpu.py --out results --size tiny   (two cores)

Training: webtraj, transformers' Trainer, TRL and LLaMA-Factory on the same samples with pictures,
all weights and adapters, by `benchmarks/training.py`, which says what is measured.

Rollouts (`--rollouts MODEL`): one task by 1, 8, 32 and 64 pages at once, with a model that vLLM
serves on this machine. The shares of the model and of the page in an episode's time tell who waits
for whom. `webtraj serve --install` or `sh scripts/environment.sh vllm` installs vLLM.

Pixels (`--pixels MODEL`): the recipe of `two_cores.learn_from_pixels` with a real model, such as
Qwen/Qwen3-VL-2B-Instruct: as it is, after supervised learning on an oracle's clicks, and on faded
pages before policy gradient and after each of its iterations, by adapters. vLLM serves it for every
rollout. It was never run on a GPU.

It writes `gpu.json` and `gpu.md` into `--out`, and prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
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
    parser.add_argument("--pixels", metavar="MODEL", help="also learn from pixels with this model")
    parser.add_argument("--demonstrations", type=int, default=800, help="clicks of the oracle")
    parser.add_argument("--groups", type=int, default=64, help="of 8 attempts, in an iteration")
    parser.add_argument("--iterations", type=int, default=3, help="of policy gradient")
    parser.add_argument("--held-out", type=int, default=200, help="pages of each evaluation")
    arguments = parser.parse_args()
    for name in ("episodes", "demonstrations", "groups", "held_out"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more")
    if arguments.iterations < 0:
        parser.error("--iterations must be 0 or more")
    if arguments.pixels and importlib.util.find_spec("two_cores") is None:
        parser.error("--pixels needs the package of examples/two_cores: pip install it")
    arguments.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "size": arguments.size,
        "training": [],
        "rollouts": [],
        "pixels": [],
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
    if arguments.pixels:
        asyncio.run(learn_from_pixels(arguments, results))
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
            await run(
                *("rollout", "--preset", TASK, "--model", server.model),
                *("--base-url", server.base_url, "--episodes", str(arguments.episodes)),
                *("--parallel", str(pages), "--out", str(out)),
            )
            told = json.loads(await run("metrics", str(out), "--json"))
            row |= {key: told["overall"][key] for key in ("throughput", "seconds_by_phase")}
            save(results, arguments.out)


FADED = ("--set", "faded=true")
"""Pages that no demonstration shows."""


async def learn_from_pixels(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """Take the model through all stages, and evaluate each on the same held-out pages."""
    from two_cores.learn_from_pixels import GROUP, PRACTICE, SHOWN
    from two_cores.pixel_model import CHANNELS, OPTIONS

    out: Path = arguments.out / "pixels"
    prompts = [f"{name}={value}" for name, value in OPTIONS.items()]
    shown = out / "demonstrations"
    await run(
        *("rollout", "--preset", "pixels/all", "--agent", "oracle", "--seed", str(SHOWN)),
        *("--episodes", str(arguments.demonstrations), "--parallel", "8"),
        *("--set", f"observe={json.dumps(CHANNELS)}", "--out", str(shown)),
    )
    await run(
        *("train", "export", str(shown), "--format", "openai", "--render"),
        *("--out", str(out / "rows"), *(f"render_options.{one}" for one in prompts)),
    )
    model = arguments.pixels
    await evaluate_on_pixels(arguments, results, "as it is", model, prompts)
    settings = ["learning_rate=1e-4", "warmup_steps=10", "max_steps=200", "batch_size=16"]
    model = await train_adapters(model, out / "rows", out / "supervised", *settings)
    await evaluate_on_pixels(arguments, results, "supervised", model, prompts)
    await evaluate_on_pixels(arguments, results, "faded", model, prompts, *FADED)
    for number in range(1, arguments.iterations + 1):
        folder = out / f"iteration_{number}"
        await play_pixels(
            model, folder / "episodes", GROUP * arguments.groups, PRACTICE + number,
            [*prompts, "temperature=1.0", "top_p=1.0", "top_k=-1"],
            *("--group-size", str(GROUP), *FADED),
        )  # fmt: skip
        await run(
            *("train", "export", str(folder / "episodes"), "--format", "tokens"),
            *("--set", f"model={model}", "--out", str(folder / "rows")),
        )
        settings = ["learning_rate=2e-5", "policy.advantage=group_mean", "batch_size=16"]
        model = await train_adapters(model, folder / "rows", folder / "run", *settings)
        await evaluate_on_pixels(arguments, results, f"iteration {number}", model, prompts, *FADED)


async def evaluate_on_pixels(
    arguments: argparse.Namespace,
    results: dict[str, Any],
    stage: str,
    model: str,
    prompts: list[str],
    *more: str,
) -> None:
    """Play held-out pages with the likeliest replies, and note the success."""
    from two_cores.experiments import HELD_OUT

    out = arguments.out / "pixels" / f"evaluation {stage}"
    await play_pixels(model, out, arguments.held_out, HELD_OUT, [*prompts, "temperature=0"], *more)
    told = json.loads(await run("metrics", str(out), "--json"))
    results["pixels"].append({"stage": stage, "success": told["overall"]["success_rate"]})
    save(results, arguments.out)


async def play_pixels(
    model: str, out: Path, episodes: int, seed: int, options: list[str], *more: str
) -> None:
    """Serve the model, and play pages with it."""
    from webtraj.serving import ModelServer, VllmLaunch

    # The prompts are short, and a model's whole context may need more memory than a GPU has.
    launch = VllmLaunch(model=model, max_model_len=4096, images_per_prompt=1)
    async with ModelServer(launch) as server:
        await run(
            *("rollout", "--preset", "pixels/all", "--model", server.model),
            *("--base-url", server.base_url, "--episodes", str(episodes), "--seed", str(seed)),
            *("--parallel", "16", "--out", str(out), *more),
            *(word for one in [*options, "max_tokens=24"] for word in ("--agent-set", one)),
        )


async def train_adapters(model: str, rows: Path, out: Path, *settings: str) -> str:
    """Train adapters, and return the merged model."""
    await run(
        *("train", "--model", model, "--data", str(rows), "--out", str(out)),
        *("--publish", str(out), "method=lora", "no_samples=keep", *settings),
    )
    return str(out / "model.pt")


async def run(*arguments: str) -> str:
    """Run a webtraj command beside the event loop, and return its output."""
    return await asyncio.to_thread(webtraj, *arguments)


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
    if results["pixels"]:
        rows += ["", "| pixels | success | 95 % interval |", "|---|---|---|"]
    for row in results["pixels"]:
        rate = row["success"]
        if rate["value"] is None:
            rows.append(f"| {row['stage']} | not scored | |")
            continue
        rows.append(
            f"| {row['stage']} | {rate['value']:.3f} | {rate['low']:.3f} to {rate['high']:.3f} |"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
