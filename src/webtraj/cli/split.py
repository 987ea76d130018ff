"""`webtraj split`: a dataset into parts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP

__all__ = ["split"]


def split(
    source: Annotated[str, typer.Argument(help=PLACE_HELP)],
    into: Annotated[str, typer.Argument(help="The folder or URL under which the parts go.")],
    part: Annotated[
        list[str],
        typer.Option(help='A part, as name=share or name=condition: train=0.8, won="...".'),
    ],
    together: Annotated[
        str, typer.Option(help="What is kept in one part: episode, task, site or group.")
    ] = "episode",
    seed: Annotated[int, typer.Option(help="Another one gives another split by shares.")] = 0,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Copy a dataset's episodes into parts: train and test, won and lost."""
    from webtraj import errors
    from webtraj.cli.convert import print_report
    from webtraj.cli.options import storage_options
    from webtraj.datasets import splitting
    from webtraj.store.places import is_url

    parts: dict[str, Any] = {}
    for item in part:
        name, found, what = item.partition("=")
        if not found or name in parts:
            raise errors.InvalidInputError(
                f"--part {item!r:.100} is none, or there twice; expected name=share or "
                "name=condition, such as train=0.8."
            )
        parts[name] = _share(what)
    options = storage_options(option)
    reports = splitting.split(
        source,
        into,
        parts,
        together=together,  # type: ignore[arg-type]  # It is checked there.
        seed=seed,
        source_options=options if is_url(source) else None,
        target_options=options if is_url(into) else None,
    )
    failed = False
    for name, report in reports.items():
        try:
            print_report(report, name)
        except typer.Exit:
            failed = True
    if failed:
        raise typer.Exit(1)


def _share(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
