"""`webtraj convert`: a dataset in another format, or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

if TYPE_CHECKING:
    from webtraj.datasets.transfer import TransferReport

__all__ = ["convert", "print_report"]


def convert(
    source: Annotated[str, typer.Argument(help=PLACE_HELP)],
    target: Annotated[str, typer.Argument(help="A new folder or URL, or one to go on with.")],
    to: Annotated[str, typer.Option("--format", help="The format: json, pb or pb.zst.")],
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Write a dataset's episodes in another format. Loses nothing; may be run again to go on."""
    from webtraj.cli.options import storage_options
    from webtraj.datasets import transfer
    from webtraj.datasets.conditions import parse_condition
    from webtraj.store.places import is_url

    options = storage_options(option)
    report = transfer.convert(
        source,
        target,
        format=to,
        where=None if where is None else parse_condition(where),
        source_options=options if is_url(source) else None,
        target_options=options if is_url(target) else None,
    )
    print_report(report, target)


def print_report(report: TransferReport, target: str) -> None:
    """Says what became of the episodes; exits with 1 if some are not where they should be."""
    from webtraj.cli import terminal
    from webtraj.cli.text import counted, printable

    console = terminal.make_console()
    for what in (*report.clashes, *report.failed):
        console.print(printable(what))
    console.print(
        f"{target}: {counted(len(report.added), 'episode')} written, "
        f"{len(report.skipped)} there already"
        + (f", {len(report.clashes)} clash with others" if report.clashes else "")
        + (f", {len(report.failed)} cannot be read" if report.failed else "")
    )
    if not report.complete:
        raise typer.Exit(1)
