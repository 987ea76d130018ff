"""Loading of the model to train, according to the settings."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.training.sft.encoding import ModelTools
from webtraj.training.sft.settings import SftSettings

__all__ = [
    "attention_for_changing_shapes",
    "check_packing",
    "computes_in_bf16",
    "load_model",
    "load_weights",
]


def load_model(settings: SftSettings, tools: ModelTools, *, checkpoint: Path | None = None) -> Any:
    """Load the model, ready for training.

    Args:
        settings: The model and the part of it to train.
        tools: The model's tokenizer, processor and configuration.
        checkpoint: The folder of weights or adapters to resume from.

    Raises:
        InvalidInputError: The settings name a part that the model lacks.
    """
    import torch

    full = settings.method == "full"
    bf16 = computes_in_bf16(settings)
    _check_attention(settings, bf16=bf16)
    model = load_weights(
        checkpoint if full and checkpoint is not None else settings.model,
        tools,
        # bf16 weights would lose small steps; frozen weights under adapters make none.
        dtype=torch.bfloat16 if bf16 and not full else torch.float32,
        attention=settings.attention,
    )
    model.config.use_cache = False
    if full:
        model.requires_grad_(True)
        if settings.freeze_vision:
            _vision_of(model).requires_grad_(False)
    else:
        model = _with_adapters(model, settings, checkpoint)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if not full:
            model.enable_input_require_grads()
    return model.train()


def load_weights(
    source: str | Path, tools: ModelTools, *, dtype: Any, attention: str = "sdpa"
) -> Any:
    """Load a model from storage with the given number type."""
    import transformers

    kind = (
        transformers.AutoModelForCausalLM
        if tools.processor is None
        else transformers.AutoModelForImageTextToText
    )
    return kind.from_pretrained(source, dtype=dtype, attn_implementation=attention)


def attention_for_changing_shapes() -> contextlib.AbstractContextManager[None]:
    """Return a context in which PyTorch's attention does not use cuDNN.

    PyTorch prefers cuDNN, which makes a new plan for every new shape, and each batch has its own
    length. Without cuDNN, steps on an H100 take two thirds of the time, and the first steps a third
    (benchmarks/RESULTS.md).
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    context: contextlib.AbstractContextManager[None] = sdpa_kernel(kernels)
    return context


def computes_in_bf16(settings: SftSettings) -> bool:
    """Return whether a run computes in bf16.

    Raises:
        InvalidInputError: The settings ask for bf16 and the GPU does not support it.
    """
    import torch

    on_gpu = torch.cuda.is_available()
    supported = on_gpu and torch.cuda.is_bf16_supported()
    if settings.precision == "bf16" and on_gpu and not supported:
        raise errors.InvalidInputError(
            "precision is bf16, and this GPU does not support it. Set precision to float32 or auto."
        )
    return settings.precision == "bf16" or (settings.precision == "auto" and supported)


def _check_attention(settings: SftSettings, *, bf16: bool) -> None:
    if settings.attention != "flash_attention_2":
        return
    from transformers.utils import is_flash_attn_2_available

    if not is_flash_attn_2_available():
        raise errors.MissingDependencyError(
            "attention is flash_attention_2, and flash-attn is not installed or finds no GPU. "
            "Install it, or train with attention: sdpa."
        )
    if not bf16:
        raise errors.InvalidInputError(
            "attention is flash_attention_2, which needs bf16, and precision is "
            f"{settings.precision}. Set precision: bf16, or attention: sdpa."
        )


def check_packing(settings: SftSettings, tools: ModelTools) -> None:
    """Check that packed samples cannot attend to each other, and keep their images.

    Raises:
        InvalidInputError: The settings ask for packing, and the model's attention or image inputs
            do not allow it.
    """
    if not settings.packing:
        return
    config = tools.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    if getattr(config, "use_sliding_window", True) is False:
        window = None
    why = ""
    if tools.processor is not None and tools.image_token_id is None:
        why = "the model has images and no image token"
    elif more := {*getattr(tools.processor, "model_input_names", ())} - _PACKED_INPUTS:
        why = f"the model takes images with {', '.join(sorted(more))}, which cannot be packed"
    elif kinds != {"full_attention"}:
        why = f"the model has layers of {', '.join(sorted(kinds - {'full_attention'}))}"
    elif window is not None and window < settings.cutoff_len:
        why = f"the model's attention reaches {window} tokens back"
    elif settings.attention == "eager":
        why = "attention is eager"
    if why:
        raise errors.InvalidInputError(
            f"packing needs a model with full attention by sdpa or flash_attention_2; {why}. "
            "Train with packing: false."
        )


_PACKED_INPUTS = frozenset(
    {"input_ids", "attention_mask", "pixel_values", "pixel_attention_mask", "image_sizes"}
)
"""The inputs that packing supports: those of tokens, and those of images in any row."""


def _with_adapters(model: Any, settings: SftSettings, checkpoint: Path | None) -> Any:
    try:
        import peft
    except ImportError as error:
        raise errors.missing_dependency("Adapters need peft", "train") from error
    if checkpoint is not None:
        return peft.PeftModel.from_pretrained(model, str(checkpoint), is_trainable=True)
    lora = settings.lora
    wanted = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        exclude_modules=r".*(vision|visual).*" if settings.freeze_vision else None,
        task_type="CAUSAL_LM",
    )
    try:
        return peft.get_peft_model(model, wanted)
    except ValueError as error:
        raise errors.InvalidInputError(
            f"lora.targets is {lora.targets!r:.100}, which does not fit the model: {error}"
        ) from error


def _vision_of(model: Any) -> Any:
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("visual", "vision_model", "vision_tower"):
            return module
    raise errors.InvalidInputError(
        "freeze_vision is on, and the model has no vision tower. Remove freeze_vision."
    )
