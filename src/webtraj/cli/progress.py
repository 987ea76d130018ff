"""A rollout's progress bar, and the table of its tasks when it ends.

Rich is imported when the bar is first shown, while the browser starts.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from webtraj.cli import terminal
from webtraj.cli.terminal import pluralize, say
from webtraj.metrics.rates import Rate
from webtraj.rollouts.results import RolloutSummary, TaskSummary
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult
from webtraj.store.tries import pick_counting
from webtraj.trajectory import EndReason, Outcome, has_succeeded

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["RolloutProgress", "summary_table", "table_rows"]

_MAX_ERRORS_SHOWN = 5


class RolloutProgress:
    """An observer that shows a rollout on the terminal. Prints the table however the rollout ends.

    Args:
        out: The dataset that receives the episodes.
        go_on: The command that resumes the rollout, to show if it ends early.
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
        self._last: dict[int, EpisodeResult] = {}
        self._graded: collections.Counter[bool | None] = collections.Counter()
        self._planned = 0
        self._rows: set[int] = set()
        self._steps = 0
        self._outcomes: collections.Counter[Outcome] = collections.Counter()
        self._start = 0.0
        self._shows_bar = bar
        self._bar: terminal.Bar | None = None

    @property
    def counts(self) -> str:
        """Outcomes, success rate and speed so far."""
        counts = [f"{outcome.name.lower()} {n}" for outcome, n in self._outcomes.most_common()]
        solved = Rate(self._graded[True], self._graded[True] + self._graded[False]).value
        if solved is not None:
            counts.append(f"{solved:.0%} solved")
        seconds = self._clock() - self._start
        if seconds > 0:
            counts.append(f"{self._steps / seconds:.1f} steps/s")
        return ", ".join(counts)

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Show the bar."""
        self._planned = len(plan)
        self._rows = {planned.row for planned in plan}
        self._start = self._clock()
        self._bar = terminal.Bar("Playing", shown=self._shows_bar)
        self._bar.show(0, self._planned)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Advance the bar; a retry of the same episode does not move it."""
        self._results.append(result)
        self._outcomes[result.outcome] += 1
        self._steps += result.num_steps
        before = self._last.get(result.row)
        counted = result if before is None else pick_counting((before, result))[0]
        if before is not None:
            self._graded[_has_succeeded(before)] -= 1
        self._graded[_has_succeeded(counted)] += 1
        self._last[result.row] = counted
        assert self._bar is not None
        self._bar.show(len(self._last), self._planned, self.counts)

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
            self._bar.close()
        results = tuple(self._results)
        summary = RolloutSummary(results=results, seconds=self._clock() - self._start)
        earlier = 0 if self._summary is None else len(self._summary.results) - len(results)
        if earlier and results:
            say(f"Recorded earlier: {pluralize(earlier, 'episode')}; these are new:")
        if not results:
            if exc is None:
                say(f"Nothing left to run in {self._out}.")
            elif self._planned:
                self._tell_how_to_go_on()
            return
        terminal.make_console().print(summary_table(summary))
        told = [f"{one.task}, attempt {one.attempt}: {one.error}" for one in summary.errors]
        terminal.say_first(told, _MAX_ERRORS_SHOWN, "errors.")
        ended = "" if exc is None else f" The rollout ended early ({_why(exc)})."
        # Of a resumed run, all of its rows.
        whole = summary if self._summary is None else self._summary
        last = whole.last_tries
        planned = self._planned + len({one.row for one in last} - self._rows)
        played = sum(result.counts for result in last)
        broke = sum(result.broke for result in last)
        cut_off = len(last) - played - broke
        others = {
            "failed by the machinery": broke,
            "cut off": cut_off,
            "tries in all": len(whole.results) if len(whole.results) > len(last) else 0,
        }
        more = ", ".join(f"{number} {what}" for what, number in others.items() if number)
        are = "episode is" if planned == 1 else "episodes are"
        more = f" ({more})" if more else ""
        say(f"{played} of {planned} {are} in {self._out}{more}.{ended}")
        if exc is not None or cut_off or len(last) < planned:
            self._tell_how_to_go_on()

    def _tell_how_to_go_on(self) -> None:
        if self._go_on:
            say(f"To resume: {self._go_on}")


def summary_table(summary: RolloutSummary) -> Table:
    """Return a table with a row for each task and a total.

    The success rate counts only successes and failures; steps are the mean per episode. Steps per
    second are per worker for a task, and for all workers together in the total.
    """
    rows: list[tuple[str, ...]] = [_row(task, task.steps_per_second) for task in summary.tasks]
    rows += [(), _row(summary.total, summary.steps_per_second)]
    columns = ("task", ">episodes", ">success", ">steps", ">steps/s", "ends")
    return terminal.make_table(*columns, rows=rows)


def table_rows(summary: RolloutSummary) -> Iterator[dict[str, Any]]:
    """Yield the rows of that table for `--csv`, with the counts behind the rates."""
    for one in summary.tasks:
        yield {
            "task": one.task,
            "episodes": one.episodes,
            "successes": one.successes,
            "failures": one.failures,
            "infrastructure_failures": one.infrastructure_failures,
            "success_rate": one.success_rate,
            "mean_steps": one.mean_steps,
            "steps_per_second": one.steps_per_second,
            **{reason.name.lower(): one.end_reasons.get(reason, 0) for reason in EndReason},
        }


def _row(task: TaskSummary, steps_per_second: float) -> tuple[str, ...]:
    ends = ", ".join(f"{reason.name.lower()} {n}" for reason, n in task.end_reasons.items())
    counts = (str(task.episodes), _success(task), f"{task.mean_steps:.1f}")
    return (task.task, *counts, f"{steps_per_second:.1f}", ends)


def _success(task: TaskSummary) -> str:
    if task.success_rate is None:
        return "-"
    return f"{task.successes}/{task.successes + task.failures} ({task.success_rate:.0%})"


def _has_succeeded(result: EpisodeResult) -> bool | None:
    return has_succeeded(result.outcome, result.end_reason)


def _why(exc: BaseException) -> str:
    return str(exc).partition("\n")[0] or type(exc).__name__
