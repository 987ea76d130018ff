"""The trainer beside its peers: one model, the same samples with images, all in one run.

    make bench-training
    .venv/bin/python benchmarks/training.py --model Qwen/Qwen3-VL-2B-Instruct
    .venv/bin/python benchmarks/training.py --size 2b        (as large, with random weights)

Each trainer has a process and an environment of its own: webtraj and transformers' Trainer
`.venv-train`, TRL's SFTTrainer `.venv-trl` (scripts/environment.sh trl), LLaMA-Factory
`.venv-llamafactory` (scripts/environment.sh llamafactory). One that is missing or fails is named.
All get the same batches' size, accumulation, learning rate and number of steps, all weights, and no
gradient checkpointing; each reads what webtraj exports for it.

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
    "webtraj": (".venv-train", "scripts/environment.sh train"),
    "webtraj_cudnn": (".venv-train", "scripts/environment.sh train"),
    "transformers": (".venv-train", "scripts/environment.sh train"),
    "trl": (".venv-trl", "scripts/environment.sh trl"),
    "llamafactory": (".venv-llamafactory", "scripts/environment.sh llamafactory"),
}
NAMES = {
    "webtraj": "webtraj",
    "webtraj_cudnn": "with cuDNN's attention",
    "transformers": "transformers' Trainer",
    "trl": "TRL's SFTTrainer",
    "llamafactory": "LLaMA-Factory",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", help="default: a Qwen3-VL of random weights, made on the spot")
    parser.add_argument("--size", choices=("tiny", "2b"), default="tiny", help="of that")
    parser.add_argument("--template", default="qwen3_vl_nothink", help="LLaMA-Factory's")
    parser.add_argument("--samples", type=int, default=96)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--cutoff-len", type=int, default=2048)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--width", type=int, default=320, help="of the images, in pixels")
    arguments = parser.parse_args()
    if not (ROOT / ".venv-train").exists():
        sys.exit("There is no .venv-train; sh scripts/environment.sh train makes it.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        job = prepared(folder, arguments)
        peak, error = measured("matmul", ".venv-train", job)
        if peak is None:
            sys.exit(error)
        work, error = measured("work", ".venv-train", job)
        if work is None:
            sys.exit(error)
        print(
            f"{arguments.samples} samples of {work['tokens']} tokens, {work['trained']} of them "
            f"trained on; {work['parameters'] / 1e6:.1f} million parameters; "
            f"{peak['flops'] / 1e12:.3f} TFLOP/s by a product of matrices; load "
            f"{os.getloadavg()[0]:.1f}."
        )
        print(
            f"{'':34}{'steps':>6}{'tokens/s':>10}{'median':>9}{'GiB':>7}{'of peak':>9}{'loss':>8}"
        )
        for name, (venv, script) in TRAINERS.items():
            if name == "webtraj_cudnn" and not peak["gpu"]:
                continue
            found, error = measured(name, venv, job)
            if found is None:
                print(f"{NAMES[name]:34}not measured: {error} (sh {script} makes {venv})")
                continue
            steady = found["median"] * found["steps"]
            share = work["flops"] / steady / peak["flops"]
            title = f"{NAMES[name]} {found['version']}"
            print(
                f"{title:34}{found['steps']:>6}{work['tokens'] / found['seconds']:>10,.0f}"
                f"{work['tokens'] / steady:>9,.0f}{found['gib']:>7.2f}{share:>9.1%}"
                f"{found['loss']:>8.3f}"
            )


def prepared(folder: Path, arguments: argparse.Namespace) -> Path:
    """Makes the model and the exports, and returns the file that tells of them."""
    corpus = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    model = arguments.model
    if model is None:
        model = str(folder / "model")
        (folder / "corpus.txt").write_text(corpus)
        command = [
            str(ROOT / ".venv-train/bin/python"),
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


def measured(name: str, venv: str, job: Path) -> tuple[dict[str, Any] | None, str]:
    """Runs a trainer; returns what it measured, or why there is nothing."""
    python = ROOT / venv / "bin" / "python"
    if not python.exists():
        return None, f"there is no {venv}"
    done = subprocess.run(
        [str(python), "-W", "ignore", str(ROOT / "benchmarks" / "training_peers.py"), name, job],
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
    return None, f"it ended with {done.returncode}: {said:.300}"


if __name__ == "__main__":
    main()
