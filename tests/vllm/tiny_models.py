"""Builds two models of random weights, small enough for two CPU cores: `tiny_models.py FOLDER`.

Run with the Python of vLLM's virtual environment; nothing is downloaded. It writes, reproducibly:

* `FOLDER/text-0`, `FOLDER/text-1`: Qwen3's architecture, two sets of weights that differ;
* `FOLDER/lora-1`, `FOLDER/lora-2`: LoRA adapters of `text-0`; `FOLDER/text-lora-1`, ...: the models
  that they make of it; `FOLDER/lora-wide`: one of a higher rank than a server is told to take;
* `FOLDER/vision`: Idefics3's, a SigLIP on a Llama. Of vLLM's architectures it is one of few that
  work without torchvision, whose builds on PyPI do not load beside torch for CPUs.

Heads are 32 wide: vLLM's attention on CPUs knows no narrower ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

from webtraj.testing import tiny_models  # noqa: E402

VOCABULARY = 2048
CONTEXT = 16384
SPREAD = 0.2
"""Wider than for training: replies then differ clearly from prompt to prompt."""

LORA_RANK = 8
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def main(folder: Path) -> None:
    """Writes the models; a folder that is there is left as it is."""
    transformers.logging.disable_progress_bar()
    tokenizer = tiny_models.make_tokenizer(corpus(), VOCABULARY, CONTEXT)
    for seed in (0, 1):
        model = make_text_model(tokenizer, seed)
        tiny_models.save_model(folder / f"text-{seed}", model, tokenizer)
    for number in (1, 2):
        adapted = make_text_model(tokenizer, 0)
        save_adapter(folder / f"lora-{number}", add_adapter(adapted, number, LORA_RANK), LORA_RANK)
        tiny_models.save_model(folder / f"text-lora-{number}", adapted, tokenizer)
    wide = add_adapter(make_text_model(tokenizer, 0), 3, 8 * LORA_RANK)
    save_adapter(folder / "lora-wide", wide, 8 * LORA_RANK)
    tiny_models.make_vision_model(
        folder / "vision", corpus(), vocab_size=VOCABULARY, context=CONTEXT, spread=SPREAD
    )


def corpus() -> Iterator[str]:
    """Yields text of the kind that agents read and write."""
    for file in sorted(ROOT.glob("docs/*.md")):
        yield file.read_text()


def make_text_model(
    tokenizer: transformers.PreTrainedTokenizerFast, seed: int
) -> transformers.PreTrainedModel:
    """Makes a Qwen3 of 0.3 million parameters whose two heads share their keys and values."""
    torch.manual_seed(seed)
    language = tiny_models.language_options(tokenizer, 64, 2, CONTEXT, SPREAD)
    config = transformers.Qwen3Config(
        **{**language, "num_key_value_heads": 1}, tie_word_embeddings=True
    )
    return transformers.Qwen3ForCausalLM(config)


@torch.no_grad()
def add_adapter(
    model: transformers.PreTrainedModel, seed: int, rank: int
) -> dict[str, torch.Tensor]:
    """Adds a LoRA of random weights to a model's own; returns it as PEFT names its weights."""
    numbers = torch.Generator().manual_seed(seed)
    adapter = {}
    for name, layer in model.named_modules():
        if name.rpartition(".")[2] in ADAPTED:
            down = torch.randn(rank, layer.in_features, generator=numbers) * 0.2
            up = torch.randn(layer.out_features, rank, generator=numbers) * 0.2
            layer.weight += up @ down  # Alpha is the rank, so that the factor is 1.
            adapter[f"base_model.model.{name}.lora_A.weight"] = down
            adapter[f"base_model.model.{name}.lora_B.weight"] = up
    return adapter


def save_adapter(folder: Path, adapter: dict[str, torch.Tensor], rank: int) -> None:
    """Saves an adapter in PEFT's files, whole or not at all."""
    draft = folder.with_name(f"{folder.name}.draft")
    draft.mkdir()
    save_file(adapter, draft / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": [*ADAPTED]}
    (draft / "adapter_config.json").write_text(json.dumps({**config, "bias": "none"}))
    draft.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
