"""A model of random weights that can learn to point, and its tokenizer.

A Qwen3 of two layers: vLLM serves it unchanged. Heads are 32 wide, since vLLM's attention on CPUs
knows no narrower ones. Needs torch, transformers and tokenizers, imported when a model is made.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from webtraj import errors
from webtraj.agents.pointing import CLICK, ELEMENTS, MARKERS, WORDS

if TYPE_CHECKING:
    import tokenizers

__all__ = ["make_model", "make_tokenizer"]

_HEAD = 32
_END = "<end>"
_PAD = "<pad>"
# The prompt says itself where it ends: whatever a template added would have to be learned.
_TEMPLATE = "{%- for message in messages %}{{- message.content }}{%- endfor %}"


def make_model(
    folder: Path,
    texts: Iterable[str],
    *,
    seed: int = 0,
    vocab_size: int = 1600,
    width: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 1024,
) -> Path:
    """Makes a model and a tokenizer for it.

    Args:
        folder: A new folder for them.
        texts: What pages and goals say, for the tokenizer.
        seed: Of the weights.
        vocab_size: How many tokens there are at most, names included.
        width: Of its layers.
        layers: How many.
        heads: Of its attention, each 32 wide.
        context: How many tokens it can attend to.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The folder is there already.
        MissingDependencyError: torch or transformers is not installed.
    """
    if folder.exists():
        raise errors.InvalidInputError(f"{str(folder)!r} is there already; give a new folder.")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise errors.missing_dependency(
            "Making a model needs PyTorch and transformers", "train"
        ) from error

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(texts, vocab_size=vocab_size),
        eos_token=_END,
        pad_token=_PAD,
        chat_template=_TEMPLATE,
        model_max_length=context,
    )
    torch.manual_seed(seed)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=_HEAD,
        max_position_embeddings=context,
        # For layers this narrow; at the usual 0.02 hundreds of steps teach nothing.
        initializer_range=0.1,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    transformers.Qwen3ForCausalLM(config).save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    return draft.rename(folder)


def make_tokenizer(texts: Iterable[str], *, vocab_size: int = 1600) -> tokenizers.Tokenizer:
    """Makes a tokenizer: words in pieces, spaces dropped, each name of pointing prompts a token.

    Args:
        texts: What pages and goals say.
        vocab_size: How many tokens there are at most, names included.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    names = [*MARKERS, *ELEMENTS, CLICK, *WORDS]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            # Bytes, so that there is no text that cannot be said.
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(names),
        special_tokens=[_PAD, _END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Not special ones: servers leave those out of the replies that they decode.
    tokenizer.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in names])
    return tokenizer
