"""`webtraj verify`: whether a dataset is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP

__all__ = ["verify"]


def verify(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Check every byte of a dataset. Exits with 1 if anything is wrong."""
    from rich.console import Console

    from webtraj.cli.options import storage_options
    from webtraj.cli.text import counted, printable
    from webtraj.datasets import verification

    report = verification.verify(dataset, storage_options=storage_options(option))
    console = Console(markup=False, highlight=False)
    for problem in report.problems:
        console.print(f"{printable(problem.where)}: {printable(problem.what)}")
    console.print(
        f"{counted(report.num_episodes, 'episode')}, {counted(report.num_steps, 'step')}, "
        f"{counted(report.num_blobs, 'blob')}: "
        + ("all is well" if report.clean else counted(len(report.problems), "problem"))
    )
    if report.being_written:
        console.print(f"{len(report.being_written)} episodes are being written")
    if not report.clean:
        raise typer.Exit(1)
