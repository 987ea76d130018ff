"""Who is at work: whether a run is played, was left by a process that died, or is over."""

from __future__ import annotations

from collections.abc import Mapping

from webtraj import errors
from webtraj.datasets.index_tail import IndexTail
from webtraj.monitor.locating import WatchedRun
from webtraj.monitor.status import Cell, Writer
from webtraj.monitor.tailing import JournalTail, LockTable
from webtraj.rollouts.metrics.files import read_metrics
from webtraj.store.places import FolderStorage

__all__ = ["QUIET", "Liveness"]

QUIET = 30.0
"""Seconds without any change after which what nobody holds is taken for dead."""


class Liveness:
    """Tells the living from the dead by who holds the files that a writer holds.

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
        """Returns what is known of who plays the run.

        Args:
            tails: Its open episodes.
            left: How many rows are not over.
            tries: How many episodes have ended.
            latest: When the last of them did.
            now: What time it is.
        """
        if not left:
            return Writer.OVER
        locked = self._locked()
        if locked is not None and self._held(tails) & locked:
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
        """Returns where each open episode is, by its id."""
        locked = self._locked()
        phases = {}
        for episode_id, tail in tails.items():
            dead = writer is Writer.GONE or (
                locked is not None and tail.inode not in locked and now - (tail.last or 0) > QUIET
            )
            phases[episode_id] = Cell.LOST if dead else tail.cell
        return phases

    def _held(self, tails: Mapping[str, JournalTail]) -> set[int]:
        """Returns the inodes of what a writer of the run would hold."""
        if tails or not isinstance(self._watched.run.storage, FolderStorage):
            return {tail.inode for tail in tails.values()}
        found = set()
        for path in self._index.files():  # Between two episodes it holds its index file alone.
            try:
                found.add(path.stat().st_ino)
            except FileNotFoundError:
                continue
        return found

    def _was_played_to_its_end(self, tries: int) -> bool:
        """Returns whether the run's metrics are there, and are of just what is on record."""
        try:
            overall = read_metrics(self._watched.run).get("overall")
        except (errors.StorageMissingError, errors.DatasetError):
            return False
        total = overall.get("total") if isinstance(overall, Mapping) else None
        return bool(tries) and total == tries

    def _locked(self) -> frozenset[int] | None:
        """Returns the inodes of locked files; None if it cannot be known here."""
        telling = [table for table in self._tables if table.tells]
        return telling[0].locked() if telling else None
