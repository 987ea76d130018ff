"""`webtraj push`: send what waits in a spool to its bucket, or elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP

if TYPE_CHECKING:
    from rich.console import Console

    from webtraj.datasets.pushing import PushReport

__all__ = ["push"]


def push(
    spool: Annotated[
        list[Path] | None,
        typer.Argument(help="The spool folders; by default all that were given no folder."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="A folder or URL to send to instead, if the bucket is gone for good.",
        ),
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    max_uploads: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 16,
) -> None:
    """Send the episodes that wait in spools to their buckets. Exits with 1 if any is left.

    Episodes whose writer died are sealed first. The options are those that the collector was given,
    unless given here, or with --to; credentials come from the usual places.
    """
    from webtraj import errors
    from webtraj.cli import options, terminal, text
    from webtraj.collectors.spool import spools
    from webtraj.datasets import pushing

    if to is not None and not spool:
        raise errors.InvalidInputError(
            f"--to says where episodes go, {to!r:.200}, and not which; name their spool folders."
        )
    given = options.storage_options(option)
    console = terminal.make_console()
    folders = spool or spools()
    if not folders:
        console.print("no spool is there: nothing to send")
    complete = True
    for folder in folders:
        try:
            report = pushing.push(folder, to=to, storage_options=given, max_uploads=max_uploads)
        except errors.WebtrajError as error:
            if len(folders) == 1:
                raise
            console.print(text.printable(f"{folder}: {error}"))
            complete = False
            continue
        _show(console, folder, report)
        complete = complete and report.complete
    if not complete:
        raise typer.Exit(1)


def _show(console: Console, folder: Path, report: PushReport) -> None:
    from webtraj.cli import text

    for one in report.unsent:
        console.print(text.printable(f"{one.episode_id}  not sent: {one.reason or 'no answer'}"))
    for what in report.recovery.unreadable:
        console.print(text.printable(what))
    left = len(report.unsent) + len(report.recovery.unreadable)
    console.print(
        text.printable(
            f"{folder} to {report.destination}: {report.sent_episodes} sent "
            f"({report.sent_bytes:,} bytes), {len(report.recovery.sealed)} had to be sealed, "
            f"{len(report.recovery.being_written)} being written, {left} left"
        )
    )
