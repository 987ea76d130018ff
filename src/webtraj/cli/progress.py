"""What a rollout shows: a progress bar while it runs, a table of its tasks when it ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from webtraj.cli import terminal, text
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.summary import RolloutSummary, TaskSummary
from webtraj.trajectory import Outcome

__all__ = ["RolloutProgress", "summary_table"]

_MAX_ERRORS_SHOWN = 5


class RolloutProgress:
    """Shows a rollout on the terminal; the table comes however the rollout ends."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._results: list[EpisodeResult] = []
        self._planned = 0
        self._successes = 0
        self._start = 0.0
        self._console = terminal.make_console()
        errors_console = terminal.make_console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[success]}"),
            TimeRemainingColumn(),
            console=errors_console,
            transient=True,
            disable=not errors_console.is_terminal,
        )
        self._line = self._bar.add_task("Playing", total=None, success="")

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Sets the length of the bar."""
        self._planned = len(plan)
        self._start = time.perf_counter()
        self._bar.update(self._line, total=len(plan))

    def episode_ended(self, result: EpisodeResult) -> None:
        """Moves the bar on."""
        self._results.append(result)
        self._successes += result.outcome is Outcome.SUCCESS
        self._bar.update(self._line, advance=1, success=f"{self._successes} solved")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if not self._results:
            return
        summary = RolloutSummary(
            results=tuple(self._results), seconds=time.perf_counter() - self._start
        )
        self._console.print(summary_table(summary))
        self._show_errors(summary)
        ended = "" if exc is None else f" The rollout ended early ({_why(exc)})."
        self._console.print(
            f"{len(self._results)} of {self._planned} episodes are in {self._out}.{ended}",
            soft_wrap=True,
        )

    def _show_errors(self, summary: RolloutSummary) -> None:
        for result in summary.errors[:_MAX_ERRORS_SHOWN]:
            self._console.print(
                text.printable(f"{result.task}, attempt {result.attempt}: {result.error}"),
                soft_wrap=True,
            )
        more = len(summary.errors) - _MAX_ERRORS_SHOWN
        if more > 0:
            self._console.print(f"... and {more} more errors.")


def summary_table(summary: RolloutSummary) -> Table:
    """Returns a row for each task, and one for all together.

    Success is among the episodes that were a success or a failure; steps are the mean of an
    episode. A task's steps per second are those of one worker; the last row's are those of all.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", overflow="fold")
    for name in ("episodes", "success", "steps", "steps/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ends", overflow="fold")
    for task in summary.tasks:
        table.add_row(*_row(task, task.steps_per_second))
    table.add_row()
    table.add_row(*_row(summary.total, summary.steps_per_second))
    return table


def _row(task: TaskSummary, steps_per_second: float) -> tuple[str, ...]:
    ends = ", ".join(f"{reason.name.lower()} {n}" for reason, n in task.end_reasons.items())
    return (
        text.printable(task.task),
        str(task.episodes),
        _success(task),
        f"{task.mean_steps:.1f}",
        f"{steps_per_second:.1f}",
        ends,
    )


def _success(task: TaskSummary) -> str:
    if task.success_rate is None:
        return "-"
    return f"{task.successes}/{task.successes + task.failures} ({task.success_rate:.0%})"


def _why(exc: BaseException) -> str:
    return str(exc).partition("\n")[0] or type(exc).__name__
