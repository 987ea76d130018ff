"""Estimate the memory that a model needs for serving and training, before anything runs.

The estimate is exact for decoders like Qwen3 and Llama: the weights, AdamW's state for each, the
key-value cache, what a layer keeps for the backward pass (as measured with PyTorch's
`saved_tensors_hooks`), and the logits of the loss. An allowance covers the rest: kernels'
workspaces, fragmentation, the driver. A vision tower counts only by its weights, as if frozen.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import orjson

from webtraj import errors

__all__ = ["MemoryNeed", "ModelSize", "serving_need", "tensors_of", "training_need"]

GIB = 2**30

Keeping = Literal["float32", "bf16", "zero-1", "zero-2", "zero-3"]
"""Storage of trained weights: `float32`, like `webtraj train`; `bf16`, without any float32 copy; or
bf16 with a float32 copy, sharded by DeepSpeed's ZeRO of that stage."""

_SAVED = {"float32": 26, "lora": 18, "bf16": 16}
"""Bytes that a layer keeps per token and number of the hidden state."""
_MAX_HEADER = 2**28


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """The sizes of a model that determine its memory."""

    parameters: int
    """All parameters, including a vision tower's."""
    layers: int
    """Layers of the decoder."""
    hidden: int
    """Width of the hidden state."""
    intermediate: int
    """Inner width of a layer's feed-forward part."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Width of a head."""
    vocabulary: int
    """Number of tokens in the vocabulary."""

    @classmethod
    def of_config(cls, config: Mapping[str, Any], parameters: int) -> ModelSize:
        """Return the sizes in a model's `config.json`.

        Raises:
            InvalidInputError: A needed value is missing or invalid.
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
                f"The model's configuration lacks a valid {error}; expected the config.json of a "
                "decoder, as written by `save_pretrained`."
            ) from error

    @classmethod
    def of_folder(cls, path: str | os.PathLike[str]) -> ModelSize:
        """Return the sizes of a saved model, from its configuration and its weights' shapes.

        Raises:
            InvalidInputError: The folder is not a model, or its files cannot be read.
        """
        folder = Path(path)
        try:
            config = json.loads((folder / "config.json").read_bytes())  # It may hold Infinity.
            headers = [tensors_of(path)[0] for path in sorted(folder.glob("*.safetensors"))]
            shapes = [tensor["shape"] for header in headers for tensor in header.values()]
            parameters = sum(map(math.prod, shapes))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise errors.InvalidInputError(
                f"Cannot read {str(folder)!r} as a model: {error}. Give a model's folder, with "
                "config.json and *.safetensors."
            ) from error
        if not parameters:
            raise errors.InvalidInputError(f"No *.safetensors with weights in {str(folder)!r}.")
        return cls.of_config(config, parameters)

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of keys and values per token, with two bytes per number."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def adapter_parameters(self, rank: int) -> int:
        """Return the number of parameters of a LoRA on all linear layers of the decoder."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + queries) + 2 * (self.hidden + keys)
        return rank * self.layers * (attention + 3 * (self.hidden + self.intermediate))

    def saved_bytes_per_token(self, kind: Literal["float32", "lora", "bf16"]) -> int:
        """Return the bytes that one layer keeps per token for the backward pass."""
        attention = (self.heads + self.kv_heads) * self.head_dim
        return _SAVED[kind] * self.hidden + 8 * self.intermediate + 10 * attention


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNeed:
    """Bytes on each device, by purpose."""

    weights: int
    """Weights, and copies of them in another type."""
    gradients: int = 0
    """Gradients of the trained weights."""
    optimizer: int = 0
    """AdamW's state of the trained weights, and their float32 copy."""
    activations: int = 0
    """Activations kept for the backward pass."""
    logits: int = 0
    """Logits and their gradients."""
    cache: int = 0
    """Key-value cache."""
    allowance: int = 0
    """Allowance for everything else."""

    @property
    def total(self) -> int:
        """Total bytes."""
        return sum(getattr(self, field.name) for field in dataclasses.fields(self))

    def fits(self, gib: float) -> bool:
        """Return whether a device with that many GiB is large enough."""
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
    """Return the memory that each device needs to serve a model.

    Args:
        model: The model.
        tokens: Tokens in the cache: prompts and replies of all concurrent requests.
        tensor_parallel: Devices that share each layer.
        bytes_per_weight: 2 in bf16, 1 in FP8.
        allowance_gib: Memory for compiled graphs, workspaces and the driver.

    Raises:
        InvalidInputError: A number is too small.
    """
    _check(tokens=tokens, tensor_parallel=tensor_parallel)
    shares = min(tensor_parallel, model.kv_heads)  # Devices beyond the heads keep copies.
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
    """Return the memory that each device needs to train a model with AdamW, computing in bf16.

    Args:
        model: The model.
        tokens: Tokens of a pass on a device: `batch_size` times the longest length.
        trained_tokens: Tokens whose logits are computed. Default: all.
        lora_rank: Rank of adapters on all linear layers; None to train all weights.
        keeping: How trained weights are kept; adapters are always in float32.
        devices: Devices over which ZeRO shards.
        checkpointing: Whether layers are recomputed in the backward pass.
        allowance_gib: For workspaces, fragmentation, the driver, and communication buffers.

    Raises:
        InvalidInputError: A number is too small.
    """
    _check(tokens=tokens, devices=devices, lora_rank=1 if lora_rank is None else lora_rank)
    weights, gradients, optimizer = _count_kept(model, lora_rank, keeping, devices)
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
        # In bf16 and in float32, each with a gradient.
        logits=logits * model.vocabulary * 12,
        allowance=round(allowance_gib * GIB),
    )


def _count_kept(
    model: ModelSize, lora_rank: int | None, keeping: Keeping, devices: int
) -> tuple[int, int, int]:
    """Return the bytes of weights, gradients, and optimizer state."""
    count = model.parameters
    if lora_rank is not None:
        trained = model.adapter_parameters(lora_rank)
        return 2 * count + 4 * trained, 4 * trained, 8 * trained
    if keeping == "float32":
        return (4 + 2) * count, 4 * count, 8 * count  # Includes the bf16 copy for computing.
    if keeping == "bf16":
        return 2 * count, 2 * count, 4 * count
    stage = int(keeping.removeprefix("zero-"))
    return (
        2 * count // (devices if stage >= 3 else 1),
        2 * count // (devices if stage >= 2 else 1),
        12 * count // (devices if stage >= 1 else 1),
    )


def tensors_of(path: Path) -> tuple[dict[str, Any], int]:
    """Return the tensors in the header of a safetensors file, and the offset of their data.

    Raises:
        ValueError: It is not a safetensors file.
    """
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size < _MAX_HEADER:
            raise ValueError(f"{path.name} has a header of {size} bytes; expected safetensors")
        header = orjson.loads(file.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def _check(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise errors.InvalidInputError(f"{name} must be 1 or more; got {number}.")
