"""`webtraj delete`: episodes, and the blobs that none refers to any more."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

__all__ = ["delete"]


def delete(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    episodes: Annotated[
        list[str] | None, typer.Argument(help="Ids of episodes; none: only blobs of nobody.")
    ] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    alone: Annotated[
        bool,
        typer.Option("--alone", help="Nobody is writing: remove blobs of nobody, however young."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which episodes.")] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Delete episodes for good, and blobs that none refers to. Safe beside living writers."""
    from webtraj.cli import terminal
    from webtraj.cli.options import storage_options
    from webtraj.cli.text import counted
    from webtraj.datasets import deletion
    from webtraj.datasets.conditions import parse_condition
    from webtraj.datasets.dataset import open_dataset

    console = terminal.make_console()
    options = storage_options(option)
    wanted = list(episodes or ())
    if where is not None:
        found = open_dataset(dataset, storage_options=options).filter(parse_condition(where))
        wanted += found.episode_ids
    if dry_run:
        for episode_id in sorted(set(wanted)):
            console.print(episode_id)
        return
    report = deletion.delete(dataset, wanted, alone=alone, storage_options=options)
    garbage = report.garbage
    console.print(f"{counted(len(report.deleted), 'episode')} deleted")
    if garbage.skipped:
        console.print("their blobs are left; --alone removes them, if nobody is writing there")
    else:
        console.print(
            f"{counted(garbage.removed, 'blob')} removed ({garbage.bytes:,} bytes), "
            f"{garbage.kept} kept"
            + (
                f", {garbage.too_young} of nobody kept since they are young"
                if garbage.too_young
                else ""
            )
        )
