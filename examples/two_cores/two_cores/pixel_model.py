"""A tiny vision-language model with random weights, for pages of pixels.

    python -m two_cores.pixel_model --out base/

An Idefics3, a SigLIP on a Llama, which transformers and vLLM load unchanged. A page is 64 tokens,
one for each cell, and a click is two: a column and a row. The agent is webtraj's own, `model`:

    webtraj rollout --preset pixels/all --agent model --agent-set model=NAME ... OPTIONS

`OPTIONS` are the options that its prompts need. The prompt is the page's picture, the goal, and the
address, which is the same on all pages. Needs torch, transformers and tokenizers.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from two_cores.pixel_tasks import CELL, COLORS, GOALS, SIZE, URL, WORDS
from webtraj import errors
from webtraj.agents.options import read_options

__all__ = ["CHANNELS", "OPTIONS", "main", "make_model"]

OPTIONS: Final = {
    "mode": "coordinates",
    "dialect": "webtraj",
    "prompt": str(Path(__file__).with_name("pixels.txt")),
}
"""The options of the agent `model`, and of renderers of its prompts."""
CHANNELS: Final = read_options({"model": "", **OPTIONS}).make_context().channels
"""What it observes."""

_MIDDLES: Final = range(CELL // 2, SIZE, CELL)
_NAMES: Final = (
    *(f"mouse_click({x}, " for x in _MIDDLES),
    *(f"{y})" for y in _MIDDLES),
    *(GOALS["color"].format(color) for color in COLORS),
    *(GOALS["button"].format(word) for word in WORDS),
    GOALS["number"],
    GOALS["odd"],
    "Task: ",
    f"\n\nPage: {URL}\n\nWhere?",
)
"""The texts that are one token each: columns, rows, goals, and what is the same in all prompts."""
_CORPUS: Final = ("user assistant\n" * 4,)


def make_model(
    folder: Path, *, seed: int = 0, width: int = 64, layers: int = 2, vision_layers: int = 2
) -> Path:
    """Make a model and its processor.

    Args:
        folder: A new folder.
        seed: Seed of the weights.
        width: The width of all layers, a multiple of 32.
        layers: The number of layers of the language model.
        vision_layers: The number of layers that see only the picture.

    Returns:
        The folder.

    Raises:
        InvalidInputError: The folder exists, or the width is not a multiple of 32.
        MissingDependencyError: torch or transformers is not installed.
    """
    if folder.exists():
        raise errors.InvalidInputError(f"{str(folder)!r} exists already. Choose a new folder.")
    if width < 32 or width % 32:
        raise errors.InvalidInputError(f"The width must be a multiple of 32; got {width}.")
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise errors.missing_dependency(
            "Making a model needs PyTorch and transformers", "train"
        ) from error
    from webtraj.testing.tiny_models import make_vision_model

    folder.parent.mkdir(parents=True, exist_ok=True)
    return make_vision_model(
        folder, _CORPUS, seed=seed, vocab_size=320, names=_NAMES, width=width, layers=layers,
        vision_layers=vision_layers, image_size=SIZE, patch_size=CELL, patches_per_token=1,
        context=256, spread=0.06, place_spread=1.0,
    )  # fmt: skip


def main(
    out: Annotated[Path, typer.Option(help="A new folder for the model.")],
    seed: Annotated[int, typer.Option(help="The seed of the weights.")] = 0,
    width: Annotated[int, typer.Option(help="The width of all layers.")] = 64,
    layers: Annotated[int, typer.Option(help="The layers of the language model.")] = 2,
    vision_layers: Annotated[int, typer.Option(help="The layers that see the picture.")] = 2,
) -> None:
    """Make a tiny vision-language model with random weights, for the presets `pixels/...`."""
    made = make_model(out, seed=seed, width=width, layers=layers, vision_layers=vision_layers)
    words = [word for name, value in OPTIONS.items() for word in ("--agent-set", f"{name}={value}")]
    typer.echo(f"Made {made}. Its agent: {shlex.join(words)}")


if __name__ == "__main__":
    try:
        typer.run(main)
    except errors.WebtrajError as error:
        sys.exit(f"two_cores.pixel_model: {error}")
