"""`webtraj presets`: what there is to play."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["presets"]


def presets(
    containing: Annotated[
        str, typer.Argument(help="Show only presets with this in their name.")
    ] = "",
) -> None:
    """List the presets that `rollout` and `webtraj.make` take."""
    from rich.table import Table

    from webtraj import registry
    from webtraj.cli import terminal

    known = registry.info()
    shown = [preset for preset in known if containing in preset.name]
    table = Table("preset", "tasks", "what it is", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for preset in shown:
        tasks = "-" if preset.num_tasks is None else str(preset.num_tasks)
        table.add_row(preset.name, tasks, preset.description)
    console = terminal.make_console()
    console.print(table)
    console.print(
        f"{len(shown)} of {len(known)} presets. Choose tasks of one by name:5, name:0:10 or "
        "name@2/8 (the third of eight shards).",
    )
