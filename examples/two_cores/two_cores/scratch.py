"""A randomly initialised model for pointing prompts, and its tokenizer.

    python -m two_cores.scratch runs/random --out base/

A Qwen3 with two layers, which vLLM serves unchanged. Heads are 32 wide, the narrowest that vLLM's
CPU attention supports. Needs torch, transformers and tokenizers, imported on first use.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from two_cores.decisions import texts_of
from two_cores.pointing import ANSWERS, CLICK, ELEMENTS, MARKERS, NUMBERS, PLACES, VERBS, WORDS
from webtraj import errors
from webtraj.cli.options import PLACE_HELP, BucketOptions, storage_options

if TYPE_CHECKING:
    import tokenizers

__all__ = ["END", "main", "make_model", "make_tokenizer"]

_HEAD = 32
END: Final = "<end>"
"""The token that ends a reply."""
_PAD = "<pad>"
# The prompt marks its own end, so the template adds nothing that the model would have to learn.
_TEMPLATE = "{%- for message in messages %}{{- message.content }}{%- endfor %}"


def make_model(
    folder: Path,
    texts: Iterable[str],
    *,
    seed: int = 0,
    vocab_size: int = 1900,
    width: int = 64,
    layers: int = 2,
    heads: int = 4,
    context: int = 1024,
) -> Path:
    """Make a model and its tokenizer.

    Args:
        folder: A new folder.
        texts: Texts of pages and goals, for the tokenizer.
        seed: Seed of the weights.
        vocab_size: The most tokens, names included.
        width: The width of the layers.
        layers: The number of layers.
        heads: The number of attention heads, each 32 wide.
        context: The context length in tokens.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The folder exists.
        MissingDependencyError: torch or transformers is not installed.
    """
    if folder.exists():
        raise errors.InvalidInputError(f"{str(folder)!r} exists already. Choose a new folder.")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise errors.missing_dependency(
            "Making a model needs PyTorch and transformers", "train"
        ) from error

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=make_tokenizer(texts, vocab_size=vocab_size),
        eos_token=END,
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
        # With layers this narrow, the usual 0.02 learns nothing in hundreds of steps.
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


def make_tokenizer(texts: Iterable[str], *, vocab_size: int = 1900) -> tokenizers.Tokenizer:
    """Train a tokenizer: subwords, no spaces, and one token for each name in pointing prompts.

    Args:
        texts: Texts of pages and goals.
        vocab_size: The most tokens, names included.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    names = [*MARKERS, *ELEMENTS, CLICK, *WORDS, *VERBS, *NUMBERS, *PLACES, *ANSWERS]
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            # All bytes, so that every text can be encoded.
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(names),
        special_tokens=[_PAD, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Not special tokens: servers strip those from decoded replies.
    tokenizer.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in names])
    return tokenizer


def main(
    datasets: Annotated[list[str], typer.Argument(help=PLACE_HELP)],
    out: Annotated[Path, typer.Option(help="A new folder for the model.")],
    seed: Annotated[int, typer.Option(help="The seed of the weights.")] = 0,
    vocab_size: Annotated[int, typer.Option(help="The largest vocabulary, in tokens.")] = 1900,
    width: Annotated[int, typer.Option(help="The hidden size.")] = 64,
    layers: Annotated[int, typer.Option(help="The number of layers.")] = 2,
    heads: Annotated[int, typer.Option(help="The number of attention heads, 32 wide each.")] = 4,
    episodes: Annotated[
        int | None, typer.Option(help="Read at most this many episodes of each dataset.")
    ] = None,
    option: BucketOptions = None,
) -> None:
    """Make a small model with random weights, for the agent `pointing`.

    Its tokenizer is built from the text of the recorded pages and goals. Record with `webtraj
    rollout --agent random`, export with `webtraj train export --format pointing --set
    model=FOLDER`, train with `webtraj train`, and run with `webtraj rollout --agent pointing`.
    """
    texts = texts_of(datasets, episodes=episodes, storage_options=storage_options(option))
    made = make_model(
        out, texts, seed=seed, vocab_size=vocab_size, width=width, layers=layers, heads=heads
    )
    typer.echo(f"Made {made}.")


if __name__ == "__main__":
    try:
        typer.run(main)
    except errors.WebtrajError as error:
        sys.exit(f"two_cores.scratch: {error}")
