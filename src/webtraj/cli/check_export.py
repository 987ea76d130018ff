"""`webtraj check-export`: whether LLaMA-Factory would train on all that a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check_export"]


def check_export(
    folder: Annotated[
        Path, typer.Argument(help="A folder with dataset_info.json and, better, train_config.yaml.")
    ],
    python: Annotated[
        Path | None,
        typer.Option(
            help="The Python of LLaMA-Factory's environment: with it, rows are measured by "
            "LLaMA-Factory, and what its environment lacks is told.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check files for LLaMA-Factory. Exits with 1 if it would abort, or not train on all of it."""
    from webtraj.cli.update import check_folder

    check_folder(folder, python)
