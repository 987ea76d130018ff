"""Watching a run from outside, by what it writes anyway.

A rollout need not know that it is watched, and nothing is added to what it does: the plan says what
is to be played; the dataset's index, what has ended; the journals of open episodes, which line by
line say what goes on (`tailing`), what is under way. Each look reads only what has come since the
last one. So any number of monitors may look, at any time, also at a run that died long ago.

Of episodes that are played on another machine it is seen that they are, if the run has a driver
that notes it (`elsewhere`), and then what they came to. Episodes on their way to a bucket are seen
on the machine that plays them, in its spool.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.datasets.index_tail import IndexTail
from webtraj.monitor.elsewhere import Elsewhere
from webtraj.monitor.faults import FaultBook
from webtraj.monitor.liveness import Liveness
from webtraj.monitor.locating import WatchedRun, find_run
from webtraj.monitor.pace import Pace, Sites
from webtraj.monitor.rows import Rows, retry_policy
from webtraj.monitor.status import Cell, OpenEpisode, Rates, RunStatus, Writer
from webtraj.monitor.tailing import JournalTail, JournalTails
from webtraj.monitor.verdicts import Verdicts
from webtraj.monitor.waiting import Unsent
from webtraj.reporting.faults import is_fault
from webtraj.rollouts.distributed.underway import Away
from webtraj.rollouts.metrics.estimators import wilson_interval
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url
from webtraj.store.retrying import RetryPolicy
from webtraj.trajectory import Outcome

__all__ = ["RunMonitor"]

_RETRY = RetryPolicy(deadline=5.0)
"""A bucket that is away is looked at again by the next look, which tells so meanwhile."""

_LOOKS_FOR_SETTINGS = 10
_SHOWN = 50
_SITES_SHOWN = 10


class RunMonitor:
    """Looks at one run. Safe to use from one thread at a time.

    Args:
        place: A dataset's folder or URL, or a rollout's save path with iterations in it.
        run_id: The run; by default the latest.
        storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
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
        if is_url(place) and not place.lower().startswith("file:"):
            storage_options = {"retry": _RETRY, **(storage_options or {})}
        self._watched: WatchedRun = find_run(place, run_id, storage_options)
        self._options = storage_options
        self._clock = clock
        self._plan = self._watched.run.read_plan()
        self._looks_for_settings = _LOOKS_FOR_SETTINGS
        self._retry = retry_policy({})
        self._parallel: int | None = None
        self._read_settings()
        storage, run = self._watched.run.storage, self._watched.run.run_id
        self._index = IndexTail(storage, run)
        self._verdicts = Verdicts(self._watched)
        self._journals = JournalTails(self._watched.journals, run)
        self._unsent = Unsent(self._watched.spools, run)
        self._elsewhere = Elsewhere(self._watched.run)
        self._liveness = Liveness(self._watched, self._index)
        self._last: RunStatus | None = None
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
        self._judged_outcomes: tuple[Any, collections.Counter[Outcome]]
        self._judged_outcomes = (None, collections.Counter())

    def _read_settings(self) -> bool:
        """Reads what the run was made with, which comes after its plan; returns whether it is new.

        A run that has none is not asked for ever.
        """
        if not self._looks_for_settings:
            return False
        self._looks_for_settings -= 1
        settings = self._watched.run.read_settings()
        if not settings:
            return False
        self._looks_for_settings = 0
        parallel = settings.get("parallel")
        self._retry = retry_policy(settings)
        self._parallel = parallel if isinstance(parallel, int) else None
        return True

    def _look(self, now: float) -> RunStatus:
        if self._read_settings():
            self._index.forget()  # Which rows are over follows from how often they are tried.
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
        away = {
            episode_id: machine
            for episode_id, machine in self._elsewhere.look(now).items()
            if episode_id not in self._ended and episode_id not in tails
            if self._row_of(episode_id) is not None
        }
        judged = self._verdicts.look(now)
        self._faults.read_some()
        writer = self._liveness.writer(
            tails,
            left=len(self._plan) - self._rows.over,
            tries=self._pace.episodes,
            latest=self._pace.latest,
            now=now,
        )
        if away and writer is not Writer.OVER:
            writer = Writer.PLAYING
        phases = self._liveness.phases(tails, writer, now)
        phases |= dict.fromkeys(away, Cell.ELSEWHERE)
        rows = {self._row_of(episode_id): phase for episode_id, phase in phases.items()}
        others = {row: phase for row, phase in rows.items() if row is not None}
        cells = self._rows.cells(others, self._verdicts.cells(judged, self._rows, now))
        began = [tail.began for tail in tails.values() if tail.began is not None]
        if self._pace.started is not None:
            began.append(self._pace.started)
        outcomes = self._outcomes_with(judged)
        solved, failed = outcomes[Outcome.SUCCESS], outcomes[Outcome.FAILURE]
        whole = self._pace.whole(now if phases and writer is not Writer.GONE else None)
        return RunStatus(
            run_id=self.run_id,
            place=self.place,
            time=now,
            writer=writer,
            planned=len(self._plan),
            over=self._rows.over,
            tries=self._pace.episodes,
            cells=cells,
            parallel=self._parallel,
            started=min(began, default=None),
            outcomes={outcome.name.lower(): n for outcome, n in outcomes.items() if n},
            success=(solved, solved + failed),
            interval=wilson_interval(solved, solved + failed),
            steps=self._pace.steps + sum(tail.steps for tail in tails.values()),
            minute=self._pace.minute(tails.values(), now),
            whole=whole,
            remaining=None if writer is Writer.GONE else self._remaining(whole),
            judged=None if judged is None else len(judged),
            unsent=len(unsent),
            underway=self._underway(tails, away, phases, now),
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

    def _outcomes_with(
        self, judged: Mapping[str, EpisodeSummary] | None
    ) -> collections.Counter[Outcome]:
        if judged is None:
            return self._outcomes
        known = (self._verdicts.version, self._rows.changes)
        if self._judged_outcomes[0] == known:
            return self._judged_outcomes[1]
        outcomes = self._outcomes.copy()
        for episode_id, summary in judged.items():
            row = self._ended.get(episode_id)
            if row is None:
                continue
            for result in self._rows.tries(row):
                if result.episode_id == episode_id:
                    outcomes[result.outcome] -= 1
                    outcomes[summary.outcome] += 1
        self._judged_outcomes = (known, outcomes)
        return outcomes

    def _remaining(self, whole: Rates) -> float | None:
        """Returns how long the rest takes, if it goes on as it went."""
        if not whole.episodes_per_second or not self._rows.over:
            return None
        tries_a_row = max(self._pace.episodes / self._rows.over, 1.0)
        return (len(self._plan) - self._rows.over) * tries_a_row / whole.episodes_per_second

    def _underway(
        self,
        tails: Mapping[str, JournalTail],
        away: Mapping[str, Away],
        phases: Mapping[str, Cell],
        now: float,
    ) -> tuple[OpenEpisode, ...]:
        found = []
        for episode_id, cell in phases.items():
            row = self._row_of(episode_id)
            assert row is not None
            planned = self._plan[row]
            tail = tails.get(episode_id)
            machine = "" if tail else away[episode_id].machine
            began = (tail.began or now) if tail else away[episode_id].since
            found.append(
                OpenEpisode(
                    episode_id=episode_id,
                    row=planned.row,
                    task=planned.task,
                    site=planned.spec.site,
                    cell=cell,
                    steps=tail.steps if tail else None,
                    age=max(now - began, 0.0),
                    quiet=max(now - (tail.last or now), 0.0) if tail else None,
                    machine=machine,
                )
            )
        return tuple(sorted(found, key=lambda episode: -episode.age)[:_SHOWN])

    def _row_of(self, episode_id: str) -> int | None:
        place = self._watched.run.place_of(episode_id)
        return None if place is None or place[0] >= len(self._plan) else place[0]
