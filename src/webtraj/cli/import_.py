"""`webtraj import`: take in what other systems recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["import_"]


def import_(
    source: Annotated[Path, typer.Argument(help="The file or folder to import.")],
    out: Annotated[str, typer.Option(help="The dataset: a folder or a URL.")],
    system: Annotated[
        str,
        typer.Option(
            "--from", help="What it comes from: agentlab, webgym, orby, miniwob-demos or atif."
        ),
    ] = "auto",
    format: Annotated[  # noqa: A002  (The option's name.)
        str, typer.Option(help="The format of a new dataset: json, pb or pb.zst.")
    ] = "json",
    descriptor: Annotated[
        Path | None,
        typer.Option(help="For orby: the schema, made by protoc --descriptor_set_out."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="For webgym: the folder of its screenshots.")
    ] = None,
    allow_class: Annotated[
        list[str] | None,
        typer.Option(help="A further class that pickles may name; taken as data, never loaded."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")] = False,
) -> None:
    """Import what other systems recorded. Exits with 1 if something could not be read.

    Run again it adds what is new. Pickles are read as data: nothing in them is loaded or run.
    """
    from webtraj.cli import terminal
    from webtraj.cli.text import counted, printable
    from webtraj.datasets import importers
    from webtraj.store.index import EpisodeSummary

    console = terminal.make_console()

    def tell(found: EpisodeSummary | importers.Problem | importers.Skipped) -> None:
        if isinstance(found, importers.Problem):
            console.print(printable(f"failed   {found.where}: {found.error}"))
        elif quiet:
            return
        elif isinstance(found, importers.Skipped):
            console.print(printable(f"skipped  {found.where}: {found.why}"))
        else:
            console.print(
                printable(
                    f"imported {found.episode_id}  {found.task}: "
                    f"{counted(found.num_steps, 'step')}, "
                    f"{found.end_reason.name.lower()}, {found.outcome.name.lower()}"
                )
            )

    report = importers.import_episodes(
        importers.Source(
            path=source,
            descriptor=descriptor,
            images=images,
            allow_classes=tuple(allow_class or ()),
        ),
        out,
        system=system,
        format=format,
        on_found=tell,
    )
    console.print(
        printable(
            f"{report.system}: {len(report.imported)} imported, {len(report.skipped)} skipped, "
            f"{len(report.problems)} failed"
        )
    )
    if report.problems:
        raise typer.Exit(1)
