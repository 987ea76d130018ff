"""`webtraj copy`: a dataset, or some of its episodes, somewhere else."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

__all__ = ["copy"]


def copy(
    source: Annotated[str, typer.Argument(help=PLACE_HELP)],
    target: Annotated[str, typer.Argument(help="A new folder or URL, or one to add to.")],
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Copy a dataset, checking every byte. May be run again to go on."""
    from webtraj.cli.convert import print_report
    from webtraj.cli.options import storage_options
    from webtraj.datasets import transfer
    from webtraj.datasets.conditions import parse_condition
    from webtraj.store.places import is_url

    options = storage_options(option)
    report = transfer.copy(
        source,
        target,
        where=None if where is None else parse_condition(where),
        source_options=options if is_url(source) else None,
        target_options=options if is_url(target) else None,
    )
    print_report(report, target)
