"""What a monitor shows of a run, as plain data: nothing here reads or draws anything."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from webtraj.reporting.plain import plain
from webtraj.trajectory import Outcome

__all__ = [
    "CELL_OF_OUTCOME",
    "UNDER_WAY",
    "Cell",
    "FaultCount",
    "OpenEpisode",
    "Rates",
    "RunStatus",
    "SitePace",
    "Writer",
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
