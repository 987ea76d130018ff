"""What a monitor shows of a run, as plain data: nothing here reads or draws anything."""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.reporting.report import plain
from webtraj.reporting.sources import Fault, fault_of
from webtraj.rollouts.plan import PlannedEpisode
from webtraj.rollouts.results import EpisodeResult
from webtraj.rollouts.runs import counting
from webtraj.rollouts.scheduling import RETRIED, RetryPolicy
from webtraj.store.index import EpisodeSummary
from webtraj.trajectory import EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.monitor.tailing import WatchedRun

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
    "UNDER_WAY",
    "Writer",
    "retry_policy",
]


class Cell(enum.StrEnum):
    """Where a row of the plan is; each has a letter of its own in `RunStatus.cells`."""

    WAITING = "."
    """Nobody has begun it, or its record is out of sight."""
    AGAIN = "w"
    """It was tried, and is to be tried again."""
    RESETTING = "r"
    """Its environment is being reset, which also waits for a free browser."""
    ASKING = "q"
    """The agent has an observation, and decides."""
    ACTING = "a"
    """The environment does what the agent decided, and observes what came of it."""
    SEALING = "s"
    """It has ended, and its record is being closed."""
    ELSEWHERE = "m"
    """Another machine plays it; how far it is, only that machine sees."""
    LOST = "x"
    """It is open, and nobody writes it any more."""
    JUDGING = "j"
    """It is recorded, and its judge has not spoken."""
    SUCCESS = "+"
    FAILURE = "-"
    UNGRADED = "u"
    """It ended by itself, and nobody said what it was worth."""
    BLOCKED = "b"
    ENV_ERROR = "e"
    AGENT_ERROR = "g"
    MODEL_ERROR = "o"
    JUDGE_ERROR = "v"
    TIMEOUT = "t"
    CUT_SHORT = "c"
    """It was cancelled, or its process died; a resumed run plays it again."""


UNDER_WAY = (Cell.RESETTING, Cell.ASKING, Cell.ACTING, Cell.SEALING, Cell.ELSEWHERE)
"""What somebody works at."""

CELL_OF_OUTCOME: Mapping[Outcome, Cell] = {
    Outcome.SUCCESS: Cell.SUCCESS,
    Outcome.FAILURE: Cell.FAILURE,
    Outcome.UNKNOWN: Cell.UNGRADED,
    Outcome.BLOCKED: Cell.BLOCKED,
    Outcome.ENV_ERROR: Cell.ENV_ERROR,
    Outcome.AGENT_ERROR: Cell.AGENT_ERROR,
    Outcome.MODEL_ERROR: Cell.MODEL_ERROR,
    Outcome.JUDGE_ERROR: Cell.JUDGE_ERROR,
    Outcome.TIMEOUT: Cell.TIMEOUT,
    Outcome.CANCELLED: Cell.CUT_SHORT,
}


