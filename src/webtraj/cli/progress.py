"""A rollout's progress bar, and the table of its tasks when it ends.

Rich is imported when the bar is first shown: the browser starts meanwhile.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from webtraj.cli import terminal
from webtraj.metrics.rates import success_rate
from webtraj.rollouts.results import RolloutSummary, TaskSummary
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

__all__ = ["RolloutProgress", "summary_table"]

_MAX_ERRORS_SHOWN = 5


class RolloutProgress:
    """An observer that shows a rollout on the terminal. Prints the table however the rollout ends.

    Args:
        out: The dataset that receives the episodes.
        go_on: The command that resumes the rollout if it ends early.
        bar: Whether to show a bar while it runs.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        out: str,
        *,
        go_on: str = "",
        bar: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._out = out
        self._go_on = go_on
        self._clock = clock
        self._results: list[EpisodeResult] = []
        self._summary: RolloutSummary | None = None
        self._rows: set[int] = set()
        self._planned = 0
        self._steps = 0
        self._outcomes: collections.Counter[Outcome] = collections.Counter()
        self._start = 0.0
        self._shows_bar = bar
        self._bar: Progress | None = None

    @property
    def counts(self) -> str:
        """Outcomes, success rate and speed so far."""
        counts = [f"{outcome.name.lower()} {n}" for outcome, n in self._outcomes.most_common()]
        solved = success_rate(self._outcomes).value
        if solved is not None:
            counts.append(f"{solved:.0%} solved")
        seconds = self._clock() - self._start
        if seconds > 0:
            counts.append(f"{self._steps / seconds:.1f} steps/s")
        return ", ".join(counts)

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Show the bar."""
        from rich import progress

        self._planned = len(plan)
        self._start = self._clock()
        console = terminal.make_console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[counts]}"),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (self._shows_bar and console.is_terminal),
        )
        self._line = self._bar.add_task("Playing", total=len(plan), counts="")
        self._bar.start()

    def episode_ended(self, result: EpisodeResult) -> None:
        """Advance the bar; a retry of the same episode does not move it."""
        self._results.append(result)
        self._outcomes[result.outcome] += 1
        self._steps += result.num_steps
        self._rows.add(result.row)
        assert self._bar is not None
        self._bar.update(self._line, completed=len(self._rows), counts=self.counts)

    def rollout_ended(self, summary: RolloutSummary) -> None:
        """Take the summary of the whole run, including the earlier episodes of a resumed run."""
        self._summary = summary

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._console = terminal.make_console()
        results = tuple(self._results)
        summary = RolloutSummary(results=results, seconds=self._clock() - self._start)
        earlier = 0 if self._summary is None else len(self._summary.results) - len(results)
        if earlier and results:
            self._console.print(f"{earlier} episodes were recorded earlier; these are new:")
        if not results:
            if exc is None:
                self._console.print(f"Nothing left to run in {self._out}.", soft_wrap=True)
            elif self._planned:
                self._tell_how_to_go_on()
            return
        self._console.print(summary_table(summary))
        self._show_errors(summary)
        ended = "" if exc is None else f" The rollout ended early ({_why(exc)})."
        tries = "" if len(results) == len(self._rows) else f" ({len(results)} tries)"
        self._console.print(
            f"{len(self._rows)} of {self._planned} episodes are in {self._out}{tries}.{ended}",
            soft_wrap=True,
        )
        cut_off = any(last.outcome is Outcome.CANCELLED for last in summary.last_tries)
        if exc is not None or cut_off or len(self._rows) < self._planned:
            self._tell_how_to_go_on()

    def _tell_how_to_go_on(self) -> None:
        if self._go_on:
            self._console.print(f"To resume: {self._go_on}", soft_wrap=True)

    def _show_errors(self, summary: RolloutSummary) -> None:
        for result in summary.errors[:_MAX_ERRORS_SHOWN]:
            self._console.print(
                terminal.printable(f"{result.task}, attempt {result.attempt}: {result.error}"),
                soft_wrap=True,
            )
        more = len(summary.errors) - _MAX_ERRORS_SHOWN
        if more > 0:
            self._console.print(f"... and {more} more errors.")


def summary_table(summary: RolloutSummary) -> Table:
    """Return a table with a row for each task and a total.

    The success rate counts only successes and failures; steps are the mean per episode. Steps per
    second are per worker for a task, and for all workers together in the total.
    """
    from rich.table import Table

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
        terminal.printable(task.task),
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
