"""`webtraj export check`: whether LLaMA-Factory would take an export as it is."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["check"]


def check(
    folder: Annotated[
        str, typer.Argument(help="A folder with dataset_info.json, such as an export's.")
    ],
    python: Annotated[
        str | None,
        typer.Option(
            help="The Python of LLaMA-Factory's environment, to ask it how long rows are."
        ),
    ] = None,
) -> None:
    """Find what LLaMA-Factory would abort on, or drop without a word. Exits with 1 then."""
    from webtraj.cli import terminal
    from webtraj.cli.text import counted, printable
    from webtraj.training.llamafactory.checking import check_export

    report = check_export(folder, python=python)
    console = terminal.make_console()
    for problem in report.problems:
        console.print(printable(str(problem)), soft_wrap=True)
    if report.problems:
        console.print(counted(len(report.problems), "problem"), soft_wrap=True)
        raise typer.Exit(1)
    console.print(printable(f"{folder}: LLaMA-Factory takes it as it is"), soft_wrap=True)
