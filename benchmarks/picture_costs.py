"""What the pictures of steps cost in bytes and processor time, from rollout to training.

    .venv-train/bin/python benchmarks/picture_costs.py FOLDER [--steps 120] [--history 4]

`benchmarks/pictures.py` runs it on the pages that it captured; FOLDER has such pictures. Each step
has a new one, and its prompt shows those of the last steps too. Three ways:

* webtraj: recorded in blobs, exported as tokens with their grids, trained on by reference.
* tensors by reference, as AsyncWebRL does: the rollout processes each picture once and keeps its
  tensors in memory; rows and batches refer to them. Nothing is checked, and nothing outlives the
  process.
* bytes in each row: rows hold the pictures of their prompts in base64.

It prints JSON: for each way, bytes and CPU milliseconds a step of rollout, export, and training
(one pass, from rows to a model's inputs), those of pictures alone where a step has more. `export`
also says what checking each picture once takes, which no export that checks can beat.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import dataclasses
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import torch
import transformers
from PIL import Image as Pillow

import webtraj
from export import decoded_only, distinct
from webtraj import trajectory as t
from webtraj.agents.models.base import Image, Message
from webtraj.training.export import export_samples
from webtraj.training.export.sample_files import open_samples
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft import SftSettings
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, load_tools

MAKER = Path(__file__).parents[1] / "tests/training/llamafactory/make_qwen_vl.py"
STEPS_AN_EPISODE = 10
PIXELS = {"shortest_edge": 3136, "longest_edge": 1_003_520}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--history", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    screens = [path.read_bytes() for path in sorted(options.folder.iterdir())]
    shots = [distinct(screens[n % len(screens)], n) for n in range(options.steps)]
    with tempfile.TemporaryDirectory() as scratch:
        model = make_model(Path(scratch))
        samples = make_samples(shots, options.history, model)
        warm(samples[:4], Path(scratch), model)
        found = {
            "webtraj": by_webtraj(samples, Path(scratch), model),
            "tensors by reference": by_tensors(samples, model),
            "bytes in each row": by_bytes(samples, Path(scratch), model),
        }
    print(json.dumps({"steps": len(samples), "shown": shown_in(samples), "ways": found}))


def make_model(scratch: Path) -> str:
    """Makes a Qwen3-VL of random weights that sees pictures as large ones do."""
    (scratch / "corpus").write_text("Task: click('12')\n" * 20)
    model = scratch / "model"
    subprocess.run([sys.executable, MAKER, model, scratch / "corpus"], check=True)
    for path in model.glob("*processor_config.json"):
        data = json.loads(path.read_text())
        for part in (data, *data.values()):
            if isinstance(part, dict) and "patch_size" in part:
                part["size"] = PIXELS
        path.write_text(json.dumps(data))
    config = json.loads((model / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 1 << 17
    (model / "config.json").write_text(json.dumps(config))
    return str(model)


def make_samples(shots: Sequence[Image], history: int, model: str) -> list[Sample]:
    processor = load_tools(model).processor
    mark = "<|vision_start|><|image_pad|><|vision_end|>"
    spelled: dict[tuple[int, int], list[int]] = {}
    samples = []
    for step, shot in enumerate(shots):
        episode, within = divmod(step, STEPS_AN_EPISODE)
        first = max(episode * STEPS_AN_EPISODE, step - history + 1)
        prompt = [20 + n % 200 for n in range(800)]
        for image in (*shots[first:step], shot):
            picture = Pillow.open(io.BytesIO(image.data))
            if picture.size not in spelled:
                made = processor(text=[mark], images=[[picture]])
                spelled[picture.size] = list(made["input_ids"][0])
            prompt += spelled[picture.size]
        samples.append(
            Sample(
                key=SampleKey(f"e{episode}", within + 1),
                messages=(Message.of("user", f"Task {step}\n", *shots[first:step], shot),),
                completion=f"click('{step}')",
                prompt_token_ids=tuple(prompt),
                completion_token_ids=tuple(range(20, 40)),
                logprobs=(-0.5,) * 20,
                reward=float(episode % 2),
                group_id="group",
            )
        )
    return samples


def shown_in(samples: Sequence[Sample]) -> float:
    return sum(len(sample.images) for sample in samples) / len(samples)


def warm(samples: Sequence[Sample], scratch: Path, model: str) -> None:
    export_samples({"train": samples}, scratch / "warm", format="tokens", options={"model": model})
    inputs(open_samples([scratch / "warm"]), model)


def inputs(samples: Sequence[Sample], model: str) -> int:
    """Makes the model's inputs of all samples; returns the bytes of the last one's pictures."""
    tools = load_tools(model)
    settings = SftSettings(model=model, out="unused", cutoff_len=100_000)
    data = TrainingData(samples, Encoder(tools), settings)
    assert data.report.used == len(samples), data.report
    for index in range(len(samples)):
        batch = data.batch(MicroBatch(((index,),)), masked=True)
    return int(batch.inputs["pixel_values"].nbytes)


def timed(work: Callable[[], Any], steps: int) -> tuple[float, Any]:
    """Returns the CPU milliseconds a step, of all threads, and what the work returned."""
    began = time.process_time()
    result = work()
    return 1e3 * (time.process_time() - began) / steps, result


def by_webtraj(samples: Sequence[Sample], scratch: Path, model: str) -> dict[str, Any]:
    steps = len(samples)
    cost: dict[str, float] = {}
    kept: dict[str, int] = {}
    for name, pictures in (("warm", True), ("without", False), ("with", True)):
        episodes = list(recorded(samples, pictures=pictures))
        folder = scratch / f"recorded-{name}"
        collector = webtraj.JsonTrajectoryCollector(folder, fsync="never")
        cost[name], _ = timed(lambda c=collector, e=episodes: asyncio.run(collect(c, e)), steps)
        kept[name] = size_of(folder)
    rows = scratch / "rows"
    options = {"model": model}
    ms, _ = timed(
        lambda: export_samples({"train": samples}, rows, format="tokens", options=options), steps
    )
    pictures = {image.uuid: image for sample in samples for image in sample.images}
    checked = 1e3 * decoded_only([Image(one.data) for one in pictures.values()])["decoded_cpu"]
    blind = [without_pictures(sample) for sample in samples]
    bare, _ = timed(
        lambda: export_samples({"train": blind}, scratch / "blind", format="tokens"), steps
    )
    trained, held = timed(lambda: inputs(open_samples([rows]), model), steps)
    return {
        "rollout_ms": cost["with"] - cost["without"],
        "rollout_bytes": (kept["with"] - kept["without"]) / steps,
        "export_ms": ms - bare,
        "export_bytes": size_of(rows / "images") / steps,
        "row_bytes": ((rows / "train.jsonl").stat().st_size
                      - (scratch / "blind/train.jsonl").stat().st_size) / steps,
        "checked_ms": checked / steps,
        "export_all_ms": ms,
        "training_ms": trained,
        "training_bytes": held,
    }  # fmt: skip


async def collect(collector: Any, episodes: Sequence[t.EpisodeTrajectory]) -> None:
    for episode in episodes:
        recorder = collector.begin_episode(episode.info)
        for step in episode.steps:
            await collector.drain()
            if not step.first:
                recorder.record_intent(step.action, decision=step.decision)
            recorder.record_step(step)
        recorder.end_episode(episode.end)
    await collector.aclose()


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def without_pictures(sample: Sample) -> Sample:
    return dataclasses.replace(sample, messages=(Message.of("user", "Task"),))


def recorded(samples: Sequence[Sample], *, pictures: bool) -> Iterator[t.EpisodeTrajectory]:
    """Yields the episodes that the samples are from."""
    for start in range(0, len(samples), STEPS_AN_EPISODE):
        own = samples[start : start + STEPS_AN_EPISODE]
        steps = [t.StepRecord(0, t.StepType.FIRST, {"screenshot": own[0].images[-1].data})]
        if not pictures:
            steps = [t.StepRecord(0, t.StepType.FIRST, {})]
        for number, sample in enumerate(own, 1):
            shown = sample if pictures else without_pictures(sample)
            call = t.ModelCall(
                model="m",
                messages=tuple(message.to_data() for message in shown.messages),
                text=sample.completion,
                prompt_token_ids=sample.prompt_token_ids,
                completion_token_ids=sample.completion_token_ids,
                logprobs=sample.logprobs,
            )
            last = number == len(own)
            steps.append(
                t.StepRecord(
                    number,
                    t.StepType.LAST if last else t.StepType.MID,
                    {"screenshot": sample.images[-1].data} if pictures else {},
                    "click",
                    0.0,
                    float(not last),
                    decision=t.Decision(action="click", model_calls=(call,)),
                )
            )
        info = t.EpisodeInfo(episode_id=own[0].key.episode_id, task="task")
        end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=t.Outcome.SUCCESS)
        yield t.EpisodeTrajectory(info, tuple(steps), end, 0.0, 1.0)


def by_tensors(samples: Sequence[Sample], model: str) -> dict[str, Any]:
    processor = load_tools(model).processor.image_processor
    kept: dict[str, Any] = {}

    def play() -> None:
        for sample in samples:
            image = sample.images[-1]
            picture = Pillow.open(io.BytesIO(image.data)).convert("RGB")
            kept[image.uuid] = processor([picture], return_tensors="pt")

    def write() -> int:
        return sum(
            len(orjson.dumps({"images": [image.uuid for image in sample.images]}))
            for sample in samples
        )

    def read() -> int:
        for sample in samples:
            made = [kept[image.uuid] for image in sample.images]
            pixels = torch.cat([one["pixel_values"] for one in made])
            torch.cat([one["image_grid_thw"] for one in made])
        return int(pixels.nbytes)

    steps = len(samples)
    rollout, _ = timed(play, steps)
    exported, row_bytes = timed(write, steps)
    trained, held = timed(read, steps)
    tensors = sum(value.nbytes for one in kept.values() for value in one.values())
    return {
        "rollout_ms": rollout,
        "rollout_bytes": tensors / steps,
        "export_ms": exported,
        "export_bytes": 0,
        "row_bytes": row_bytes / steps,
        "training_ms": trained,
        "training_bytes": held,
    }


def by_bytes(samples: Sequence[Sample], scratch: Path, model: str) -> dict[str, Any]:
    path = scratch / "bytes.jsonl"

    def write() -> None:
        with path.open("wb") as file:
            for sample in samples:
                images = [
                    "data:image/jpeg;base64," + base64.b64encode(image.data).decode()
                    for image in sample.images
                ]
                row = {"prompt_ids": sample.prompt_token_ids, "images": images,
                       "completion_ids": sample.completion_token_ids}  # fmt: skip
                file.write(orjson.dumps(row) + b"\n")

    steps = len(samples)
    exported, _ = timed(write, steps)
    trained, held = timed(lambda: inputs(open_samples([path]), model), steps)
    ids = sum(len(orjson.dumps(sample.prompt_token_ids)) for sample in samples)
    return {
        "rollout_ms": 0.0,
        "rollout_bytes": 0,
        "export_ms": exported,
        "export_bytes": 0,
        "row_bytes": (path.stat().st_size - ids) / steps,
        "training_ms": trained,
        "training_bytes": held,
    }


if __name__ == "__main__":
    main()
