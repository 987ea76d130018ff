"""Policy gradient on prompts with pictures, beside plain torch; rows are exported and read back."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import transformers
from training_runs import opened, picture, same, sample, settings, weights

from webtraj import errors
from webtraj.agents.models.messages import for_template
from webtraj.training.export import export_samples
from webtraj.training.export.sample_files import open_samples
from webtraj.training.samples import SampleKey
from webtraj.training.sft import TrainingError, check_pictures, read_log, train
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, load_tools
from webtraj.training.sft.models import load_weights
from webtraj.training.sft.optimizer_step import token_losses, weighted_sum
from webtraj.training.sft.pictures import open_image as pillow
from webtraj.training.sft.policy_gradient import PolicyGradient

RED, BLACK = picture(255), picture(0)
WIDE = picture(90, (120, 40))
SHOWN = [
    ("Look: ", RED, " Act."),
    ("Before: ", RED, " Now: ", BLACK, " Act."),
    ("No picture. Act.",),
    ("Wide: ", WIDE, " then ", RED, " then ", BLACK, " Act."),
]
REWARDS = (1.0, 0.0, 1.0, 0.0)
MEAN = 0.5


def logprobs_of(model, processor, one):
    """Returns a prompt's ids, its reply's, and their log-probabilities, by transformers alone."""
    messages = [for_template(message, in_parts=True) for message in one.messages]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    images = [opened(one)] if one.images else None
    given = processor(text=[text], images=images, return_tensors="pt")
    prompt = given.pop("input_ids")[0]
    given.pop("attention_mask")
    reply = torch.tensor(processor.tokenizer(one.completion)["input_ids"])
    ids = torch.cat([prompt, reply])
    found = model(input_ids=ids[None], **given).logits[0, len(prompt) - 1 : -1]
    return prompt, reply, found.log_softmax(-1).gather(1, reply[:, None])[:, 0]


def read_back(samples, folder, **options):
    export_samples({"train": samples}, folder, format="tokens", options=options)
    return open_samples([folder])


def sampled_by(folder, *, noise=0.0):
    """Returns a model's attempts at one task, the model, and its processor."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    draw = np.random.default_rng(0)
    attempts = []
    for number, (parts, reward) in enumerate(zip(SHOWN, REWARDS, strict=True)):
        one = sample(number, *parts)
        with torch.no_grad():
            prompt, reply, logprobs = logprobs_of(model, processor, one)
        logprobs = logprobs.numpy() + draw.normal(0, noise, len(reply))
        attempts.append(
            dataclasses.replace(
                one,
                prompt_token_ids=tuple(prompt.tolist()),
                completion_token_ids=tuple(reply.tolist()),
                logprobs=tuple(map(float, np.minimum(logprobs, 0.0))),
                temperature=1.0,
                reward=reward,
                group_id="group",
                iteration=1,
            )
        )
    return attempts, model, processor


ALONE = ((0,), (1,), (2,), (3,))
PACKED = ((0, 1), (3, 2))


def loss_of(model, folder, samples, tmp_path, rows=ALONE):
    """Returns the trainer's loss of all samples in one batch, and its sums."""
    wanted = settings(folder, tmp_path, policy={})
    tools = load_tools(folder)
    data = TrainingData(samples, Encoder(tools), wanted)
    batch = data.batch(MicroBatch(rows), masked=True)
    nll, weight, _, _ = token_losses(model, batch)
    losses, sums = PolicyGradient(wanted.policy)(nll, batch)
    return weighted_sum(losses, weight) / data.mass(range(len(samples))), sums


def test_fresh_rows_have_the_ratio_1_step_after_step(vision_model, tmp_path):
    folder = vision_model
    for step, packing in ((1, False), (2, True)):
        samples, _, _ = sampled_by(folder)
        rows = read_back(samples, tmp_path / f"rows-{step}")
        output = tmp_path / f"run-{step}"
        result = train(settings(folder, output, policy={}, max_steps=1, packing=packing), rows)
        (entry,) = [entry for entry in read_log(output) if "policy_ratio" in entry]
        assert entry["policy_ratio"] == pytest.approx(1.0, abs=1e-4)
        assert entry["policy_mismatch"] == pytest.approx(0.0, abs=1e-4)
        lengths = np.array([len(one.completion_token_ids) for one in samples])
        expected = -(lengths * (np.array(REWARDS) - MEAN)).sum() / lengths.sum()
        assert entry["loss"] == pytest.approx(expected, abs=1e-4)
        assert entry["grad_norm"] > 0.01
        folder = result.checkpoint / "model"


