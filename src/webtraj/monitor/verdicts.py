"""What a judge said of a run's episodes, as it comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.datasets.index_tail import IndexTail
from webtraj.monitor.locating import WatchedRun
from webtraj.monitor.rows import Rows
from webtraj.monitor.status import CELL_OF_OUTCOME, Cell
from webtraj.store.index import EpisodeSummary

__all__ = ["Verdicts"]

_QUIET = 120.0
"""Seconds without a verdict after which the judge is no longer waited for."""


class Verdicts:
    """Follows the judged dataset of a run, if there is one.

    Args:
        watched: The run.
    """

    def __init__(self, watched: WatchedRun) -> None:
        self._run = watched.run
        self._tails = [IndexTail(storage, self._run.run_id) for storage in watched.judged]
        self._found: list[dict[str, EpisodeSummary]] = [{} for _ in self._tails]
        self._changed = 0.0
        self.version = 0
        """Changes whenever a verdict has come."""
        self._cells: tuple[Any, dict[int, Cell]] = (None, {})

    def look(self, now: float) -> Mapping[str, EpisodeSummary] | None:
        """Returns the judged episodes of the run, by id; None if there is no judged dataset.

        Raises:
            StorageError: It cannot be read.
        """
        for tail, found in zip(self._tails, self._found, strict=True):
            anew, summaries = tail.read()
            if anew:
                found.clear()
            for summary in summaries:
                if self._run.place_of(summary.episode_id) is not None:
                    found[summary.episode_id] = summary
                    self._changed = now
                    self.version += 1
        return next((found for found in self._found if found), None)

    def cells(
        self, judged: Mapping[str, EpisodeSummary] | None, rows: Rows, now: float
    ) -> dict[int, Cell]:
        """Returns what became of rows that are over, as the judge sees it."""
        if judged is None:
            return {}
        waited_for = now - self._changed < _QUIET
        known = (id(rows), self.version, rows.changes, waited_for)
        if self._cells[0] == known:
            return self._cells[1]
        cells = {}
        for row in rows.rows_over:
            counted = rows.counting(row)
            verdict = None if counted is None else judged.get(counted.episode_id)
            if verdict is not None:
                cells[row] = CELL_OF_OUTCOME[verdict.outcome]
            elif waited_for:
                cells[row] = Cell.JUDGING
        self._cells = (known, cells)
        return cells
