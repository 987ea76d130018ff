"""`webtraj ls`: the episodes of a dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

__all__ = ["ls"]

_MOST_TASKS = 10


def ls(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only this policy.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only this outcome: success, failure, env_error, ...")
    ] = None,
    end_reason: Annotated[
        str | None, typer.Option(help="Only this end: terminated, truncated, crashed, ...")
    ] = None,
    min_reward: Annotated[float | None, typer.Option(help="At least this total reward.")] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    limit: Annotated[int, typer.Option(help="Show so many, the latest; 0: all.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """List a dataset's episodes, also while it is being written."""
    import sys

    from rich.console import Console
    from rich.table import Table

    from webtraj.cli import text
    from webtraj.cli.options import storage_options
    from webtraj.datasets.conditions import parse_condition
    from webtraj.datasets.dataset import open_dataset

    whole = open_dataset(dataset, storage_options=storage_options(option))
    found = whole.filter(
        None if where is None else parse_condition(where),
        task=task,
        policy=policy,
        outcome=outcome,
        end_reason=end_reason,
        min_reward=min_reward,
    )
    shown = found.summaries[-limit:] if limit else found.summaries
    if json:
        for summary in shown:
            sys.stdout.write(summary.to_line().decode())
        return
    table = Table(box=None, pad_edge=False)
    for column in ("episode", "task", "policy", "began (UTC)", "steps", "reward", "end", "outcome"):
        table.add_column(column, no_wrap=True, overflow="fold")
    for summary in shown:
        table.add_row(
            summary.episode_id,
            text.printable(summary.task),
            text.printable(summary.policy),
            text.clock(summary.start_time),
            str(summary.num_steps),
            f"{summary.total_reward:g}",
            summary.end_reason.name.lower(),
            summary.outcome.name.lower(),
        )
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:  # A file or a pipe has no width.
        console.width = 250
    console.print(table)
    if task is not None and not found.summaries:
        known = sorted({summary.task for summary in whole.summaries})
        if task not in known and known:
            console.print(text.printable(_no_such_task(task, known)))
    still_open = len(whole.open_episodes)
    console.print(
        f"{len(shown)} shown of {len(found)} found among {len(whole)}"
        + (f"; {still_open} still open or waiting for recovery" if still_open else "")
    )


def _no_such_task(task: str, known: list[str]) -> str:
    from webtraj.named import nearest

    some = ", ".join(known[:_MOST_TASKS]) + (", ..." if len(known) > _MOST_TASKS else "")
    return f"No episode has the task {task!r}. {nearest(task, known)}The tasks here: {some}."
