"""What the tests of the trainer share."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import torch
import transformers
from safetensors.torch import load_file

from webtraj.agents.models.base import Image, Message
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft import SftSettings

ROOT = Path(__file__).resolve().parents[3]
CORPUS = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))]

transformers.logging.disable_progress_bar()
torch.set_num_threads(1)


def sample(number, *parts, reply=None, **options):
    """Returns a sample; the parts are the user's message."""
    parts = parts or (f"Click the button with the number {number}." * (1 + number % 3),)
    return Sample(
        key=SampleKey(f"episode{number}", 1),
        messages=(Message.of("system", "Reply with an action."), Message.of("user", *parts)),
        completion=reply or f"click('{number}')",
        **options,
    )


def picture(red, size=(64, 48)):
    encoded = io.BytesIO()
    PIL.Image.new("RGB", size, (red, 0, 0)).save(encoded, "PNG")
    return Image(encoded.getvalue())


def opened(one):
    """Returns the pictures of a sample."""
    return [PIL.Image.open(io.BytesIO(image.data)) for image in one.images]


def settings(model, output, **options):
    return SftSettings(
        model=str(model),
        out=str(output),
        **{"batch_size": 4, "learning_rate": 1e-3, "max_steps": 6, **options},
    )


def weights(folder):
    """Returns all tensors of a folder's model or adapters."""
    (path,) = Path(folder).glob("*.safetensors")
    return load_file(path)


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def write_rows(path, samples):
    """Writes samples as rows of text."""
    rows = [
        {
            "episode_id": one.key.episode_id,
            "step": one.key.step,
            "messages": [
                {"role": message.role, "content": "".join(part.text for part in message.parts)}
                for message in one.messages
            ],
            "completion": one.completion,
            "loss_weight": one.loss_weight,
        }
        for one in samples
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def start_command(*arguments, launch=()):
    """Starts `webtraj train` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, *launch, "-m", "webtraj", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "ACCELERATE_USE_CPU": "1",
        },
    )


def greedy(model, tokenizer, prompt, longest=24):
    """Returns the reply that a model gives when it always takes the likeliest token."""
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
    made = model.generate(**ids, do_sample=False, max_new_tokens=longest)
    return tokenizer.decode(made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)


def prompt_text(tokenizer, one):
    return tokenizer.apply_chat_template(
        [
            {"role": message.role, "content": "".join(part.text for part in message.parts)}
            for message in one.messages
        ],
        tokenize=False,
        add_generation_prompt=True,
    )


def reference_losses(model, encoded):
    """Returns a sample's losses token by token, straight from the model's definition."""
    ids = torch.from_numpy(encoded.input_ids.astype(np.int64))[None]
    with torch.no_grad():
        found = model(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
    picked = -found.gather(1, ids[0, 1:, None])[:, 0]
    return picked[torch.from_numpy(encoded.trained[1:])]
