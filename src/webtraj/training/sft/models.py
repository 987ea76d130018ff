"""Loading the model that is trained, as the settings want it."""

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
    """Returns the model, ready to be trained.

    Args:
        settings: Which model, and what of it is trained.
        tools: What it comes with.
        checkpoint: The folder with the weights, or adapters, to go on with.

    Raises:
        InvalidInputError: The model has no part that the settings name.
    """
    import torch

    full = settings.method == "full"
    bf16 = computes_in_bf16(settings)
    _check_attention(settings, bf16=bf16)
    model = load_weights(
        checkpoint if full and checkpoint is not None else settings.model,
        tools,
        # Small steps are lost on weights in bf16; those under adapters make none.
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
    """Returns a model as it is stored, in the given type of numbers."""
    import transformers

    kind = (
        transformers.AutoModelForCausalLM
        if tools.processor is None
        else transformers.AutoModelForImageTextToText
    )
    return kind.from_pretrained(source, dtype=dtype, attn_implementation=attention)


def attention_for_changing_shapes() -> contextlib.AbstractContextManager[None]:
    """Returns a context in which PyTorch's attention does without cuDNN's.

    PyTorch takes cuDNN's first, which makes a plan for every shape that is new to it; here each
    batch has a length of its own. With the others, steps on an H100 take two thirds of the time,
    the first ones a third (docs/benchmarks.md).
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    context: contextlib.AbstractContextManager[None] = sdpa_kernel(kernels)
    return context


def computes_in_bf16(settings: SftSettings) -> bool:
    """Returns whether a run computes in bf16.

    Raises:
        InvalidInputError: It shall, and the GPU cannot.
    """
    import torch

    on_gpu = torch.cuda.is_available()
    supported = on_gpu and torch.cuda.is_bf16_supported()
    if settings.precision == "bf16" and on_gpu and not supported:
        raise errors.InvalidInputError(
            "precision is bf16, and this GPU does not support it; expected float32 or auto."
        )
    return settings.precision == "bf16" or (settings.precision == "auto" and supported)


def _check_attention(settings: SftSettings, *, bf16: bool) -> None:
    if settings.attention != "flash_attention_2":
        return
    from transformers.utils import is_flash_attn_2_available

    if not is_flash_attn_2_available():
        raise errors.MissingDependencyError(
            "attention is flash_attention_2, and flash-attn is not installed, or there is no GPU "
            "for it; install it, or train with attention: sdpa."
        )
    if not bf16:
        raise errors.InvalidInputError(
            "attention is flash_attention_2, which computes in bf16, and precision is "
            f"{settings.precision}; expected precision: bf16, or attention: sdpa."
        )


def check_packing(settings: SftSettings, tools: ModelTools) -> None:
    """Checks that packed samples would not see each other.

    Raises:
        InvalidInputError: Packing is wanted, and this model has other means than full attention to
            carry something from one token to the next.
    """
    if not settings.packing:
        return
    config = tools.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None)
    if getattr(config, "use_sliding_window", True) is False:
        window = None
    why = ""
    if tools.processor is not None:
        why = "the model takes images, whose positions are not packed"
    elif kinds != {"full_attention"}:
        why = f"the model has layers of {', '.join(sorted(kinds - {'full_attention'}))}"
    elif window is not None and window < settings.cutoff_len:
        why = f"the model's attention reaches {window} tokens back"
    elif settings.attention == "eager":
        why = "attention is eager"
    if why:
        raise errors.InvalidInputError(
            f"packing is for text models with full attention, by sdpa or flash_attention_2; {why}. "
            "Train with packing: false."
        )


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
        "freeze_vision is on, and the model has no vision tower; leave it out."
    )
