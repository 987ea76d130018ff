"""`webtraj recover`: seal what a dead process left open."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP

__all__ = ["recover"]


def recover(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Seal the episodes whose writer died. Exits with 1 if one cannot be."""
    from rich.console import Console

    from webtraj.cli.options import storage_options
    from webtraj.cli.text import counted, printable
    from webtraj.datasets import recovery

    report = recovery.recover(dataset, storage_options=storage_options(option))
    console = Console(markup=False, highlight=False)
    for summary in report.sealed:
        console.print(
            f"{summary.episode_id}  {printable(summary.task)}: "
            f"{summary.end_reason.name.lower()} after {counted(summary.num_steps, 'step')}"
        )
    for what in report.unreadable:
        console.print(printable(what))
    console.print(
        f"{len(report.sealed)} sealed, {len(report.indexed)} added to the index, "
        f"{len(report.being_written)} being written, {len(report.unreadable)} cannot be read"
    )
    if report.unreadable:
        raise typer.Exit(1)