class Writer(enum.StrEnum):
    """What is known of who plays the run."""

    PLAYING = "playing"
    """A process holds what it writes."""
    GONE = "gone"
    """On this machine none does, and nothing has changed for a while."""
    UNKNOWN = "unknown"
    """It cannot be seen from here: it plays on another machine, or nothing is open just now."""
    OVER = "over"
    """Every row is over."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How fast it goes."""

    episodes_per_second: float | None = None
    """Episodes that ended, a second; None before the first."""
    steps_per_second: float | None = None
    """Steps of the environment, a second."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpisode:
    """An episode that is under way, as its journal tells, or the note on another machine's."""

    episode_id: str
    row: int
    task: str
    site: str
    cell: Cell
    steps: int | None
    """Steps that its environment took; None if that is not seen from here."""
    age: float
    """Seconds since it began."""
    quiet: float | None
    """Seconds since its last line; None if that is not seen from here."""
    machine: str = ""
    """The machine that plays it, if it is another one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SitePace:
    """How the episodes of one site, or of a task that has none, went."""

    site: str
    episodes: int
    seconds: float
    """Of all of them together."""
    steps: int
    faults: int
    """Those that an error, a deadline or a death ended."""

    @property
    def seconds_per_step(self) -> float:
        """Seconds a step took, the reset and the agent's decisions included."""
        return self.seconds / max(self.steps, 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FaultCount:
    """One kind of error."""

    kind: str
    """The error's type, or the outcome where none is on record."""
    count: int
    episode_id: str
    """The latest episode that it ended,"""
    task: str
    message: str
    """and what was said there."""
    time: float | None
    """When, in seconds since the epoch."""


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
    """Rows of the plan."""
    over: int
    """Rows that are over."""
    tries: int
    """Episodes that ended, each try counted."""
    cells: str
    """A letter for each row, in the plan's order: see `Cell`."""
    parallel: int | None = None
    """How many are played at a time, as far as the run's settings tell."""
    started: float | None = None
    """When its first episode began, in seconds since the epoch."""
    outcomes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Tries by outcome, as the judge sees them where there is one."""
    success: tuple[int, int] = (0, 0)
    """Successes, and successes and failures together."""
    interval: tuple[float, float] | None = None
    """Wilson's interval of 95 % for the chance of a success."""
    steps: int = 0
    """Steps of episodes that ended, and of those under way."""
    minute: Rates = dataclasses.field(default_factory=Rates)
    """In the last minute."""
    whole: Rates = dataclasses.field(default_factory=Rates)
    """Since it began, pauses of more than a minute left out."""
    remaining: float | None = None
    """Seconds that the rest takes at the pace of the whole; None if that is not known."""
    judged: int | None = None
    """Episodes that were judged; None without a judged dataset."""
    unsent: int = 0
    """Episodes that ended, and are in a spool on this machine, but not in the bucket yet."""
    underway: tuple[OpenEpisode, ...] = ()
    """Some of those under way, the oldest first."""
    sites: tuple[SitePace, ...] = ()
    """The slowest, in seconds a step."""
    faults: tuple[FaultCount, ...] = ()
    """By kind, the most frequent first."""
    faults_unread: int = 0
    """Episodes with an error whose record has not been looked into yet."""
    trouble: str = ""
    """What could not be read this time; empty if all could."""

    @property
    def counts(self) -> dict[Cell, int]:
        """Rows by where they are; what no row is, is left out."""
        found = ((cell, self.cells.count(cell.value)) for cell in Cell)
        return {cell: number for cell, number in found if number}

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to play or to judge."""
        return self.writer is Writer.OVER and Cell.JUDGING.value not in self.cells

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data; text that is no Unicode has question marks."""
        data = dataclasses.asdict(self)
        data["counts"] = {cell.name.lower(): number for cell, number in self.counts.items()}
        data["is_over"] = self.is_over
        for site in data["sites"]:
            site["seconds_per_step"] = site["seconds"] / max(site["steps"], 1)
        for episode in data["underway"]:
            episode["phase"] = Cell(episode.pop("cell")).name.lower()
        readable: dict[str, Any] = plain(data)
        return readable


# The errors of a run: how many of each kind, and what the latest one said.

_AT_ONCE = 20
"""How many records one look reads, so that no look takes long."""

_ATTEMPTS = 3


@dataclasses.dataclass(slots=True)
class _Unread:
    summary: EpisodeSummary
    in_spool: bool
    attempts: int = 0


class FaultBook:
    """Reads the records of episodes in which something broke, a few at a time, and counts.

    Args:
        watched: The run.
        storage_options: For a bucket.
    """

    def __init__(self, watched: WatchedRun, storage_options: Mapping[str, Any] | None) -> None:
        self._watched = watched
        self._options = storage_options
        self._unread: collections.deque[_Unread] = collections.deque()
        self._counts: dict[str, FaultCount] = {}

    @property
    def unread(self) -> int:
        """How many have not been looked into yet."""
        return len(self._unread)

    def add(self, summary: EpisodeSummary, *, in_spool: bool = False) -> None:
        """Takes an episode in which something broke."""
        self._unread.append(_Unread(summary, in_spool))

    def counts(self) -> tuple[FaultCount, ...]:
        """Returns the kinds that were found, the most frequent first."""
        return tuple(sorted(self._counts.values(), key=lambda fault: (-fault.count, fault.kind)))

    def read_some(self) -> None:
        """Looks into some of those that are left."""
        for _ in range(min(_AT_ONCE, len(self._unread))):
            item = self._unread.popleft()
            item.attempts += 1
            try:
                fault = self._read(item)
            except (errors.DatasetError, errors.StorageError, OSError):
                if item.attempts < _ATTEMPTS:  # It may be on its way to the bucket just now.
                    self._unread.append(item)
                    continue
                outcome = item.summary.outcome.name.lower()
                fault = Fault(outcome, "Its record cannot be read; `webtraj verify` says why.")
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


# The rows of a plan: where each is, given the tries at it that have ended.


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
