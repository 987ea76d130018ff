"""`webtraj merge`: several datasets into one."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP

__all__ = ["merge"]


def merge(
    places: Annotated[
        list[str], typer.Argument(help="The datasets to merge, and last where they go.")
    ],
    to: Annotated[
        str | None, typer.Option("--format", help="The format; by default the first one's.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Copy several datasets into one. Exits with 1 if two episodes have the same id."""
    from webtraj import errors
    from webtraj.cli.convert import print_report
    from webtraj.cli.options import storage_options
    from webtraj.datasets import transfer
    from webtraj.store.places import is_url

    if len(places) < 2:
        raise errors.InvalidInputError(
            "One place was named; expected the datasets to merge, and last where they go."
        )
    *sources, target = places
    options = storage_options(option)
    report = transfer.merge(
        sources,
        target,
        format=to,
        source_options=options if any(map(is_url, sources)) else None,
        target_options=options if is_url(target) else None,
    )
    print_report(report, target)
