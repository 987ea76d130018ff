"""`webtraj index`: a dataset's index made anew, or as Parquet."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP

__all__ = ["index"]


def index(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make it anew from the episodes, reading them all.")
    ] = False,
    parquet: Annotated[
        str | None, typer.Option(help="Write it as a Parquet file, to this path or URL.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Make a dataset's index anew, or write it as a table. Safe beside writers and readers."""
    from webtraj import errors
    from webtraj.cli import terminal
    from webtraj.cli.options import storage_options
    from webtraj.cli.text import counted, printable
    from webtraj.datasets.dataset import open_dataset
    from webtraj.datasets.parquet import write_parquet
    from webtraj.datasets.rebuilding import rebuild as rebuild_index
    from webtraj.store.places import is_url

    console = terminal.make_console()
    options = storage_options(option)
    if rebuild == (parquet is not None):
        raise errors.InvalidInputError("Give either --rebuild or --parquet.")
    if parquet is not None:
        opened = open_dataset(dataset, storage_options=options if is_url(dataset) else None)
        elsewhere = options if is_url(parquet) else None
        rows = write_parquet(opened.summaries, parquet, storage_options=elsewhere)
        console.print(f"{parquet}: {counted(rows, 'row')}")
        return
    report = rebuild_index(dataset, storage_options=options)
    for episode_id in report.dropped:
        console.print(f"{episode_id}: its file is missing; taken out of the index")
    for what in report.unreadable:
        console.print(printable(what))
    console.print(
        f"{counted(report.num_episodes, 'episode')}, {report.files_before} index files before, "
        f"{report.files_after} now"
        + (f", {report.being_written} of them being written" if report.being_written else "")
    )
    if report.unreadable:
        raise typer.Exit(1)
