"""Serving and training see the same pictures: log-probabilities differ as little as those of text.

Each row is a sampled reply of a real vLLM, exported with its pictures by reference. The trainer
computes the log-probabilities of the same tokens again. Both scale pictures with Pillow, since
vLLM's environment for CPUs has no torchvision; what training with torchvision adds is printed.
"""

import io
import itertools
import json
import statistics

import numpy as np
import pytest
from PIL import Image as Pillow
from vllm_server import TRAINER, client_of, measure_mismatch, serve

from webtraj.agents.models.base import Image, Message, Sampling
from webtraj.training.export import export_samples
from webtraj.training.samples import Sample, SampleKey

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(1200)]

SIZES = [(160, 112), (112, 160), (320, 180), (64, 64)]
BOUNDS = {"float32": 1e-4, "bfloat16": 0.2}
PRECISIONS = {"float32": "float32", "bfloat16": "bf16"}


def picture(number, size):
    """Returns a screenshot-like picture: blocks of colour, no two alike."""
    blocks = np.random.default_rng(number).integers(0, 255, (6, 8, 3), np.uint8)
    file = io.BytesIO()
    Pillow.fromarray(blocks).resize(size, Pillow.Resampling.NEAREST).save(file, "PNG")
    return Image(file.getvalue())


def prompts():
    """Yields names and parts: text alone, a picture, and a history of several."""
    numbers = itertools.count()
    for number in range(4):
        yield f"text-{number}", [f"Button {number}. What do you do?"]
        size = SIZES[number]
        yield f"one-{number}", ["See: ", picture(next(numbers), size), " What do you do?"]
        one, other = picture(next(numbers), size), picture(next(numbers), size)
        yield f"two-{number}", ["Before: ", one, " Now: ", other, " What do you do?"]


async def played(client):
    """Returns the replies of a server as samples of one group."""
    samples = []
    for number, (name, parts) in enumerate(prompts()):
        messages = (Message.of("user", *parts),)
        call = await client.complete(
            messages, Sampling(temperature=1.0, max_tokens=32, seed=number)
        )
        samples.append(
            Sample(
                key=SampleKey(name, 1),
                messages=messages,
                completion=call.text,
                prompt_token_ids=tuple(call.prompt_token_ids),
                completion_token_ids=tuple(call.completion_token_ids),
                logprobs=tuple(call.logprobs),
                temperature=1.0,
                reward=float(number % 2),
                group_id="group",
            )
        )
    return samples


def changed(file, name, change):
    """Writes rows again, with the pictures of each row changed."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["images"] = change(row["images"])
    path = file.with_name(f"{name}.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def mean(found, kind):
    return statistics.fmean(value for name, value in found["rows"].items() if kind in name)


@pytest.mark.skipif(not TRAINER.exists(), reason="the trainer's environment was not made")
@pytest.mark.parametrize("dtype", BOUNDS)
async def test_pictures_are_trained_on_as_they_were_served(models, tmp_path, dtype):
    model = models / "vision"
    async with (
        serve(model, tmp_path, dtype=dtype, images_per_prompt=2) as server,
        client_of(server) as client,
    ):
        samples = await played(client)
    export_samples({"train": samples}, tmp_path / "rows", format="tokens")
    file = tmp_path / "rows/train.jsonl"
    swapped = changed(file, "swapped", lambda images: images[::-1])
    missing = changed(file, "missing", lambda images: images[:-1])
    for precision in sorted({"float32", PRECISIONS[dtype]}):
        right, wrong, fewer = measure_mismatch(model, precision, "pil", file, swapped, missing)
        (scaled,) = measure_mismatch(model, precision, "torchvision", file)
        for name, one in (("right", right), ("by torchvision", scaled), ("swapped", wrong)):
            means = [f"{kind} {mean(one, kind):.1e}" for kind in ("text", "one", "two")]
            print(f"served {dtype}, trained {precision}, {name}:", *means)
        assert right["misfits"] == wrong["misfits"] == 0
        assert max(mean(right, kind) for kind in ("text", "one", "two")) < BOUNDS[dtype]
        assert mean(wrong, "one") == pytest.approx(mean(right, "one"), rel=1e-2)
        assert mean(wrong, "two") > 5 * mean(right, "two") + 0.1
        # Nothing is trained on that lacks a picture.
        assert fewer["misfits"] == sum("text" not in name for name in right["rows"])
        assert set(fewer["rows"]) == {n for n in right["rows"] if "text" in n}
