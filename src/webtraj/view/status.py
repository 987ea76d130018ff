"""A run's status as plain data. Nothing here draws anything."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.metrics.facts import Fault, fault_of
from webtraj.metrics.metrics_report import plain
from webtraj.metrics.rates import Rate
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult, RetryPolicy, is_done
from webtraj.store.index import EpisodeSummary
from webtraj.store.tries import pick_counting
from webtraj.trajectory import INFRASTRUCTURE_FAILURES, Outcome, has_succeeded

if TYPE_CHECKING:
    from webtraj.view.journals import WatchedRun

__all__ = [
    "CELL_OF_OUTCOME",
    "Cell",
    "FaultBook",
    "FaultCount",
    "OpenEpisode",
    "Rates",
    "Rows",
    "RunStatus",
    "SitePace",
    "Writer",
]


class Cell(enum.StrEnum):
    """The state of a row of the plan. The value is its letter in `RunStatus.cells`."""

    WAITING = "."
    """Not started, or its record is not visible from here."""
    AGAIN = "w"
    """Failed, and will be retried."""
    RESETTING = "r"
    """The environment is resetting, which includes waiting for a free browser."""
    ASKING = "q"
    """The agent has an observation and is deciding."""
    ACTING = "a"
    """The environment is executing the action and observing."""
    SEALING = "s"
    """The episode has ended and is being sealed."""
    ELSEWHERE = "m"
    """Running on another machine; its progress is visible only there."""
    LOST = "x"
    """Open, but its process is gone."""
    JUDGING = "j"
    """Recorded, but not judged yet."""
    SUCCESS = "+"
    FAILURE = "-"
    UNGRADED = "u"
    """Ended by itself without a verdict."""
    BLOCKED = "b"
    ENV_ERROR = "e"
    AGENT_ERROR = "g"
    MODEL_ERROR = "o"
    JUDGE_ERROR = "v"
    TIMEOUT = "t"
    CUT_SHORT = "c"
    """Cancelled, or its process died; a resumed run runs it again."""


_OTHER_NAMES = {Outcome.UNKNOWN: Cell.UNGRADED, Outcome.CANCELLED: Cell.CUT_SHORT}
CELL_OF_OUTCOME: Mapping[Outcome, Cell] = {
    outcome: _OTHER_NAMES.get(outcome) or Cell[outcome.name] for outcome in Outcome
}


class Writer(enum.StrEnum):
    """The state of the process that runs the rollout."""

    PLAYING = "playing"
    """A process holds the run's files open."""
    GONE = "gone"
    """No process on this machine does, and nothing has changed for a while."""
    UNKNOWN = "unknown"
    """Not visible from here: it runs on another machine, or no episode is open right now."""
    OVER = "over"
    """Every row is done."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The speed of a run."""

    episodes_per_second: float | None = None
    """Ended episodes per second; None before the first."""
    steps_per_second: float | None = None
    """Environment steps per second."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpisode:
    """A running episode, from its journal, or from the driver's note if another machine runs it."""

    episode_id: str
    row: int
    task: str
    site: str
    cell: Cell
    steps: int | None
    """Environment steps so far; None if not visible from here."""
    age: float
    """Seconds since its start."""
    quiet: float | None
    """Seconds since its journal's last line; None if not visible from here."""
    machine: str = ""
    """The machine that runs it, if not this one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SitePace:
    """The totals of one site, or of one task without a site."""

    site: str
    episodes: int = 0
    seconds: float = 0.0
    """The total time of the episodes."""
    steps: int = 0
    faults: int = 0
    """Episodes that ended with an error, a deadline, or a dead process."""

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds per step, including the reset and the agent's decisions."""
        return self.seconds / max(self.steps, 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultCount:
    """One kind of error."""

    kind: str
    """The error's type, or the outcome if no error is recorded."""
    count: int
    episode_id: str
    """The latest episode that it ended."""
    task: str
    message: str
    """The message in that episode."""
    time: float | None
    """The time of that error, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run at one moment."""

    run_id: str
    place: str
    """The dataset."""
    time: float
    """The moment, in seconds since the epoch."""
    writer: Writer
    planned: int
    """The number of rows in the plan."""
    over: int
    """The number of rows done."""
    tries: int
    """The number of ended episodes, including retries."""
    cells: str
    """A letter for each row, in the plan's order: see `Cell`."""
    parallel: int | None = None
    """Episodes at a time, if the run's settings are known."""
    started: float | None = None
    """The start of the first episode, in seconds since the epoch."""
    outcomes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Tries by outcome; the judge's outcome if there is one."""
    success: tuple[int, int] = (0, 0)
    """Successes, and successes plus failures of the agent, its own errors included."""
    interval: tuple[float, float] | None = None
    """Wilson's 95 % interval of the success rate."""
    steps: int = 0
    """Steps of ended and running episodes."""
    minute: Rates = dataclasses.field(default_factory=Rates)
    """The speed in the last minute."""
    whole: Rates = dataclasses.field(default_factory=Rates)
    """The speed since the start, without pauses of more than a minute."""
    remaining: float | None = None
    """Estimated seconds left at the overall speed; None if unknown."""
    judged: int | None = None
    """The number of judged episodes; None if nothing is judged."""
    unsent: int = 0
    """Ended episodes in a spool on this machine that are not in the bucket yet."""
    underway: tuple[OpenEpisode, ...] = ()
    """Some of the running episodes, the oldest first."""
    sites: tuple[SitePace, ...] = ()
    """The slowest sites, by seconds per step."""
    faults: tuple[FaultCount, ...] = ()
    """Errors by kind, the most frequent first."""
    faults_unread: int = 0
    """Episodes with an error whose record has not been read yet."""
    trouble: str = ""
    """The error of the last read; empty if it succeeded."""

    @property
    def counts(self) -> dict[Cell, int]:
        """The number of rows in each state that occurs."""
        found = ((cell, self.cells.count(cell.value)) for cell in Cell)
        return {cell: number for cell, number in found if number}

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to run or to judge."""
        return self.writer is Writer.OVER and Cell.JUDGING.value not in self.cells

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know or do, in sentences."""
        left = self.planned - self.over
        notes = []
        if self.writer is Writer.GONE:
            notes.append(
                "No process on this machine is running it, and nothing has changed for a while. To "
                "resume, run `webtraj rollout ... --resume`."
            )
        elif self.writer is Writer.OVER and left:
            rows = "1 row" if left == 1 else f"{left} rows"
            notes.append(
                f"The run ended with {rows} left. To run them, use `webtraj rollout ... --resume`."
            )
        if self.trouble:
            notes.append(f"Showing the last known status: {self.trouble}")
        return tuple(notes)

    def to_data(self) -> dict[str, Any]:
        """Return the status as JSON data. Invalid Unicode becomes question marks."""
        data = dataclasses.asdict(self)
        data["counts"] = {cell.name.lower(): number for cell, number in self.counts.items()}
        data["is_over"] = self.is_over
        data["notes"] = self.notes
        for site in data["sites"]:
            site["seconds_per_step"] = site["seconds"] / max(site["steps"], 1)
        for episode in data["underway"]:
            episode["phase"] = Cell(episode.pop("cell")).name.lower()
        readable: dict[str, Any] = plain(data)
        return readable


# The errors of a run: the count and the latest message of each kind.

_AT_ONCE = 20
"""The most records that one look reads, to keep it fast."""

_ATTEMPTS = 3


@dataclasses.dataclass(slots=True)
class _Unread:
    summary: EpisodeSummary
    in_spool: bool
    attempts: int = 0


class FaultBook:
    """Counts of errors by kind, from the records of failed episodes, read a few at a time.

    Args:
        watched: The run.
        storage_options: For a bucket: the storage options.
    """

    def __init__(self, watched: WatchedRun, storage_options: Mapping[str, Any] | None) -> None:
        self._watched = watched
        self._options = storage_options
        self._unread: collections.deque[_Unread] = collections.deque()
        self._counts: dict[str, FaultCount] = {}

    @property
    def unread(self) -> int:
        """The number of records not read yet."""
        return len(self._unread)

    def add(self, summary: EpisodeSummary, *, in_spool: bool = False) -> None:
        """Add a failed episode."""
        self._unread.append(_Unread(summary, in_spool))

    def counts(self) -> tuple[FaultCount, ...]:
        """Return the kinds found, the most frequent first."""
        return tuple(sorted(self._counts.values(), key=lambda fault: (-fault.count, fault.kind)))

    def read_some(self) -> None:
        """Read some of the records that are left."""
        for _ in range(min(_AT_ONCE, len(self._unread))):
            item = self._unread.popleft()
            item.attempts += 1
            try:
                fault = self._read(item)
            except (errors.DatasetError, errors.StorageError, OSError):
                if item.attempts < _ATTEMPTS:  # It may be on its way to the bucket.
                    self._unread.append(item)
                    continue
                outcome = item.summary.outcome.name.lower()
                fault = Fault(outcome, "The record cannot be read; `webtraj verify` shows why.")
            self._count(item.summary, fault)

    def _read(self, item: _Unread) -> Fault:
        from webtraj.datasets.dataset import Dataset
        from webtraj.datasets.place import open_place

        failure: Exception | None = None
        places = [(self._watched.place, self._options)]
        if item.in_spool:
            places = [*((str(spool), None) for spool in self._watched.spools), *places]
        for place, options in places:
            try:
                opened = open_place(place, options)
                return fault_of(Dataset(opened, [item.summary], "lazy")[item.summary.episode_id])
            except (errors.DatasetError, errors.StorageError, OSError) as error:
                failure = error
        assert failure is not None
        raise failure

    def _count(self, summary: EpisodeSummary, fault: Fault) -> None:
        before = self._counts.get(fault.kind)
        time = summary.end_time
        number = 1 if before is None else before.count + 1
        if before is not None and (before.time or 0.0) > (time or 0.0):
            self._counts[fault.kind] = dataclasses.replace(before, count=number)
            return
        self._counts[fault.kind] = FaultCount(
            kind=fault.kind,
            count=number,
            episode_id=summary.episode_id,
            task=summary.task,
            message=fault.message,
            time=time,
        )


# The rows of a plan, and the state of each, given its ended tries.


class Rows:
    """The state of every row, from ended tries. Callers add open, lost and judged rows.

    Args:
        plan: The plan.
        retry: The run's retry policy.
    """

    def __init__(self, plan: Sequence[PlannedEpisode], retry: RetryPolicy) -> None:
        self.plan = plan
        self._retry = retry
        self._tries: dict[int, list[EpisodeResult]] = {}
        self._cells = bytearray(Cell.WAITING.value.encode() * len(plan))
        self._over: set[int] = set()
        self.outcomes: collections.Counter[Outcome] = collections.Counter()
        """The number of tries with each outcome."""

    def add(self, summary: EpisodeSummary, row: int, number: int) -> None:
        """Add an ended try."""
        self.outcomes[summary.outcome] += 1
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
        """The number of rows done."""
        return len(self._over)

    def tries(self, row: int) -> tuple[EpisodeResult, ...]:
        """Return the ended tries of a row, in order."""
        return tuple(self._tries.get(row, ()))

    def cells(self, others: Mapping[int, Cell], judged: Mapping[int, Cell]) -> str:
        """Return the letter of each row.

        Args:
            others: The state of rows that are not done, such as running ones.
            judged: The judge's verdict on rows that are done.
        """
        cells = bytearray(self._cells)
        for row, cell in others.items():
            if row not in self._over:
                cells[row] = ord(cell.value)
        for row, cell in judged.items():
            if row in self._over:
                cells[row] = ord(cell.value)
        return cells.decode("ascii")

    def summarize_judged(
        self, verdicts: Mapping[str, Outcome], *, waiting: bool
    ) -> tuple[dict[int, Cell], collections.Counter[Outcome], Rate]:
        """Return the state of rows that are done, the outcomes of tries, and the success rate.

        Args:
            verdicts: The judge's outcomes, by episode id.
            waiting: Whether rows of unknown outcome are still being judged.
        """
        cells, outcomes = {}, self.outcomes.copy()
        graded: list[bool | None] = []
        for row, tries in self._tries.items():
            (counted,) = pick_counting(tries)
            outcome = verdicts.get(counted.episode_id, counted.outcome)
            graded.append(has_succeeded(outcome, counted.end_reason))
            for result in tries:
                if result.episode_id in verdicts:
                    outcomes[result.outcome] -= 1
                    outcomes[verdicts[result.episode_id]] += 1
            if row in self._over:
                if counted.episode_id in verdicts:
                    cells[row] = CELL_OF_OUTCOME[verdicts[counted.episode_id]]
                elif waiting and counted.finished and counted.outcome is Outcome.UNKNOWN:
                    cells[row] = Cell.JUDGING
        return cells, outcomes, Rate(graded.count(True), len(graded) - graded.count(None))

    def _state(self, tries: Sequence[EpisodeResult]) -> tuple[bool, Cell]:
        """Return whether a row is done, and its state."""
        if not is_done(tries, self._retry):
            return False, Cell.AGAIN if tries[-1].failed else Cell.CUT_SHORT
        (counted,) = pick_counting(tries)
        if counted.broke and counted.outcome not in INFRASTRUCTURE_FAILURES:
            return True, Cell.ENV_ERROR
        return True, CELL_OF_OUTCOME[counted.outcome]
