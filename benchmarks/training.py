"""The trainer beside its peers: one model, the same samples with images, all in one run.

    make bench-training
    .venv/bin/python benchmarks/training.py --model Qwen/Qwen3-VL-2B-Instruct
    .venv/bin/python benchmarks/training.py --size 2b        (as large, with random weights)

Each trainer has a process of its own, and an environment if there is one (`sh
scripts/environment.sh train trl llamafactory`); the others run in the Python that runs this. One
that fails is named. All get the same batches' size, accumulation, learning rate, number of steps
and adapters, and no gradient checkpointing; each reads what webtraj exports for it. "webtraj's loss
on transformers" is a subclass of transformers' Trainer with webtraj's batches and loss; it also
resumes from its middle.

It prints tokens per second, padding left out, of the whole run and by the median step (a GPU's
first steps are mostly preparations); the highest memory (of the process; on a GPU, of the tensors
on it); the arithmetic that the samples need at least, at the median step's speed, as a share of
what a product of matrices reaches here; and the mean loss, which tells that all did the same.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import PIL.Image

from webtraj.agents.models.base import Image, Message
from webtraj.training.export import export_samples
from webtraj.training.samples import Sample, SampleKey

ROOT = Path(__file__).resolve().parents[1]
MAKER = ROOT / "tests" / "training" / "llamafactory" / "make_qwen_vl.py"
TRAINERS = {
    "webtraj": ".venv-train",
    "webtraj_cudnn": ".venv-train",
    "subclass": ".venv-train",
    "transformers": ".venv-train",
    "trl": ".venv-trl",
    "llamafactory": ".venv-llamafactory",
}
NAMES = {
    "webtraj": "webtraj",
    "webtraj_cudnn": "with cuDNN's attention",
    "subclass": "webtraj's loss on transformers",
    "transformers": "transformers' Trainer",
    "trl": "TRL's SFTTrainer",
    "llamafactory": "LLaMA-Factory",
}


def main() -> None:
    arguments = parser().parse_args()
    rows = compare(arguments)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--model", help="default: a Qwen3-VL of random weights, made on the spot")
    made.add_argument("--size", choices=("tiny", "2b"), default="tiny", help="of that")
    made.add_argument("--template", default="qwen3_vl_nothink", help="LLaMA-Factory's")
    made.add_argument("--method", choices=("full", "lora"), default="full")
    made.add_argument("--samples", type=int, default=96)
    made.add_argument("--batch-size", type=int, default=4)
    made.add_argument("--accumulation", type=int, default=2)
    made.add_argument("--cutoff-len", type=int, default=2048)
    made.add_argument("--learning-rate", type=float, default=1e-4)
    made.add_argument("--width", type=int, default=320, help="of the images, in pixels")
    made.add_argument("--trainers", nargs="+", choices=TRAINERS, help="default: all")
    made.add_argument("--json", help="a file for the results")
    return made


def compare(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure one trainer after another; print and return a row for each."""
    with tempfile.TemporaryDirectory() as temporary:
        job = prepared(Path(temporary), arguments)
        peak, error = measured("matmul", job)
        if peak is None:
            sys.exit(error)
        work, error = measured("work", job)
        if work is None:
            sys.exit(error)
        print(
            f"{arguments.samples} samples of {work['tokens']} tokens, {work['trained']} of them "
            f"trained on; {work['parameters'] / 1e6:.1f} million parameters, "
            f"{arguments.method}; {peak['flops'] / 1e12:.3f} TFLOP/s by a product of matrices; "
            f"load {os.getloadavg()[0]:.1f}."
        )
        print(
            f"{'':34}{'steps':>6}{'tokens/s':>10}{'median':>9}{'GiB':>7}{'of peak':>9}{'loss':>8}"
        )
        rows = []
        for name in arguments.trainers or TRAINERS:
            if name == "webtraj_cudnn" and not peak["gpu"]:
                continue
            found, error = measured(name, job)
            row: dict[str, Any] = {"trainer": name, "method": arguments.method}
            rows.append(row)
            if found is None:
                row["error"] = error
                print(f"{NAMES[name]:34}not measured: {error}", flush=True)
                continue
            steady = found["median"] * found["steps"]
            row |= found | {
                "tokens_per_second": work["tokens"] / found["seconds"],
                "tokens_per_second_by_median": work["tokens"] / steady,
                # Adapters need less arithmetic than this share is of.
                "share_of_peak": work["flops"] / steady / peak["flops"],
            }
            print(
                f"{NAMES[name] + ' ' + found['version']:34}{found['steps']:>6}"
                f"{row['tokens_per_second']:>10,.0f}{row['tokens_per_second_by_median']:>9,.0f}"
                f"{found['gib']:>7.2f}{row['share_of_peak']:>9.1%}{found['loss']:>8.3f}",
                flush=True,
            )
            if "exact" in found:
                print(
                    f"    resumes bit for bit: {found['exact']}; from a checkpoint whose writing "
                    f"was cut off: {found['after_a_cut']:.120}"
                )
        return rows


