"""`webtraj recover`: seal what a dead process left open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["recover"]


def recover(dataset: Annotated[Path, typer.Argument(help="The dataset folder.")]) -> None:
    """Seal the episodes whose writer died. Exits with 1 if one cannot be."""
    from rich.console import Console

    from webtraj.cli import text
    from webtraj.datasets import recovery

    report = recovery.recover(dataset)
    console = Console(markup=False, highlight=False)
    for summary in report.sealed:
        console.print(
            f"{summary.episode_id}  {text.printable(summary.task)}: "
            f"{summary.end_reason.name.lower()} after {summary.num_steps} steps"
        )
    for what in report.unreadable:
        console.print(text.printable(what))
    console.print(
        f"{len(report.sealed)} sealed, {len(report.indexed)} added to the index, "
        f"{len(report.being_written)} being written, {len(report.unreadable)} cannot be read"
    )
    if report.unreadable:
        raise typer.Exit(1)