def test_a_stopped_run_resumes_to_the_same_weights(vision_model, tmp_path):
    samples, _, _ = sampled_by(vision_model, noise=0.3)
    rows = read_back(samples, tmp_path / "rows")
    options = {"policy": {}, "max_steps": 4, "batch_size": 2}
    whole = train(settings(vision_model, tmp_path / "whole", **options), rows)
    asked = iter([False, True])
    stopping = settings(vision_model, tmp_path / "parts", save_steps=1, **options)
    train(stopping, rows, stopped=lambda: next(asked))
    parts = train(stopping, rows)
    assert parts.resumed_from == 2
    assert same(weights(whole.checkpoint / "model"), weights(parts.checkpoint / "model"))


@pytest.mark.parametrize("rows", [ALONE, PACKED], ids=["alone", "packed"])
def test_loss_and_gradient_are_those_of_plain_torch(vision_model, tmp_path, rows):
    samples, plain, processor = sampled_by(vision_model, noise=0.3)
    total, count, clipped = 0.0, 0, 0
    for one in samples:
        _, reply, logprobs = logprobs_of(plain, processor, one)
        ratio = (logprobs - torch.tensor(one.logprobs)).exp()
        advantage = one.reward - MEAN
        bounded = ratio.clamp(0.8, 1.2) * advantage
        clipped += int((ratio * advantage > bounded).sum())
        total = total - torch.minimum(ratio * advantage, bounded).sum()
        count += len(reply)
    (total / count).backward()
    wanted = {name: p.grad for name, p in plain.named_parameters() if p.grad is not None}
    ours = load_weights(vision_model, load_tools(vision_model), dtype=torch.float32)
    given = read_back(samples, tmp_path / "rows")
    loss, sums = loss_of(ours, vision_model, given, tmp_path, rows)
    loss.backward()
    assert loss.item() == pytest.approx((total / count).item(), rel=1e-4, abs=1e-6)
    assert sums["clipped"] == clipped > 0
    found = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    assert any("vision_model" in name and gradient.any() for name, gradient in found.items())
    for name, gradient in found.items():
        assert torch.allclose(gradient, wanted[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("number", [0, 1, 3], ids=["another", "order", "order of three"])
def test_a_swapped_picture_shows_in_the_ratio(vision_model, tmp_path, number):
    samples, model, _ = sampled_by(vision_model)
    first, asked = samples[number].messages
    other = {RED: BLACK, BLACK: RED}
    asked = dataclasses.replace(asked, parts=tuple(other.get(part, part) for part in asked.parts))
    swapped = list(samples)
    swapped[number] = dataclasses.replace(samples[number], messages=(first, asked))
    off = {}
    for name, given in (("right", samples), ("swapped", swapped)):
        with torch.no_grad():
            _, sums = loss_of(model, vision_model, given, tmp_path)
        ratio, mismatch = (float(sums[key] / sums["tokens"]) for key in ("ratio", "mismatch"))
        off[name] = abs(ratio - 1.0), mismatch
    assert max(off["right"]) < 1e-5
    assert off["swapped"][0] > 1e-4
    assert off["swapped"][1] > 1e-2


def test_ids_and_pictures_that_do_not_fit_are_left_out_and_counted(vision_model, tmp_path, caplog):
    samples, _, _ = sampled_by(vision_model)
    one, two, none, _ = samples
    token = load_tools(vision_model).image_token_id
    fewer = list(one.prompt_token_ids)
    fewer.remove(token)
    reply = (token, *none.completion_token_ids[1:])
    wrong = [
        dataclasses.replace(one, prompt_token_ids=tuple(fewer)),
        dataclasses.replace(one, messages=none.messages),
        dataclasses.replace(two, messages=one.messages),
        dataclasses.replace(one, messages=two.messages),
        dataclasses.replace(none, messages=one.messages),
        dataclasses.replace(none, completion_token_ids=reply),
    ]
    wrong = [
        dataclasses.replace(bad, key=SampleKey(f"wrong{number}", 1), reward=number % 2)
        for number, bad in enumerate(wrong)
    ]
    rows = read_back([*wrong, *samples], tmp_path / "rows")
    wanted = settings(vision_model, tmp_path / "run", policy={}, max_steps=1)
    result = train(wanted, rows)
    assert (result.data.misfits, result.data.used) == (len(wrong), len(samples))
    (said,) = [message for message in caplog.messages if "token ids" in message]
    assert "wrong0, step 1, " in said
    assert "in runs of [15], and those of its 1 images in runs of [16]" in said
    with pytest.raises(TrainingError, match="6 have pictures that do not fit"):
        train(wanted.model_copy(update={"out": str(tmp_path / "none")}), rows[: len(wrong)])
    report = export_samples(
        {"train": [*wrong, *samples]},
        tmp_path / "checked",
        format="tokens",
        options={"model": str(vision_model)},
    )
    assert dict(report.splits["train"].left_out) == {
        "its pictures do not fit its token ids": len(wrong)
    }
    assert len(open_samples([tmp_path / "checked"])) == len(samples)


def test_rows_say_what_the_processor_made_of_each_picture(vision_model, tmp_path):
    samples, _, processor = sampled_by(vision_model)
    rows = read_back(samples, tmp_path / "rows", model=str(vision_model))
    assert [one.images for one in rows] == [one.images for one in samples]
    assert len(list((tmp_path / "rows/images").iterdir())) == len({RED, BLACK, WIDE})
    wide, red, _ = rows[3].grids
    assert (wide["size"], red["size"]) == ([120, 40], [64, 48])
    for one in rows:
        assert check_pictures(one) == ""
        assert sum(grid["tokens"] for grid in one.grids) == one.prompt_token_ids.count(
            processor.image_token_id
        )
        for image, grid in zip(one.images, one.grids, strict=True):
            made = processor(text=["<image>"], images=[pillow(image)], return_tensors="pt")
            assert grid["shapes"]["pixel_values"] == list(made["pixel_values"].shape)
    named = rows[0].processor
    assert named["model"] == str(vision_model)
    assert named["class"] == "Idefics3Processor"
    assert named["settings"]["image_processor"]["size"] == {"longest_edge": 112}
    assert len(named["revision"]) == 64
    assert rows[2].processor == {}
    with pytest.raises(errors.InvalidInputError, match="does not name its model"):
        check_pictures(samples[0])
    assert [check_pictures(one, str(vision_model)) for one in samples] == [""] * len(samples)
    bare = dataclasses.replace(samples[0], prompt_token_ids=samples[2].prompt_token_ids)
    assert "image tokens stand in runs of []" in check_pictures(bare, str(vision_model))
    again = read_back(rows, tmp_path / "again")
    assert [one.grids for one in again] == [one.grids for one in rows]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"size": {"longest_edge": 224}}, "size.longest_edge 224, not 112"),
        ({"image_mean": [0.4, 0.5, 0.5]}, "image_mean [0.4, 0.5, 0.5], not [0.5, 0.5, 0.5]"),
        ("grid", "of its image 0, the processor made the tokens 15, not 16"),
        ("picture", "of its image 0, the processor made the size [64, 48], not [120, 40]"),
    ],
    ids=str,
)
def test_rows_of_another_processor_or_picture_are_left_out(vision_model, tmp_path, change, why):
    samples, _, _ = sampled_by(vision_model)
    rows = list(read_back(samples, tmp_path / "rows", model=str(vision_model)))
    changed = json.loads(json.dumps({"grids": rows[0].grids, "processor": rows[0].processor}))
    if change == "grid":
        changed["grids"][0]["tokens"] = 15
    elif change == "picture":
        changed["messages"] = sample(0, "", WIDE).messages
    else:
        changed["processor"]["settings"]["image_processor"] |= change
    rows[0] = dataclasses.replace(rows[0], **changed)
    assert why in check_pictures(rows[0])
    data = TrainingData(rows, Encoder(load_tools(vision_model)), settings(vision_model, tmp_path))
    assert (data.report.misfits, data.report.used) == (1, 3)


def test_another_library_does_not_scale_pictures_unasked(vision_model, monkeypatch):
    monkeypatch.setattr("transformers.utils.is_torchvision_available", lambda: False)
    with pytest.raises(errors.MissingDependencyError, match="torchvision"):
        load_tools(vision_model, image_backend="torchvision")


@pytest.mark.parametrize("recorded", [False, True])
def test_a_processor_without_image_token_is_named(vision_model, recorded):
    (one, *_), _, _ = sampled_by(vision_model)
    tools = load_tools(vision_model)
    blip = transformers.BlipProcessor(transformers.BlipImageProcessorPil(), tools.tokenizer)
    encoder = Encoder(
        dataclasses.replace(tools, processor=blip),
        token_ids="recorded" if recorded else "template",
    )
    with pytest.raises(errors.InvalidInputError, match="BlipProcessor, has no image token"):
        encoder.encode(one)
