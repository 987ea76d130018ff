"""What is played on other machines, as the driver of a rollout on many notes it."""

from __future__ import annotations

from collections.abc import Mapping

from webtraj.rollouts.distributed.underway import (
    NOTE_INTERVAL,
    Away,
    Underway,
    read_underway,
)
from webtraj.rollouts.runs import Run

__all__ = ["Elsewhere"]


class Elsewhere:
    """Reads a run's note, no more often than it is written.

    Args:
        run: The run. Of one that is played on one machine there is no note.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._note: Underway | None = None
        self._read_at: float | None = None

    def look(self, now: float) -> Mapping[str, Away]:
        """Returns the machines of episodes by their ids; none if the driver is gone.

        Raises:
            StorageError: The note cannot be read.
        """
        if self._read_at is None or now - self._read_at >= NOTE_INTERVAL:
            self._note = read_underway(self._run)
            self._read_at = now
        if self._note is None or self._note.is_old(now):
            return {}
        return self._note.episodes
