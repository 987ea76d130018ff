"""What is under way on which machine: a note of the driver's, for those who watch.

It lies beside the plan and is written anew every few seconds::

    <dataset>/runs/<run id>/underway.json

Journals of open episodes lie on the machines that play them, where nobody else sees them; the
driver knows which rows it has handed out. Nothing goes by the note but what is shown: a driver that
cannot write it plays on, and one that dies leaves an old one behind, which its time tells.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import orjson

from webtraj import errors
from webtraj.rollouts.distributed.members import Member
from webtraj.rollouts.runs import Run

__all__ = ["NOTE_INTERVAL", "Away", "Underway", "UnderwayNote", "read_underway"]

_logger = logging.getLogger(__name__)

NOTE_INTERVAL = 10.0
"""Seconds after which the note is written anew."""
_OLD = 3
"""A note is old after so many intervals."""


@dataclasses.dataclass(frozen=True, slots=True)
class Away:
    """An episode that a machine is taken to play."""

    machine: str
    """The machine's name."""
    since: float
    """When the driver found it to be the machine's next, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Underway:
    """What a note says."""

    time: float
    """When it was written, in seconds since the epoch, by the driver's clock."""
    interval: float
    """After how many seconds the next one was to be written."""
    episodes: Mapping[str, Away]
    """By the ids of the episodes, which tell their rows (`Run.place_of`)."""

    def is_old(self, now: float) -> bool:
        """Returns whether the driver should have written a newer one long ago: it is gone.

        >>> Underway(100.0, 10.0, {}).is_old(120.0), Underway(100.0, 10.0, {}).is_old(131.0)
        (False, True)
        """
        return now - self.time > _OLD * self.interval

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Returns what `to_data` made data of.

        Raises:
            KeyError: It is no such data.
            TypeError: Likewise.
            ValueError: Likewise.
        """
        episodes = {
            str(episode_id): Away(str(away["machine"]), float(away["since"]))
            for episode_id, away in dict(data["episodes"]).items()
        }
        return cls(float(data["time"]), float(data["interval"]), episodes)


def read_underway(run: Run) -> Underway | None:
    """Returns what the note of a run says; None if there is none, or none that can be read.

    Raises:
        StorageError: The store cannot be read.
    """
    try:
        return Underway.from_data(orjson.loads(run.storage.read(_key(run))))
    except errors.StorageMissingError:
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # It is for show, and another is written soon.


class UnderwayNote:
    """Writes the note of a run. Its methods block; they may be called on any thread.

    Args:
        run: The run.
        interval: After how many seconds the next one is to be written.
        clock: The time, in seconds since the epoch.
    """

    def __init__(
        self,
        run: Run,
        *,
        interval: float = NOTE_INTERVAL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self.interval = interval
        self._clock = clock
        self._known: dict[str, Away] = {}
        self._lock = threading.Lock()
        self._over = False
        self._written = False  # Whether the last note that was written names an episode.

    def of(self, members: Iterable[Member]) -> Underway:
        """Returns what is under way: of each lease the first turn, since they go one by one."""
        now = self._clock()
        found = {}
        for member in members:
            for lease in member.leases:
                if episode_id := next(iter(lease.turns), None):
                    machine = member.place.name
                    before = self._known.get(episode_id)
                    known = before is not None and before.machine == machine
                    found[episode_id] = before if known and before else Away(machine, now)
        self._known = found
        return Underway(now, self.interval, found)

    def write(self, underway: Underway) -> None:
        """Writes it, unless all is over; a store that does not take it is no trouble."""
        with self._lock:
            if not self._over:
                self._write(underway)

    def finish(self) -> None:
        """Notes that nothing is under way any more, if there was a note. Idempotent."""
        with self._lock:
            if not self._over and self._written:
                self._write(Underway(self._clock(), self.interval, {}))
            self._over = True

    def _write(self, underway: Underway) -> None:
        self._written = bool(underway.episodes)
        try:
            self._run.storage.write(_key(self._run), orjson.dumps(underway.to_data()))
        except errors.StorageError as error:
            _logger.debug("What is under way could not be noted: %s", error)


def _key(run: Run) -> str:
    return f"runs/{run.run_id}/underway.json"
