"""`webtraj scratch`: a model of random weights that can learn to point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP

__all__ = ["scratch"]


def scratch(
    datasets: Annotated[list[str], typer.Argument(help=PLACE_HELP)],
    out: Annotated[Path, typer.Option(help="A new folder for the model.")],
    seed: Annotated[int, typer.Option(help="Of the weights.")] = 0,
    vocab_size: Annotated[int, typer.Option(help="How many tokens there are at most.")] = 1600,
    width: Annotated[int, typer.Option(help="Of its layers.")] = 64,
    layers: Annotated[int, typer.Option(help="How many layers.")] = 2,
    heads: Annotated[int, typer.Option(help="Of its attention, 32 wide each.")] = 4,
    episodes: Annotated[
        int | None, typer.Option(help="The most episodes of each dataset that are read.")
    ] = None,
    options: Annotated[list[str] | None, typer.Option("--option", help=OPTION_HELP)] = None,
) -> None:
    """Make a small model from nothing, for the agent `pointing`.

    Its tokenizer is made of what the recorded pages and goals say. Record with `webtraj rollout
    --agent random`, export with `webtraj export --format pointing --set model=FOLDER`,
    train with `webtraj train`, and play with `webtraj rollout --agent pointing`.
    """
    from webtraj.cli.options import storage_options
    from webtraj.training.scratch import make_model
    from webtraj.training.scratch.texts import texts_of

    texts = texts_of(datasets, episodes=episodes, storage_options=storage_options(options))
    made = make_model(
        out, texts, seed=seed, vocab_size=vocab_size, width=width, layers=layers, heads=heads
    )
    typer.echo(f"Made {made}.")
