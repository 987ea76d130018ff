"""`webtraj report`: what rollouts came to, as a page and as pictures; several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, WHERE_HELP

__all__ = ["report"]


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET...",
            help="A dataset, a folder or s3://bucket/prefix; or a save path with iterations, such "
            "as a loop's folder. Several are compared with the first.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for the pictures as PNG files.")
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
    run: Annotated[
        str | None, typer.Option(help="Only this run's episodes: its id, or last.")
    ] = None,
    each_run: Annotated[
        bool, typer.Option("--each-run", help="Put the dataset's runs side by side.")
    ] = False,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    steps: Annotated[
        bool,
        typer.Option(
            "--steps/--no-steps",
            help="Read the episodes, or only the index: faster, without time by phase and errors.",
        ),
    ] = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, and write no page.")
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Report what rollouts came to: success over iterations, per task, time, failures, differences.

    The page is one file that needs no other, and no network. Every rate has its interval; of two
    datasets the differences have theirs, paired by task and seed where both have the same.
    """
    import sys

    import orjson

    from webtraj import errors
    from webtraj.cli.options import storage_options
    from webtraj.datasets.conditions import parse_condition
    from webtraj.reporting.plain import plain
    from webtraj.reporting.report import make_report
    from webtraj.reporting.sources import subjects_of

    if each_run and (run is not None or len(places) != 1):
        raise errors.InvalidInputError(
            "--each-run puts all runs of one dataset side by side; give one dataset, and no --run."
        )
    condition = None if where is None else parse_condition(where)
    subjects = [
        subject
        for place in places
        for subject in subjects_of(
            place,
            run=run,
            each_run=each_run,
            condition=condition,
            steps=steps,
            storage_options=storage_options(option),
        )
    ]
    made = make_report(subjects, title=title)
    if json:
        sys.stdout.write(orjson.dumps(plain(made.to_data())).decode() + "\n")
        return
    from webtraj.cli import terminal, text
    from webtraj.reporting.page import write_pictures, write_report

    write_report(made, out)
    console = terminal.make_console()
    console.print(text.printable(f"The report is in {out}."), soft_wrap=True)
    if png is not None:
        written = write_pictures(made, png)
        console.print(text.printable(f"{len(written)} pictures are in {png}."), soft_wrap=True)
