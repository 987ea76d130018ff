"""What models need of memory, held against models that are known and what PyTorch keeps."""

import json
from pathlib import Path

import pytest
import yaml

import webtraj.loop
from rows import each
from webtraj import errors
from webtraj.serving.memory import MemoryNeed, ModelSize, serving_need, training_need

GIB = 2**30

# As transformers counts them: Qwen3-VL-2B-Instruct and Qwen3-VL-8B-Instruct.
SMALL = ModelSize(
    parameters=2_127_532_032, layers=28, hidden=2048, intermediate=6144, heads=16, kv_heads=8,
    head_dim=128, vocabulary=151_936,
)  # fmt: skip
LARGE = ModelSize(
    parameters=8_767_123_696, layers=36, hidden=4096, intermediate=12288, heads=32, kv_heads=8,
    head_dim=128, vocabulary=151_936,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "measured"),
    [
        ("bf16", (7068, 13416, 10032, 13880, 13484)),
        ("float32", (8348, 15976, 11312, 15800, 16044)),
        ("lora", (7308, 13528, 10144, 14120, 13980)),
    ],
    ids=["bf16", "float32 under autocast", "LoRA of rank 8 on bf16"],
)
def test_what_a_layer_keeps_is_what_pytorch_was_seen_to_keep(kind, measured):
    """Bytes a token in Qwen3's layers, by torch 2.13's `saved_tensors_hooks`."""
    shapes = [(128, 384, 2, 1, 64), (256, 512, 8, 8, 32), (128, 512, 4, 2, 64)]
    shapes += [(192, 1024, 4, 4, 32), (256, 768, 4, 1, 64)]
    for (hidden, intermediate, heads, kv_heads, head_dim), seen in zip(
        shapes, measured, strict=True
    ):
        size = ModelSize(
            parameters=1, layers=1, hidden=hidden, intermediate=intermediate, heads=heads,
            kv_heads=kv_heads, head_dim=head_dim, vocabulary=1,
        )  # fmt: skip
        assert size.saved_bytes_per_token(kind) == pytest.approx(seen, rel=0.03)


def test_adapter_has_as_many_parameters_as_peft_gives_it():
    assert SMALL.adapter_parameters(16) == 17_432_576  # Qwen3-1.7B's decoder, all linear layers.


def test_serving_is_weights_and_keys_and_values():
    need = serving_need(SMALL, tokens=100_000, allowance_gib=1)
    assert need == MemoryNeed(
        weights=2 * SMALL.parameters, cache=100_000 * 4 * 28 * 8 * 128, allowance=GIB
    )
    assert need.total == need.weights + need.cache + need.allowance
    shared = serving_need(SMALL, tokens=100_000, tensor_parallel=4)
    assert (shared.weights, shared.cache) == (need.weights // 4, need.cache // 4)
    copied = serving_need(SMALL, tokens=100_000, tensor_parallel=16)
    assert copied.cache == need.cache // 8  # There are 8 heads, not 16.


@each(
    ("keeping", "bytes_each"),
    [
        ("float32", 6 + 4 + 8),
        ("bf16", 2 + 2 + 4),
        ("zero-1", 2 + 2 + 12 / 8),
        ("zero-2", 2 + 2 / 8 + 12 / 8),
        ("zero-3", 16 / 8),
    ],
)
def test_bytes_for_each_weight_that_is_trained(keeping, bytes_each):
    need = training_need(LARGE, tokens=1, keeping=keeping, devices=8)
    kept = need.weights + need.gradients + need.optimizer
    assert kept == pytest.approx(bytes_each * LARGE.parameters)


def test_adapters_leave_the_weights_alone():
    need = training_need(SMALL, tokens=8192, trained_tokens=512, lora_rank=16)
    assert need.weights == 2 * SMALL.parameters + 4 * 17_432_576
    assert need.optimizer == 8 * 17_432_576
    assert need.logits == 512 * 151_936 * 12


def test_checkpointing_keeps_what_is_between_layers_and_one_layer():
    small, large = (
        training_need(SMALL, tokens=4096, keeping="zero-2", checkpointing=on).activations
        for on in (True, False)
    )
    layer = 4096 * SMALL.saved_bytes_per_token("bf16")
    assert large == 28 * layer
    assert small == layer + 28 * 4096 * 2048 * 2


def recipe(name):
    files = Path(webtraj.loop.__file__).with_name("files")
    return yaml.safe_load((files / f"{name}.yaml").read_text())


def test_one_gpu_of_24_gib_has_room_for_its_recipe():
    given = recipe("one_gpu")
    serve, train = given["serve"]["options"], given["train"]
    tokens = serve["max_num_seqs"] * serve["max_model_len"]
    assert serving_need(SMALL, tokens=tokens).fits(24 * serve["gpu_memory_utilization"])
    assert training_need(
        SMALL,
        tokens=train["batch_size"] * train["cutoff_len"],
        trained_tokens=given["rollout"]["max_tokens"],
        lora_rank=train["lora"]["rank"],
        checkpointing=train["gradient_checkpointing"],
    ).fits(24)


@pytest.mark.parametrize("name", ["node_of_8", "ray_cluster"])
def test_gpus_of_80_gib_have_room_for_their_recipe(name):
    given = recipe(name)
    serve, train = given["serve"]["options"], given["train"]["llamafactory"]["algorithm_config"]
    # Not all requests are as long as they may be: the cache holds half of that.
    tokens = serve["max_num_seqs"] * serve["max_model_len"] // 2
    assert serving_need(LARGE, tokens=tokens).fits(80 * serve["gpu_memory_utilization"])
    assert train["deepspeed_config_filename"] == "ds_config_zero2.json"
    assert training_need(
        LARGE,
        tokens=train["per_device_train_batch_size"] * train["cutoff_len"],
        keeping="zero-2",
        devices=8,
        checkpointing=train["gradient_checkpointing"],
        allowance_gib=6,
    ).fits(80)


@pytest.fixture
def folder(tmp_path):
    """A model's folder with weights of 6 and 20 numbers, in two files."""
    config = {
        "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32,
        "intermediate_size": 64, "vocab_size": 100,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    for number, shape in enumerate(([2, 3], [4, 5])):
        tensor = {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]}
        header = json.dumps({"__metadata__": {"format": "pt"}, "a": tensor}).encode()
        file = tmp_path / f"model-{number}.safetensors"
        file.write_bytes(len(header).to_bytes(8, "little") + header)
    return tmp_path


def test_folder_of_a_model_says_its_size(folder):
    size = ModelSize.of_folder(folder)
    assert (size.parameters, size.kv_heads, size.head_dim) == (26, 4, 8)
    inner = {"text_config": json.loads((folder / "config.json").read_text())}
    assert ModelSize.of_config(inner, 26) == size


def test_folder_that_is_no_model_is_refused(folder):
    (folder / "model-0.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(errors.InvalidInputError, match=r"Cannot read .* as a model.*header of"):
        ModelSize.of_folder(folder)
    with pytest.raises(errors.InvalidInputError, match="lacks a valid 'num_attention_heads'"):
        ModelSize.of_config({}, 1)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(errors.InvalidInputError, match=r"No \*\.safetensors with weights"):
        ModelSize.of_folder(folder)


def test_need_is_told_in_its_parts():
    told = str(serving_need(SMALL, tokens=131_072))
    assert told == "21.0 GiB (weights 4.0, cache 14.0, allowance 3.0)"