def prepared(folder: Path, arguments: argparse.Namespace) -> Path:
    """Makes the model and the exports, and returns the file that tells of them."""
    corpus = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    model = arguments.model
    if model is None:
        model = str(folder / "model")
        (folder / "corpus.txt").write_text(corpus)
        command = [
            python_of("webtraj"),
            str(MAKER),
            model,
            str(folder / "corpus.txt"),
            arguments.size,
        ]
        subprocess.run(command, check=True, capture_output=True)
    samples = make_samples(corpus, arguments.samples, arguments.width)
    for name in ("sharegpt", "trl"):
        export_samples({"train": samples}, folder / name, format=name)
    job = folder / "job.json"
    data = {
        "model": model,
        "sharegpt": str(folder / "sharegpt"),
        "trl": str(folder / "trl"),
        "out": str(folder),
        "batch_size": arguments.batch_size,
        "accumulation": arguments.accumulation,
        "cutoff_len": arguments.cutoff_len,
        "learning_rate": arguments.learning_rate,
        "template": arguments.template,
        "method": arguments.method,
    }
    job.write_text(json.dumps(data))
    return job


def make_samples(text: str, count: int, width: int) -> list[Sample]:
    """Makes prompts of different lengths with an image each and short replies, as agents have."""
    chosen = random.Random(0)
    samples = []
    for number in range(count):
        start = chosen.randrange(len(text) - 3000)
        page = text[start : start + chosen.choice((200, 400, 800, 1600))]
        pixels = PIL.Image.effect_noise((width, width * 3 // 4), 40 + number).convert("RGB")
        encoded = io.BytesIO()
        pixels.save(encoded, "PNG")
        samples.append(
            Sample(
                key=SampleKey("benchmark", number),
                messages=(Message.of("user", Image(encoded.getvalue()), page),),
                completion=f"click('{chosen.randrange(100)}')",
            )
        )
    return samples


def python_of(name: str) -> str:
    """Return the Python of the trainer's environment; without one, the current Python."""
    python = ROOT / TRAINERS.get(name, ".venv-train") / "bin" / "python"
    return str(python) if python.exists() else sys.executable


def measured(name: str, job: Path) -> tuple[dict[str, Any] | None, str]:
    """Runs a trainer; returns what it measured, or why there is nothing."""
    peers = ROOT / "benchmarks" / "training_peers.py"
    done = subprocess.run(
        [python_of(name), "-W", "ignore", str(peers), name, job],
        capture_output=True,
        text=True,
        cwd=job.parent,
        env={**os.environ, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false"},
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT ")), ""
    said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    return None, f"{python_of(name)} ended with {done.returncode}: {said:.300}"


if __name__ == "__main__":
    main()
