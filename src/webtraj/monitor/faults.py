"""The errors of a run: how many of each kind, and what the latest one said."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.monitor.status import FaultCount
from webtraj.reporting.faults import Fault, fault_of
from webtraj.store.index import EpisodeSummary

if TYPE_CHECKING:
    from webtraj.monitor.locating import WatchedRun

__all__ = ["FaultBook"]

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
