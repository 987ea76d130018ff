"""The rollouts that wrote the shown datasets, as far as they have come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from webtraj import errors
from webtraj.datasets.place import DatasetPlace
from webtraj.metrics.measuring import plain
from webtraj.runs.run import run_ids
from webtraj.view.monitor import RunMonitor
from webtraj.view.status import RunStatus

__all__ = ["Runs"]

_EVERY = 1.0
_EVERY_IN_BUCKET = 5.0


class Runs:
    """Monitors of runs, which are read once for all visitors. Safe to share between threads."""

    def __init__(
        self,
        storage_options: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize without any run.

        Args:
            storage_options: For buckets: the options of `webtraj.store.bucket.BucketStorage`.
            clock: Returns seconds.
        """
        self._options = storage_options
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._has_run: dict[str, bool] = {}

    def has(self, place: DatasetPlace) -> bool:
        """Return whether a rollout wrote the dataset. A bucket is asked only once."""
        with self._lock:
            known = self._has_run.get(place.url)
            if known or (place.is_remote and known is not None):
                return known
            try:
                self._has_run[place.url] = bool(run_ids(place.storage))
            except errors.StorageError:
                self._has_run[place.url] = False
            return self._has_run[place.url]

    def status(self, place: DatasetPlace, run_id: str = "") -> dict[str, Any]:
        """Return a run's status as JSON data.

        Args:
            place: The dataset.
            run_id: The run; by default the latest.

        Raises:
            InvalidInputError: There is no such run.
            StorageError: The storage cannot be read.
        """
        return self._find(place, run_id).look(self._clock()).to_data()

    def row(self, place: DatasetPlace, number: int, run_id: str = "") -> dict[str, Any]:
        """Return the details of a row of a run's plan as JSON data.

        Raises:
            InvalidInputError: There is no such run, or no such row.
            StorageError: The storage cannot be read.
        """
        watched = self._find(place, run_id)
        watched.look(self._clock())
        row: dict[str, Any] = plain(watched.row(number))
        return row

    def _find(self, place: DatasetPlace, run_id: str) -> _Watched:
        key = (place.url, run_id)
        with self._lock:
            if key not in self._watched:
                options = self._options if place.is_remote else None
                monitor = RunMonitor(place.url, run_id or None, storage_options=options)
                every = _EVERY_IN_BUCKET if place.is_remote else _EVERY
                found = self._watched.setdefault(
                    (place.url, monitor.run_id), _Watched(monitor, every)
                )
                self._watched[key] = found
            return self._watched[key]


class _Watched:
    """A monitor, and what it saw last."""

    def __init__(self, monitor: RunMonitor, every: float) -> None:
        self._monitor = monitor
        self._every = every
        self._lock = threading.Lock()
        self._status: RunStatus | None = None
        self._next = 0.0

    def look(self, now: float) -> RunStatus:
        with self._lock:
            if self._status is None or now >= self._next:
                self._status = self._monitor.look()
                self._next = now + self._every
            return self._status

    def row(self, number: int) -> dict[str, Any]:
        with self._lock:
            return self._monitor.row(number)
