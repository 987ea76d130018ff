"""The rows of a plan: where each is, given the tries at it that have ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.monitor.status import CELL_OF_OUTCOME, Cell
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.retrying import RETRIED, RetryPolicy
from webtraj.rollouts.runs import counting
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import EndReason, Outcome

__all__ = ["Rows", "retry_policy"]


class Rows:
    """Where every row is. What is open, lost or judged is laid over it by who asks.

    Args:
        plan: The plan.
        retry: What the run tries again.
    """

    def __init__(self, plan: Sequence[PlannedEpisode], retry: RetryPolicy) -> None:
        self.plan = plan
        self._retry = retry
        self._tries: dict[int, list[EpisodeResult]] = {}
        self._cells = bytearray(Cell.WAITING.value.encode() * len(plan))
        self._over: set[int] = set()
        self.changes = 0
        """How many tries were taken."""

    def add(self, summary: EpisodeSummary, row: int, number: int) -> None:
        """Takes a try that ended."""
        self.changes += 1
        tries = self._tries.setdefault(row, [])
        tries.append(EpisodeResult.of_summary(summary, self.plan[row], number))
        tries.sort(key=lambda result: result.number)
        over, cell = self._state(tries)
        self._cells[row] = ord(cell.value)
        if over:
            self._over.add(row)
        else:
            self._over.discard(row)

    @property
    def over(self) -> int:
        """How many rows are over."""
        return len(self._over)

    def tries(self, row: int) -> tuple[EpisodeResult, ...]:
        """Returns the tries at a row that have ended, in order."""
        return tuple(self._tries.get(row, ()))

    def cells(self, others: Mapping[int, Cell], judged: Mapping[int, Cell]) -> str:
        """Returns the letter of each row.

        Args:
            others: Where rows are that are not over, such as under way.
            judged: What became of rows that are over, as a judge sees it.
        """
        cells = bytearray(self._cells)
        for row, cell in others.items():
            if row not in self._over:
                cells[row] = ord(cell.value)
        for row, cell in judged.items():
            if row in self._over:
                cells[row] = ord(cell.value)
        return cells.decode("ascii")

    def counting(self, row: int) -> EpisodeResult | None:
        """Returns the try that counts of a row that is over; None of any other."""
        return counting(self._tries[row])[0] if row in self._over else None

    @property
    def rows_over(self) -> frozenset[int]:
        """The rows that are over."""
        return frozenset(self._over)

    def _state(self, tries: Sequence[EpisodeResult]) -> tuple[bool, Cell]:
        """Returns whether a row is over, by the rule of `runs.progress_of`, and where it is."""
        (counted,) = counting(tries)
        if counted.counts:
            return True, CELL_OF_OUTCOME[counted.outcome]
        last = tries[-1]
        if not last.failed:
            return False, Cell.CUT_SHORT
        failures = sum(RETRIED[result.outcome] for result in tries)
        if self._retry.retries(last.outcome, failures):
            return False, Cell.AGAIN
        return True, _cell_of_failure(last)


def retry_policy(settings: Mapping[str, Any]) -> RetryPolicy:
    """Returns the retry policy that a run's settings have; that of no retries if they tell none."""
    kept = settings.get("retry")
    names = {field.name for field in dataclasses.fields(RetryPolicy)}
    try:
        return RetryPolicy(**{k: v for k, v in dict(kept or {}).items() if k in names})
    except (errors.InvalidInputError, TypeError, ValueError):
        return RetryPolicy()


def _cell_of_failure(result: EpisodeResult) -> Cell:
    if result.outcome is Outcome.UNKNOWN and result.end_reason is EndReason.ERRORED:
        return Cell.ENV_ERROR
    return CELL_OF_OUTCOME[result.outcome]
