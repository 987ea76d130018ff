"""The note of a run on several machines, for monitoring: which machine runs which episode.

It is beside the plan and is rewritten every few seconds::

    <dataset>/runs/<run id>/underway.json

Journals of open episodes are on the machines that play them, where others cannot see them. The note
is only for display: a driver that cannot write it continues, and one that fails leaves an old note
behind, recognizable by its time.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping

import orjson

from webtraj import errors
from webtraj.runs.run import Run
from webtraj.store import records

__all__ = ["NOTE_INTERVAL", "Away", "Underway", "read_underway", "write_underway"]

_logger = logging.getLogger(__name__)

NOTE_INTERVAL = 10.0
"""Seconds between notes."""
_OLD = 3
"""Intervals after which a note is old."""


@dataclasses.dataclass(frozen=True, slots=True)
class Away:
    """An episode that a machine is playing."""

    machine: str
    """Name of the machine."""
    since: float
    """When it was handed out, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Underway:
    """Content of a note."""

    time: float
    """When it was written, in seconds since the epoch, by the driver's clock."""
    interval: float
    """Seconds until the next note."""
    episodes: Mapping[str, Away]
    """Running episodes by id, from which `Run.place_of` gives their rows."""

    def is_old(self, now: float) -> bool:
        """Return whether a newer note is long overdue, so that the driver must be dead.

        >>> Underway(100.0, 10.0, {}).is_old(120.0), Underway(100.0, 10.0, {}).is_old(131.0)
        (False, True)
        """
        return now - self.time > _OLD * self.interval


def read_underway(run: Run) -> Underway | None:
    """Return a run's note; None if it is missing or unreadable.

    Raises:
        StorageError: The store cannot be read.
    """
    try:
        return records.read_object(Underway, orjson.loads(run.storage.read(_key(run))))
    except (errors.StorageMissingError, ValueError):
        return None  # For display only; the next one follows soon.


def write_underway(run: Run, underway: Underway) -> None:
    """Write a run's note. Blocks; errors of the store are only logged."""
    try:
        run.storage.write(_key(run), orjson.dumps(underway))
    except errors.StorageError as error:
        _logger.debug("Could not write the note of running episodes: %s", error)


def _key(run: Run) -> str:
    return f"runs/{run.run_id}/underway.json"
