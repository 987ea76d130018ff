"""Watch a run from outside, through the files that it writes in any case.

A rollout does nothing for its monitors. The plan lists the rows, the dataset's index lists the
ended episodes, and the journals of open episodes (`journals`) show the progress of running ones.
Each look reads only what is new. Any number of monitors may watch at any time, even a run that died
long ago.

Episodes that run on another machine are visible if the run has a driver that notes them
(`Elsewhere`). Episodes on their way to a bucket are visible in the spool of the machine that runs
them.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.dataset import IndexTail
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import open_place
from webtraj.metrics.metrics_report import plain, read_metrics
from webtraj.metrics.rates import Rate
from webtraj.runs.run import Run, retry_policy
from webtraj.runs.underway import NOTE_INTERVAL, Away, Underway, read_underway
from webtraj.store.bucket_requests import RetryPolicy
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url
from webtraj.store.storage import FolderStorage
from webtraj.trajectory import Outcome, ended_in_error
from webtraj.view.journals import (
    JournalTail,
    JournalTails,
    LockTable,
    Pace,
    Sites,
    WatchedRun,
    find_run,
)
from webtraj.view.status import (
    Cell,
    FaultBook,
    OpenEpisode,
    Rates,
    Rows,
    RunStatus,
    Writer,
)

__all__ = ["Elsewhere", "Liveness", "QUIET", "RunMonitor", "Unsent", "Verdicts"]

# Episodes on other machines, as noted by the driver of a distributed rollout.


class Elsewhere:
    """The driver's note of a distributed run. It is read no more often than it is written.

    Args:
        run: The run. A run on one machine has no note.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._note: Underway | None = None
        self._read_at: float | None = None

    def look(self, now: float) -> Mapping[str, Away]:
        """Return the machines of running episodes by id; empty if the driver is gone.

        Raises:
            StorageError: The note cannot be read.
        """
        if self._read_at is None or now - self._read_at >= NOTE_INTERVAL:
            self._note = read_underway(self._run)
            self._read_at = now
        if self._note is None or self._note.is_old(now):
            return {}
        return self._note.episodes


# Whether a run is running, was left by a process that died, or is over.

QUIET = 30.0
"""Seconds without a change after which a run whose files nobody holds counts as dead."""


class Liveness:
    """Whether a run's writer is alive, from the locks on its files.

    Args:
        watched: The run.
        index: The dataset's index.
    """

    def __init__(self, watched: WatchedRun, index: IndexTail) -> None:
        self._watched = watched
        self._index = index
        self._tables = [LockTable(path.parent / "dataset.json") for path in watched.journals]

    def writer(
        self,
        tails: Mapping[str, JournalTail],
        *,
        left: int,
        tries: int,
        latest: float | None,
        now: float,
    ) -> Writer:
        """Return the state of the run's writer.

        Args:
            tails: The open episodes.
            left: The number of rows not done.
            tries: The number of ended episodes.
            latest: The end of the last ended episode, in seconds since the epoch.
            now: The current time, in seconds since the epoch.
        """
        if not left:
            return Writer.OVER
        locked = self._find_locked()
        if locked is not None and self._find_held(tails) & locked:
            return Writer.PLAYING
        if not tails and self._was_played_to_its_end(tries):
            return Writer.OVER
        times = [tail.last for tail in tails.values() if tail.last is not None]
        last = max([*times, *([] if latest is None else [latest])], default=None)
        if locked is not None and last is not None and now - last > QUIET:
            return Writer.GONE
        return Writer.UNKNOWN

    def phases(
        self, tails: Mapping[str, JournalTail], writer: Writer, now: float
    ) -> dict[str, Cell]:
        """Return the state of each open episode, by id."""
        locked = self._find_locked()
        phases = {}
        for episode_id, tail in tails.items():
            dead = writer is Writer.GONE or (
                locked is not None and tail.inode not in locked and now - (tail.last or 0) > QUIET
            )
            phases[episode_id] = Cell.LOST if dead else tail.cell
        return phases

    def _find_held(self, tails: Mapping[str, JournalTail]) -> set[int]:
        """Return the inodes of the files that the run's writer locks."""
        if tails or not isinstance(self._watched.run.storage, FolderStorage):
            return {tail.inode for tail in tails.values()}
        found = set()
        for path in self._index.files():  # Between episodes, a writer holds only its index file.
            try:
                found.add(path.stat().st_ino)
            except FileNotFoundError:
                continue
        return found

    def _was_played_to_its_end(self, tries: int) -> bool:
        """Return whether the run's metrics exist and cover exactly the recorded tries."""
        try:
            overall = read_metrics(self._watched.run).get("overall")
        except (errors.StorageMissingError, errors.DatasetError):
            return False
        total = overall.get("total") if isinstance(overall, Mapping) else None
        return bool(tries) and total == tries

    def _find_locked(self) -> frozenset[int] | None:
        """Return the inodes of locked files; None if unknown."""
        telling = [table for table in self._tables if table.tells]
        return telling[0].find_locked() if telling else None


