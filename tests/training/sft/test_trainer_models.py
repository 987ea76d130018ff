"""Adapters, images, several processes: whatever is trained, it is the same rules."""

import dataclasses

import pytest
import torch
import transformers
from training_runs import (
    opened,
    picture,
    sample,
    settings,
    weights,
)

from webtraj import errors
from webtraj.agents.models.base import Text
from webtraj.training.sft import models, publish, train
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, ModelTools, load_tools
from webtraj.training.sft.failures import PictureMismatchError
from webtraj.training.sft.optimizer_step import token_losses, weighted_sum

SAMPLES = [sample(number) for number in range(8)]


def logits(model):
    return model(input_ids=torch.arange(5, 25)[None]).logits


def test_adapters_are_trained_and_merged(text_model, tmp_path):
    import peft

    base = weights(text_model)
    wanted = settings(
        text_model, tmp_path / "run", method="lora", lora={"rank": 4}, learning_rate=1e-2
    )
    result = train(wanted, SAMPLES)
    adapters = weights(result.checkpoint / "model")
    assert all("lora_" in name for name in adapters)
    assert any(tensor.any() for name, tensor in adapters.items() if "lora_B" in name)
    kind = transformers.AutoModelForCausalLM
    with_adapters = peft.PeftModel.from_pretrained(
        kind.from_pretrained(text_model), str(result.checkpoint / "model")
    )
    published = kind.from_pretrained(publish(tmp_path / "run", tmp_path))
    assert torch.allclose(logits(published), logits(with_adapters), atol=1e-5)
    assert not torch.allclose(
        logits(published), logits(kind.from_pretrained(text_model)), atol=1e-3
    )
    assert all(torch.equal(base[name], tensor) for name, tensor in weights(text_model).items())


def test_adapters_are_not_merged_into_another_model(text_model, tmp_path):
    import shutil

    model = shutil.copytree(text_model, tmp_path / "model")
    wanted = settings(model, tmp_path / "run", method="lora", max_steps=2)
    train(wanted, SAMPLES)
    shutil.copy(
        next(publish(tmp_path / "run", tmp_path).glob("*.safetensors")),
        next(model.glob("*.safetensors")),
    )
    with pytest.raises(errors.InvalidInputError, match="changed since its adapters were started"):
        publish(tmp_path / "run", tmp_path)
    with pytest.raises(errors.InvalidInputError, match="changed since its adapters were started"):
        train(wanted, SAMPLES)


def seen(number):
    """Returns a sample whose reply only its picture gives away."""
    red = 255 * (number % 2)
    more = [" and ", picture(red, (100, 100))] if number % 3 == 0 else []
    return sample(number, "What is there? ", picture(red), *more, reply=f"click('{number % 2}')")


