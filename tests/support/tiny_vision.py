"""A vision-language model with random weights, beside `webtraj.testing.tiny_models`.

Also imported by the Python of vLLM's environment, which has none of webtraj's dependencies.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from webtraj.testing import tiny_models

_IMAGE_SIZE = 112
_PATCH_SIZE = 14
_SCALE_FACTOR = 2


def make_vision_model(
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
    """Make an Idefics3, a SigLIP on a Llama, of about 0.5 million parameters.

    It is one of few vision-language models whose processor works without torchvision; PyPI's builds
    of that do not load with torch for CPUs. The arguments are those of `make_text_model`.
    """
    import torch
    import transformers

    tokenizer = tiny_models._make_tokenizer(corpus, vocab_size, context)
    torch.manual_seed(seed)
    config = transformers.Idefics3Config(
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": _IMAGE_SIZE,
            "patch_size": _PATCH_SIZE,
            "initializer_range": max(spread, 0.02),
        },
        text_config={
            "model_type": "llama",
            **tiny_models._language(tokenizer, width, layers, context, spread),
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=_SCALE_FACTOR,
        pad_token_id=tokenizer.pad_token_id,
    )
    edge = {"longest_edge": _IMAGE_SIZE}
    processor = transformers.Idefics3Processor(
        image_processor=transformers.Idefics3ImageProcessorPil(
            size=edge, max_image_size=edge, do_image_splitting=False
        ),
        tokenizer=tokenizer,
        image_seq_len=(_IMAGE_SIZE // _PATCH_SIZE // _SCALE_FACTOR) ** 2,
        chat_template=tiny_models._CHAT_TEMPLATE,
    )
    return tiny_models._saved(
        folder, transformers.Idefics3ForConditionalGeneration(config), processor
    )