# The judge's verdicts on a run's episodes, as they arrive.

_QUIET = 120.0
"""Seconds without a verdict after which unjudged rows no longer count as being judged."""


class Verdicts:
    """The verdicts beside a run's episodes.

    Args:
        watched: The run.
        storage_options: For a bucket: the storage options.
    """

    def __init__(self, watched: WatchedRun, storage_options: Mapping[str, Any] | None) -> None:
        self._run = watched.run
        self._place = watched.place
        self._options = storage_options
        self._judgements: Judgements | None = None
        self._found: dict[str, Outcome] = {}
        self._changed = 0.0
        self.version = 0
        """A number that grows with each verdict."""

    def look(self, now: float) -> Mapping[str, Outcome] | None:
        """Return the judges' outcomes, by episode id; None if nothing is judged.

        Raises:
            StorageError: The dataset cannot be read.
        """
        if self._judgements is None:
            try:
                self._judgements = Judgements(open_place(self._place, self._options))
            except errors.NotADatasetError:  # Nothing is recorded yet.
                return None
        for episode_id in self._judgements.refresh():
            outcome = self._judgements.outcome_of(episode_id)
            if outcome is not None and self._run.place_of(episode_id) is not None:
                self._found[episode_id] = outcome
                self._changed = now
                self.version += 1
        return self._found or None

    def are_coming(self, now: float) -> bool:
        """Return whether a judge seems to be at work."""
        return now - self._changed < _QUIET


# Ended episodes that wait in spools on this machine for upload to the bucket.


class Unsent:
    """The episodes of one run in spools; each index line is read once.

    Args:
        spools: The spools.
        run_id: The run.
    """

    def __init__(self, spools: Iterable[Path], run_id: str) -> None:
        self._folders = [spool / "index" for spool in spools]
        self._prefix = f"{run_id}-"
        self._known: dict[str, EpisodeSummary] = {}

    def look(self) -> Mapping[str, EpisodeSummary]:
        """Return the waiting episodes, by id."""
        found: dict[str, EpisodeSummary] = {}
        for folder in self._folders:
            try:
                names = os.listdir(folder)  # noqa: PTH208  (Many names, and no paths.)
            except FileNotFoundError:
                continue
            for name in names:
                if not (name.startswith(self._prefix) and name.endswith(".jsonl")):
                    continue
                episode_id = name.removesuffix(".jsonl")
                summary = self._known.get(episode_id) or _read(folder / name)
                if summary is not None:
                    found[episode_id] = summary
        self._known = found
        return found


def _read(path: Path) -> EpisodeSummary | None:
    try:
        return EpisodeSummary.from_line(path.read_bytes())
    except errors.UnsupportedSchemaError:
        raise
    except (OSError, ValueError):  # It has just been uploaded, or is being written.
        return None


_RETRY = RetryPolicy(deadline=5.0)
"""A short deadline: the next look retries a bucket that is unreachable."""

_LOOKS_FOR_SETTINGS = 10
_SHOWN = 50
_Judged = tuple[Mapping[int, Cell], Mapping[Outcome, int], Rate]
_SITES_SHOWN = 10


