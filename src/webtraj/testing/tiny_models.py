"""Models with random weights, small enough to train and serve on two CPU cores, without downloads.

Making a model imports torch, transformers and tokenizers. Attention heads are 32 wide, the minimum
for vLLM on CPUs. The Python of vLLM's environment imports this without webtraj's dependencies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "CHAT_TEMPLATE",
    "SPECIAL_TOKENS",
    "language_options",
    "make_text_model",
    "make_tokenizer",
    "make_vision_model",
    "save_model",
]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
)

CHAT_TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}
{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type in ('image', 'image_url') %}{{- '<image>' }}{%- else %}{{- part.text }}{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def make_text_model(
    folder: str | os.PathLike[str],
    corpus: Iterable[str],
    *,
    seed: int = 0,
    vocab_size: int = 1536,
    width: int = 64,
    layers: int = 2,
    context: int = 2048,
    spread: float = 0.02,
) -> Path:
    """Make a Qwen3 of about 0.2 million parameters with its own tokenizer.

    Args:
        folder: A new folder for the model.
        corpus: Texts to train the tokenizer on.
        seed: The seed of the weights.
        vocab_size: The maximum size of the vocabulary.
        width: The width of its layers; a multiple of 32.
        layers: The number of layers.
        context: The context length in tokens.
        spread: The standard deviation of the weights. 0.02 suits training; with 0.2, replies differ
            clearly.

    Returns:
        The folder.
    """
    import torch
    import transformers

    tokenizer = make_tokenizer(corpus, vocab_size, context)
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        **language_options(tokenizer, width, layers, context, spread), tie_word_embeddings=True
    )
    return save_model(folder, transformers.Qwen3ForCausalLM(config), tokenizer)


def make_vision_model(
    folder: str | os.PathLike[str],
    corpus: Iterable[str],
    *,
    seed: int = 0,
    vocab_size: int = 1536,
    names: Iterable[str] = (),
    width: int = 64,
    layers: int = 2,
    vision_layers: int = 2,
    image_size: int = 112,
    patch_size: int = 14,
    patches_per_token: int = 4,
    context: int = 2048,
    spread: float = 0.02,
    place_spread: float | None = None,
) -> Path:
    """Make an Idefics3, a SigLIP on a Llama, of about 0.5 million parameters, with its processor.

    Every picture takes the same number of tokens: 16 by default. This needs
    Pillow too, but not torchvision.

    Args:
        folder: A new folder for the model.
        corpus: Texts to train the tokenizer on.
        seed: The seed of the weights.
        vocab_size: The maximum size of the vocabulary, without `names`.
        names: Texts that are one token each.
        width: The width of the layers for text and pictures; a multiple of 32.
        layers: The number of layers.
        vision_layers: The number of layers that see only the picture.
        image_size: The side in pixels that a picture's longest side is scaled to.
        patch_size: The side in pixels of the squares that the picture is cut into.
        patches_per_token: The squares in a token of the prompt: 1, 4 or 16.
        context: The context length in tokens.
        spread: The standard deviation of the weights.
        place_spread: The standard deviation of the position embeddings of squares. By default they
            are as small as the weights, so the content of a square hides its position until
            training has enlarged them.

    Returns:
        The folder.
    """
    import tokenizers
    import torch
    import transformers

    tokenizer = make_tokenizer(corpus, vocab_size, context)
    # Not special tokens: servers strip those from decoded replies.
    tokenizer.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in names])
    torch.manual_seed(seed)
    scale = math.isqrt(patches_per_token)
    config = transformers.Idefics3Config(
        vision_config={
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_hidden_layers": vision_layers,
            "num_attention_heads": width // 32,
            "image_size": image_size,
            "patch_size": patch_size,
            "initializer_range": max(spread, 0.02),
        },
        text_config={
            "model_type": "llama",
            **language_options(tokenizer, width, layers, context, spread),
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=scale,
        pad_token_id=tokenizer.pad_token_id,
    )
    edge = {"longest_edge": image_size}
    processor = transformers.Idefics3Processor(
        image_processor=transformers.Idefics3ImageProcessorPil(
            size=edge, max_image_size=edge, do_image_splitting=False
        ),
        tokenizer=tokenizer,
        image_seq_len=(image_size // patch_size // scale) ** 2,
        chat_template=CHAT_TEMPLATE,
    )
    model = transformers.Idefics3ForConditionalGeneration(config)
    if place_spread is not None:
        embeddings = model.model.vision_model.embeddings
        torch.nn.init.normal_(embeddings.position_embedding.weight, std=place_spread)
        torch.nn.init.normal_(embeddings.patch_embedding.weight, std=0.02 * place_spread)
    return save_model(folder, model, processor)


def make_tokenizer(corpus: Iterable[str], vocab_size: int, context: int) -> Any:
    """Train a byte-level tokenizer with a chat template and a token for images."""
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
    )


def language_options(
    tokenizer: Any, width: int, layers: int, context: int, spread: float
) -> Mapping[str, Any]:
    """Return the options of a transformers configuration of a language model."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 32,
        "num_key_value_heads": width // 32,
        "head_dim": 32,
        "max_position_embeddings": context,
        "initializer_range": spread,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }


def save_model(folder: str | os.PathLike[str], model: Any, tokenizer_or_processor: Any) -> Path:
    """Save a model with its tokenizer or processor at once, and return the folder."""
    path = Path(folder)
    draft = path.with_name(f"{path.name}.draft")
    model.save_pretrained(draft)
    tokenizer_or_processor.save_pretrained(draft)
    return draft.rename(path)
