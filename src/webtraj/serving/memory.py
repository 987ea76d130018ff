"""How much memory a model needs, served and trained: arithmetic, to plan with before anything runs.

What is counted is exact for decoders of Qwen3's and Llama's kind: the weights, what AdamW keeps for
each, the cache of keys and values, what a layer keeps for the way back (as measured with PyTorch's
`saved_tensors_hooks`), the logits of the loss. What is not known before is an allowance: kernels'
workspaces, fragments, the driver. A vision tower counts with its weights; it is taken as frozen.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from webtraj import errors

__all__ = ["MemoryNeed", "ModelSize", "serving_need", "training_need"]

GIB = 2**30

Keeping = Literal["float32", "bf16", "zero-1", "zero-2", "zero-3"]
"""How a trainer keeps weights that are trained: `float32`, as `webtraj train` does; `bf16`, without
any of float32; or in bf16 with a copy in float32, shared out by DeepSpeed's ZeRO of that stage."""

_SAVED = {"float32": 26, "lora": 18, "bf16": 16}
"""Bytes that a layer keeps of a token for each number of its hidden state."""
_MAX_HEADER = 100 * 2**20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """What of a model decides on memory."""

    parameters: int
    """All its parameters, those of a vision tower too."""
    layers: int
    """The decoder's layers."""
    hidden: int
    """The width of its hidden state."""
    intermediate: int
    """The width within a layer's feed-forward part."""
    heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """The width of a head."""
    vocabulary: int
    """Tokens that there are."""

    @classmethod
    def of_config(cls, config: Mapping[str, Any], parameters: int) -> ModelSize:
        """Reads a model's `config.json`.

        Raises:
            InvalidInputError: It does not say what is needed.
        """
        text = config.get("text_config", config)
        try:
            heads = int(text["num_attention_heads"])
            hidden = int(text["hidden_size"])
            return cls(
                parameters=parameters,
                layers=int(text["num_hidden_layers"]),
                hidden=hidden,
                intermediate=int(text["intermediate_size"]),
                heads=heads,
                kv_heads=int(text.get("num_key_value_heads") or heads),
                head_dim=int(text.get("head_dim") or hidden // heads),
                vocabulary=int(text.get("vocab_size") or config["vocab_size"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise errors.InvalidInputError(
                f"The model's configuration does not say {error}; expected config.json of a "
                "decoder, as `save_pretrained` writes it."
            ) from error

    @classmethod
    def of_folder(cls, path: str | os.PathLike[str]) -> ModelSize:
        """Reads the folder of a saved model: its configuration, and its weights' shapes.

        Raises:
            InvalidInputError: It is none, or its files cannot be read.
        """
        folder = Path(path)
        try:
            config = json.loads((folder / "config.json").read_bytes())
            files = sorted(folder.glob("*.safetensors"))
            parameters = sum(map(_count_parameters, files))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.InvalidInputError(
                f"{str(folder)!r} cannot be read as a model: {error}; give the folder of one, with "
                "config.json and *.safetensors."
            ) from error
        if not parameters:
            raise errors.InvalidInputError(f"{str(folder)!r} holds no *.safetensors with weights.")
        return cls.of_config(config, parameters)

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of keys and values for each token, in a type of two bytes."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def adapter_parameters(self, rank: int) -> int:
        """Returns the parameters of a LoRA on all linear layers of the decoder."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + queries) + 2 * (self.hidden + keys)
        return rank * self.layers * (attention + 3 * (self.hidden + self.intermediate))

    def saved_bytes_per_token(self, kind: Literal["float32", "lora", "bf16"]) -> int:
        """Returns what one layer keeps of a token until the gradient has been there."""
        attention = (self.heads + self.kv_heads) * self.head_dim
        return _SAVED[kind] * self.hidden + 8 * self.intermediate + 10 * attention


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Bytes on each device."""

    weights: int
    """The weights, and copies of them in another type."""
    gradients: int = 0
    """A gradient for each weight that is trained."""
    optimizer: int = 0
    """What AdamW keeps for each weight that is trained, and its copy in float32."""
    activations: int = 0
    """What layers keep for the way back."""
    logits: int = 0
    """Logits and their gradients."""
    cache: int = 0
    """Keys and values."""
    allowance: int = 0
    """What is not known before."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, field.name) for field in dataclasses.fields(self))

    def fits(self, gib: float) -> bool:
        """Whether a device with so many GiB has room for it."""
        return self.total <= gib * GIB

    def __str__(self) -> str:
        parts = [
            f"{field.name} {getattr(self, field.name) / GIB:.1f}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name)
        ]
        return f"{self.total / GIB:.1f} GiB ({', '.join(parts)})"


def serving_need(
    model: ModelSize,
    *,
    tokens: int,
    tensor_parallel: int = 1,
    bytes_per_weight: float = 2,
    allowance_gib: float = 3.0,
) -> MemoryNeed:
    """Returns what each device needs to serve a model.

    Args:
        model: The model.
        tokens: Tokens in the cache: those of all requests at a time, prompts and replies.
        tensor_parallel: How many devices share each layer.
        bytes_per_weight: 2 in bf16, 1 in FP8.
        allowance_gib: For compiled graphs, workspaces and the driver.

    Raises:
        InvalidInputError: A number is below what makes sense.
    """
    _check(tokens=tokens, tensor_parallel=tensor_parallel)
    shares = min(tensor_parallel, model.kv_heads)  # More devices than heads keep copies.
    return MemoryNeed(
        weights=round(model.parameters * bytes_per_weight / tensor_parallel),
        cache=tokens * model.cache_bytes_per_token // shares,
        allowance=round(allowance_gib * GIB),
    )


def training_need(
    model: ModelSize,
    *,
    tokens: int,
    trained_tokens: int | None = None,
    lora_rank: int | None = None,
    keeping: Keeping = "float32",
    devices: int = 1,
    checkpointing: bool = True,
    allowance_gib: float = 3.0,
) -> MemoryNeed:
    """Returns what each device needs to train a model with AdamW, computing in bf16.

    Args:
        model: The model.
        tokens: Tokens of a pass on a device: `batch_size` times the length of the longest.
        trained_tokens: Those that logits are computed for; by default all.
        lora_rank: The rank of adapters on all linear layers; None to train all weights.
        keeping: How weights that are trained are kept; of adapters, always in float32.
        devices: How many devices ZeRO shares out over.
        checkpointing: Whether layers are computed again on the way back.
        allowance_gib: For workspaces, fragments, the driver, and buffers of communication.

    Raises:
        InvalidInputError: A number is below what makes sense.
    """
    _check(tokens=tokens, devices=devices, lora_rank=1 if lora_rank is None else lora_rank)
    weights, gradients, optimizer = _kept(model, lora_rank, keeping, devices)
    kind: Literal["float32", "lora", "bf16"] = "bf16"
    if lora_rank is not None:
        kind = "lora"
    elif keeping == "float32":
        kind = "float32"
    layer = tokens * model.saved_bytes_per_token(kind)
    between = tokens * model.hidden * (4 if kind == "float32" else 2)
    logits = tokens if trained_tokens is None else trained_tokens
    return MemoryNeed(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=model.layers * between + layer if checkpointing else model.layers * layer,
        # In bf16 and in float32, both with a gradient.
        logits=logits * model.vocabulary * 12,
        allowance=round(allowance_gib * GIB),
    )


def _kept(
    model: ModelSize, lora_rank: int | None, keeping: Keeping, devices: int
) -> tuple[int, int, int]:
    """Returns bytes of weights, gradients, and the optimizer."""
    count = model.parameters
    if lora_rank is not None:
        trained = model.adapter_parameters(lora_rank)
        return 2 * count + 4 * trained, 4 * trained, 8 * trained
    if keeping == "float32":
        return (4 + 2) * count, 4 * count, 8 * count  # With the copy in bf16 to compute with.
    if keeping == "bf16":
        return 2 * count, 2 * count, 4 * count
    stage = int(keeping.removeprefix("zero-"))
    return (
        2 * count // (devices if stage >= 3 else 1),
        2 * count // (devices if stage >= 2 else 1),
        12 * count // (devices if stage >= 1 else 1),
    )


def _count_parameters(file: Path) -> int:
    """Counts the numbers in a safetensors file by its header."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > _MAX_HEADER:
            raise ValueError(f"{file.name} has a header of {length} bytes")
        header = json.loads(opened.read(length))
    count = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            size = 1
            for dimension in tensor["shape"]:
                size *= int(dimension)
            count += size
    return count


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise errors.InvalidInputError(f"{name} is {number}; give 1 or more.")