class RunMonitor:
    """A monitor of one run. Safe to share between threads.

    Args:
        place: A dataset's folder or URL, or a rollout's save path with iterations.
        run_id: The run; by default the latest.
        storage_options: For a bucket: the options of `webtraj.store.open_storage`.
        clock: Returns the time in seconds since the epoch.

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
        self._verdicts = Verdicts(self._watched, storage_options)
        self._journals = JournalTails(self._watched.journals, run)
        self._unsent = Unsent(self._watched.spools, run)
        self._elsewhere = Elsewhere(self._watched.run)
        self._liveness = Liveness(self._watched, self._index)
        self._last: RunStatus | None = None
        self._lock = threading.Lock()
        self._begin_anew()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._watched.run.run_id

    @property
    def place(self) -> str:
        """The run's dataset."""
        return self._watched.place

    def look(self, *, every: float = 0.0) -> RunStatus:
        """Return the run's current status, or the last one if it is less than `every` seconds old.

        If the storage cannot be read later, return the last status with the error in `trouble`.

        Raises:
            StorageError: The storage cannot be read at the first look.
            UnsupportedSchemaError: A newer webtraj wrote the run.
        """
        with self._lock:
            now = self._clock()
            if self._last is not None and abs(now - self._last.time) < every:
                return self._last
            try:
                self._last = self._look(now)
            except errors.StorageError as error:
                if self._last is None:
                    raise
                self._last = dataclasses.replace(self._last, time=now, trouble=str(error))
            return self._last

    def row(self, number: int) -> dict[str, Any]:
        """Return the details of one row as JSON data, as of the last look.

        Raises:
            InvalidInputError: The plan has no such row.
        """
        if not 0 <= number < len(self._plan):
            raise errors.InvalidInputError(
                f"No row {number}: the plan has rows 0 to {len(self._plan) - 1}."
            )
        planned = self._plan[number]
        with self._lock:
            made = self._rows.tries(number)
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
            for result in made
        ]
        row: dict[str, Any] = plain(
            {
                "row": number,
                "task": planned.task,
                "goal": planned.spec.goal,
                "site": planned.spec.site,
                "level": planned.spec.level,
                "attempt": planned.attempt,
                "seed": planned.seed,
                "tries": tries,
            }
        )
        return row

    def _begin_anew(self) -> None:
        self._rows = Rows(self._plan, self._retry)
        self._pace, self._sites = Pace(), Sites()
        self._faults = FaultBook(self._watched, self._options)
        self._ended: set[str] = set()
        self._judged: tuple[Any, _Judged] | None = None

    def _read_settings(self) -> bool:
        """Read the run's settings, which are written after its plan. Return whether they are new.

        Stop looking after some attempts, because a run may have none.
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
            self._index.forget()  # The retry policy decides which rows are done.
        tails = self._journals.look()  # Before the index, which then has what is sealed meanwhile.
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
        judged_cells, outcomes, rate = self._summarize_judged(judged, now)
        cells = self._rows.cells(others, judged_cells)
        began = [tail.began for tail in tails.values() if tail.began is not None]
        if self._pace.started is not None:
            began.append(self._pace.started)
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
            success=rate.counts,
            interval=rate.interval,
            steps=self._pace.steps + sum(tail.steps for tail in tails.values()),
            minute=self._pace.minute(tails.values(), now),
            whole=whole,
            remaining=None if writer is Writer.GONE else self._estimate_seconds_left(whole),
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
        self._ended.add(summary.episode_id)
        self._rows.add(summary, row, number)
        self._pace.add(summary, now)
        planned = self._plan[row]
        start, end = summary.start_time, summary.end_time
        failed = ended_in_error(summary.outcome, summary.end_reason)
        self._sites.add(
            planned.spec.site or summary.site or summary.task or planned.task,
            None if start is None or end is None else max(end - start, 0.0),
            summary.num_steps,
            fault=failed,
        )
        if failed:
            self._faults.add(summary, in_spool=in_spool)

    def _summarize_judged(self, verdicts: Mapping[str, Outcome] | None, now: float) -> _Judged:
        """Return the state of judged rows, the number of tries by outcome, and the success rate."""
        coming = verdicts is not None and self._verdicts.are_coming(now)
        known = (self._verdicts.version, len(self._ended), coming)
        if self._judged is None or self._judged[0] != known:
            self._judged = known, self._rows.summarize_judged(verdicts or {}, waiting=coming)
        return self._judged[1]

    def _estimate_seconds_left(self, whole: Rates) -> float | None:
        """Return the estimated seconds left at the overall speed."""
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
