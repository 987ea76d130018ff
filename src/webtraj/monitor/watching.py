"""Watching a run from outside, by what it writes anyway.

A rollout need not know that it is watched, and nothing is added to what it does: the plan says what
is to be played; the dataset's index, what has ended; the journals of open episodes, which line by
line say what goes on (`tailing`), what is under way. Each look reads only what has come since the
last one. So any number of monitors may look, at any time, also at a run that died long ago.

What is not seen: episodes that are played on another machine, until they are in the dataset; their
rows are waiting until then. Episodes on their way to a bucket are seen on the machine that plays
them, in its spool.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.collectors.index import EpisodeSummary
from webtraj.monitor.faults import FaultBook
from webtraj.monitor.locating import WatchedRun, find_run
from webtraj.monitor.pace import Pace, Sites
from webtraj.monitor.rows import Rows, retry_policy
from webtraj.monitor.status import (
    CELL_OF_OUTCOME,
    Cell,
    OpenEpisode,
    RunStatus,
    Writer,
)
from webtraj.monitor.tailing import IndexTail, JournalTail, JournalTails, LockTable
from webtraj.monitor.waiting import Unsent
from webtraj.reporting.faults import is_fault
from webtraj.rollouts.metrics.estimators import wilson_interval
from webtraj.rollouts.metrics.files import read_metrics
from webtraj.storage.folder import FolderStorage
from webtraj.trajectory import Outcome

__all__ = ["QUIET", "RunMonitor"]

QUIET = 30.0
"""Seconds without any change after which a run that nobody holds is taken for dead."""

_JUDGE_QUIET = 120.0
"""The same for a judge, whose verdicts may take long."""

_SHOWN = 50
_SITES_SHOWN = 10


class RunMonitor:
    """Looks at one run. Safe to use from one thread at a time.

    Args:
        place: A dataset's folder or URL, or a rollout's save path with iterations in it.
        run_id: The run; by default the latest.
        storage_options: For a bucket, as `webtraj.storage.open_storage` takes them.
        clock: Gives the time in seconds since the epoch.

    Raises:
        InvalidInputError: There is no run, or its plan is damaged.
        StorageError: The place cannot be read.
    """

    def __init__(
        self,
        place: str,
        run_id: str | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._watched: WatchedRun = find_run(place, run_id, storage_options)
        self._options = storage_options
        self._clock = clock
        self._plan = self._watched.run.read_plan()
        settings = self._watched.run.read_settings()
        self._retry = retry_policy(settings)
        parallel = settings.get("parallel")
        self._parallel = parallel if isinstance(parallel, int) else None
        storage, run = self._watched.run.storage, self._watched.run.run_id
        self._index = IndexTail(storage, run)
        self._judged = [IndexTail(judged, run) for judged in self._watched.judged]
        self._verdicts: list[dict[str, EpisodeSummary]] = [{} for _ in self._judged]
        self._journals = JournalTails(self._watched.journals, run)
        self._unsent = Unsent(self._watched.spools, run)
        folders = [folder.parent for folder in self._watched.journals]
        self._locks = [LockTable(folder / "dataset.json") for folder in folders]
        self._last: RunStatus | None = None
        self._changed = 0.0
        self._begin_anew()

    @property
    def run_id(self) -> str:
        """The run."""
        return self._watched.run.run_id

    @property
    def place(self) -> str:
        """The dataset that the run is in."""
        return self._watched.place

    def look(self) -> RunStatus:
        """Returns where the run is now.

        A storage that cannot be read is no error: the status is that of the last look, and says so.

        Raises:
            StorageError: It could not be read at the first look.
            UnsupportedSchemaError: The run was played by a newer webtraj.
        """
        try:
            self._last = self._look(self._clock())
        except errors.StorageError as error:
            if self._last is None:
                raise
            self._last = dataclasses.replace(self._last, time=self._clock(), trouble=str(error))
        return self._last

    def row(self, number: int) -> dict[str, Any]:
        """Returns what is known of one row, as JSON data.

        Raises:
            InvalidInputError: The plan has no such row.
        """
        if not 0 <= number < len(self._plan):
            raise errors.InvalidInputError(
                f"The plan has the rows 0 to {len(self._plan) - 1}; got {number}."
            )
        planned = self._plan[number]
        tries = [
            {
                "episode_id": result.episode_id,
                "try": result.number,
                "outcome": result.outcome.name.lower(),
                "end_reason": result.end_reason.name.lower(),
                "steps": result.num_steps,
                "reward": result.total_reward,
                "seconds": result.seconds,
            }
            for result in self._rows.tries(number)
        ]
        return {
            "row": number,
            "task": planned.task,
            "goal": planned.spec.goal,
            "site": planned.spec.site,
            "level": planned.spec.level,
            "attempt": planned.attempt,
            "seed": planned.seed,
            "tries": tries,
        }

    def _begin_anew(self) -> None:
        self._rows = Rows(self._plan, self._retry)
        self._pace, self._sites = Pace(), Sites()
        self._faults = FaultBook(self._watched, self._options)
        self._ended: dict[str, int] = {}
        self._outcomes: collections.Counter[Outcome] = collections.Counter()

    def _look(self, now: float) -> RunStatus:
        tails = self._journals.look()  # First: what is sealed meanwhile is in the index.
        unsent = self._unsent.look()
        anew, summaries = self._index.read()
        if anew:
            self._begin_anew()
        for summary in summaries:
            self._take(summary, now)
        for summary in unsent.values():
            self._take(summary, now, in_spool=True)
        tails = {
            episode_id: tail
            for episode_id, tail in tails.items()
            if episode_id not in self._ended and self._row_of(episode_id) is not None
        }
        judged = self._read_verdicts()
        self._faults.read_some()
        writer = self._writer(tails, now)
        outcomes = self._outcomes_with(judged)
        solved, failed = outcomes[Outcome.SUCCESS], outcomes[Outcome.FAILURE]
        whole = self._pace.whole()
        left = len(self._plan) - self._rows.over
        tries_a_row = max(self._pace.episodes / max(self._rows.over, 1), 1.0)
        pace = whole.episodes_per_second
        began = [tail.began for tail in tails.values() if tail.began is not None]
        return RunStatus(
            run_id=self.run_id,
            place=self.place,
            time=now,
            writer=writer,
            planned=len(self._plan),
            over=self._rows.over,
            tries=self._pace.episodes,
            cells=self._cells(tails, judged, writer, now),
            parallel=self._parallel,
            started=min(
                [*began, *([self._pace.started] if self._pace.started else [])], default=None
            ),
            outcomes={outcome.name.lower(): n for outcome, n in outcomes.items() if n},
            success=(solved, solved + failed),
            interval=wilson_interval(solved, solved + failed),
            steps=self._pace.steps + sum(tail.steps for tail in tails.values()),
            minute=self._pace.minute(tails.values(), now),
            whole=whole,
            remaining=left * tries_a_row / pace if pace and self._rows.over else None,
            judged=None if judged is None else len(judged),
            unsent=len(unsent),
            underway=self._underway(tails, now),
            sites=self._sites.slowest(_SITES_SHOWN),
            faults=self._faults.counts(),
            faults_unread=self._faults.unread,
        )

    def _take(self, summary: EpisodeSummary, now: float, *, in_spool: bool = False) -> None:
        place = self._watched.run.place_of(summary.episode_id)
        if place is None or summary.episode_id in self._ended or place[0] >= len(self._plan):
            return
        row, number = place
        self._ended[summary.episode_id] = row
        self._changed = now
        self._rows.add(summary, row, number)
        self._pace.add(summary, now)
        self._outcomes[summary.outcome] += 1
        planned = self._plan[row]
        start, end = summary.start_time, summary.end_time
        self._sites.add(
            planned.spec.site or summary.site or summary.task or planned.task,
            None if start is None or end is None else max(end - start, 0.0),
            summary.num_steps,
            fault=is_fault(summary),
        )
        if is_fault(summary):
            self._faults.add(summary, in_spool=in_spool)

    def _read_verdicts(self) -> dict[str, EpisodeSummary] | None:
        """Returns the judged summaries of the run, by id; None if there is no judged dataset."""
        for tail, verdicts in zip(self._judged, self._verdicts, strict=True):
            anew, summaries = tail.read()
            if anew:
                verdicts.clear()
            for summary in summaries:
                if self._watched.run.place_of(summary.episode_id) is not None:
                    verdicts[summary.episode_id] = summary
                    self._changed = self._clock()
        return next((verdicts for verdicts in self._verdicts if verdicts), None)

    def _outcomes_with(
        self, judged: Mapping[str, EpisodeSummary] | None
    ) -> collections.Counter[Outcome]:
        if judged is None:
            return self._outcomes
        outcomes = self._outcomes.copy()
        for episode_id, summary in judged.items():
            row = self._ended.get(episode_id)
            if row is None:
                continue
            for result in self._rows.tries(row):
                if result.episode_id == episode_id:
                    outcomes[result.outcome] -= 1
                    outcomes[summary.outcome] += 1
        return outcomes

    def _cells(
        self,
        tails: Mapping[str, JournalTail],
        judged: Mapping[str, EpisodeSummary] | None,
        writer: Writer,
        now: float,
    ) -> str:
        locked = self._locked()
        others: dict[int, Cell] = {}
        for episode_id, tail in tails.items():
            row = self._row_of(episode_id)
            assert row is not None
            dead = writer is Writer.GONE or (
                locked is not None and tail.inode not in locked and now - (tail.last or 0) > QUIET
            )
            others[row] = Cell.LOST if dead else tail.cell
        verdicts: dict[int, Cell] = {}
        if judged is not None:
            under_way = now - self._changed < _JUDGE_QUIET
            for row in self._rows.rows_over:
                counted = self._rows.counting(row)
                assert counted is not None
                verdict = judged.get(counted.episode_id)
                if verdict is not None:
                    verdicts[row] = CELL_OF_OUTCOME[verdict.outcome]
                elif under_way:
                    verdicts[row] = Cell.JUDGING
        return self._rows.cells(others, verdicts)

    def _underway(self, tails: Mapping[str, JournalTail], now: float) -> tuple[OpenEpisode, ...]:
        found = []
        for episode_id, tail in tails.items():
            row = self._row_of(episode_id)
            assert row is not None
            planned = self._plan[row]
            began, last = tail.began or now, tail.last or now
            found.append(
                OpenEpisode(
                    episode_id=episode_id,
                    row=planned.row,
                    task=planned.task,
                    site=planned.spec.site,
                    cell=tail.cell,
                    steps=tail.steps,
                    age=max(now - began, 0.0),
                    quiet=max(now - last, 0.0),
                )
            )
        return tuple(sorted(found, key=lambda episode: -episode.age)[:_SHOWN])

    def _writer(self, tails: Mapping[str, JournalTail], now: float) -> Writer:
        if self._rows.over == len(self._plan):
            return Writer.OVER
        locked = self._locked()
        if locked is not None:
            held = {tail.inode for tail in tails.values()}
            if not tails and isinstance(self._watched.run.storage, FolderStorage):
                held = {path.stat().st_ino for path in self._index.files() if path.exists()}
            if held & locked:
                return Writer.PLAYING
        if not tails and self._was_played_to_its_end():
            return Writer.OVER
        times = [tail.last for tail in tails.values() if tail.last is not None]
        latest = max([*times, *([self._pace.latest] if self._pace.latest else [])], default=None)
        if locked is not None and latest is not None and now - latest > QUIET:
            return Writer.GONE
        return Writer.UNKNOWN

    def _was_played_to_its_end(self) -> bool:
        """Returns whether the run's metrics are there, and are of just what is on record."""
        try:
            metrics = read_metrics(self._watched.run)
        except (errors.StorageMissingError, errors.DatasetError):
            return False
        overall = metrics.get("overall")
        total = overall.get("total") if isinstance(overall, dict) else None
        return bool(self._pace.episodes) and total == self._pace.episodes

    def _locked(self) -> frozenset[int] | None:
        """Returns the inodes of locked files; None if it cannot be known here."""
        telling = [table for table in self._locks if table.tells]
        if not telling:
            return None
        return telling[0].locked()

    def _row_of(self, episode_id: str) -> int | None:
        place = self._watched.run.place_of(episode_id)
        return None if place is None or place[0] >= len(self._plan) else place[0]