def test_a_model_learns_what_images_show(vision_model, tmp_path):
    samples = [seen(number) for number in range(4)] + [sample(7, reply="click('7')")]
    wanted = settings(
        vision_model,
        tmp_path / "run",
        batch_size=5,
        max_steps=50,
        learning_rate=3e-3,
        schedule="constant",
        adam_beta2=0.98,
    )
    result = train(wanted, samples, eval_samples=[seen(8), seen(9)])
    assert result.loss < 0.05
    assert result.eval_loss < 0.2
    folder = publish(tmp_path / "run", tmp_path)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    for number in (0, 1, 8):
        messages = [
            {
                "role": message.role,
                "content": [
                    {"type": "text", "text": part.text}
                    if isinstance(part, Text)
                    else {"type": "image"}
                    for part in message.parts
                ],
            }
            for message in seen(number).messages
        ]
        text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        images = opened(seen(number))
        ids = processor(text=[text], images=[images], return_tensors="pt")
        made = model.generate(**ids, do_sample=False, max_new_tokens=12)
        reply = processor.decode(made[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        assert reply == f"click('{number % 2}')"


def test_a_vision_tower_can_be_left_as_it_is(vision_model, tmp_path):
    before = weights(vision_model)
    result = train(
        settings(vision_model, tmp_path, freeze_vision=True, max_steps=2), [seen(0), seen(1)]
    )
    after = weights(result.checkpoint / "model")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert not any("vision_model" in name for name in changed)


def test_qwen3_vl_is_given_what_its_processor_gives_it(vision_model, tmp_path):
    # Its processor wants torchvision for videos, so that one is put together without them.
    tokenizer = transformers.AutoTokenizer.from_pretrained(vision_model)
    special = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    start, end, image, video = tokenizer.convert_tokens_to_ids(special)
    config = transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    processor = transformers.Qwen3VLProcessor.__new__(transformers.Qwen3VLProcessor)
    processor.tokenizer, processor.video_processor = tokenizer, None
    processor.image_processor = transformers.Qwen2VLImageProcessorPil(
        size={"shortest_edge": 1024, "longest_edge": 65536}, patch_size=16, merge_size=2
    )
    processor.image_token, processor.video_token = special[2:]
    processor.image_token_id, processor.video_token_id = image, video
    processor.chat_template = tokenizer.chat_template.replace(
        "'<image>'", "'<|vision_start|><|image_pad|><|vision_end|>'"
    )
    torch.manual_seed(0)
    model = transformers.Qwen3VLForConditionalGeneration(config).eval()
    encoder = Encoder(ModelTools(config, tokenizer, processor))
    shown = sample(1, "Is ", picture(9), " like ", picture(9, (100, 60)), "?")
    with pytest.raises(errors.InvalidInputError, match=r"images with .*mm_token_type_ids"):
        models.check_packing(settings(vision_model, tmp_path, packing=True), encoder.tools)
    data = TrainingData([shown, sample(2)], encoder, settings(vision_model, tmp_path))
    encoded = encoder.encode(shown)
    text, _ = encoder._render(shown, "")
    given = processor(text=[text], images=[opened(shown)], return_tensors="pt")
    size = given["input_ids"].shape[1]
    assert given["input_ids"][0].tolist() == encoded.input_ids[:size].tolist()
    reply = torch.from_numpy(encoded.input_ids[None, size:].astype("int64"))
    del given["attention_mask"]
    given["mm_token_type_ids"] = torch.cat(
        [given["mm_token_type_ids"], torch.zeros_like(reply)], dim=1
    )
    given["input_ids"] = torch.cat([given["input_ids"], reply], dim=1)
    with torch.no_grad():
        expected = model(**given).logits[0, size - 1 : -1].log_softmax(-1)
        nll, _, owners, _ = token_losses(model, data.batch(MicroBatch(((1,), (0,))), masked=True))
    expected = -expected.gather(1, reply[0, :, None])[:, 0]
    assert torch.allclose(nll[owners == 1], expected, atol=1e-4)
    # Each picture needs its own number of tokens; the sum is not enough.
    turned = sample(1, "Is ", picture(9, (100, 60)), " like ", picture(9), "?")
    recorded = {
        "prompt_token_ids": tuple(encoded.input_ids[:size].tolist()),
        "completion_token_ids": tuple(encoded.input_ids[size:].tolist()),
    }
    assert encoder.encode(dataclasses.replace(shown, **recorded)).recorded
    with pytest.raises(PictureMismatchError, match=r"in runs of \[4, 6\], .* 2 images .* \[6, 4\]"):
        encoder.encode(dataclasses.replace(turned, **recorded))


def test_what_is_computed_twice_has_the_same_gradients(vision_model, tmp_path):
    tools = load_tools(vision_model)
    found = []
    for again in (False, True):
        wanted = settings(vision_model, tmp_path, gradient_checkpointing=again)
        data = TrainingData([seen(0), seen(1)], Encoder(tools), wanted)
        model = models.load_model(wanted, tools)
        assert model.is_gradient_checkpointing == again
        nll, weight, _, _ = token_losses(model, data.batch(MicroBatch(((0,), (1,))), masked=True))
        weighted_sum(nll, weight).backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])
    assert any(gradient.any() for gradient in found[0].values())
