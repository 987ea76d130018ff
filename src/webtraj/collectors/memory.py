"""The memory collector: episodes as Python objects, for tests and small experiments.

Lists, dicts, arrays, dataclasses and pydantic models are copied, so changing one later does not
change the record. Objects of other classes are kept by reference. Nothing survives the process.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import EpisodeRecorder, TrajectoryCollector
from webtraj.store.closeable import Closing
from webtraj.store.layout import check_episode_id

__all__ = ["MemoryTrajectoryCollector"]


class MemoryTrajectoryCollector(TrajectoryCollector, Closing):
    """Stores episodes in memory, in the order in which they ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trajectories: list[trajectory_lib.EpisodeTrajectory] = []
        self._open: dict[str, _MemoryEpisodeRecorder] = {}
        self._ids: set[str] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.trajectories)} episodes>"

    @property
    def trajectories(self) -> tuple[trajectory_lib.EpisodeTrajectory, ...]:
        """The episodes that have ended."""
        with self._lock:
            return tuple(self._trajectories)

    @property
    def open_episodes(self) -> tuple[str, ...]:
        """The ids of the episodes that have begun and not ended."""
        with self._lock:
            return tuple(sorted(self._open))

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> _MemoryEpisodeRecorder:
        """Begin the record of one episode.

        Raises:
            CollectorClosedError: The collector is closed.
            CollectorError: The id is already used.
            InvalidEpisodeIdError: The id cannot name an episode.
        """
        check_episode_id(info.episode_id)
        with self._lock:
            if self._closed:
                raise errors.CollectorClosedError("The collector is closed. Make a new one.")
            if info.episode_id in self._ids:
                raise errors.CollectorError(
                    f"The collector already has an episode {info.episode_id!r}. Every episode "
                    "needs its own id."
                )
            recorder = _MemoryEpisodeRecorder(self, info)
            self._ids.add(info.episode_id)
            self._open[info.episode_id] = recorder
        return recorder

    async def aclose(self) -> None:
        """End open episodes as CLOSED. Idempotent."""
        self.close()

    def close(self) -> None:
        """Do what `aclose` does, for code without an event loop."""
        end = trajectory_lib.EpisodeEnd(
            reason=trajectory_lib.EndReason.CLOSED, phase=trajectory_lib.Phase.CLOSE
        )
        with self._lock:
            self._closed = True
            still_open = list(self._open.values())
        for recorder in still_open:
            recorder.end_episode(end)

    def _keep(self, trajectory: trajectory_lib.EpisodeTrajectory) -> None:
        with self._lock:
            del self._open[trajectory.episode_id]
            self._trajectories.append(trajectory)


class _MemoryEpisodeRecorder(EpisodeRecorder):
    """Collects one episode."""

    def __init__(
        self, collector: MemoryTrajectoryCollector, info: trajectory_lib.EpisodeInfo
    ) -> None:
        self._collector = collector
        self._episode_id = info.episode_id
        self._info = _snapshot(info, {})
        self._steps: list[trajectory_lib.StepRecord] = []
        self._start_time = trajectory_lib.now()
        self._ended = False

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replace the episode's info, except for its id."""
        self._check_open()
        self._info = _snapshot(dataclasses.replace(info, episode_id=self._episode_id), {})

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Do nothing: memory does not outlive a crash."""
        self._check_open()

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Record a timestep that the environment returned."""
        self._check_open()
        self._steps.append(_snapshot(step, {}))

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """End the record."""
        self._check_open()
        self._ended = True
        self._collector._keep(
            trajectory_lib.EpisodeTrajectory(
                self._info,
                tuple(self._steps),
                _snapshot(end, {}),
                self._start_time,
                trajectory_lib.now(),
            )
        )

    def _check_open(self) -> None:
        if self._ended:
            raise errors.CollectorClosedError(
                f"The episode {self._episode_id!r} has ended; nothing more can be recorded."
            )


_DEEPEST = 100


def _snapshot(value: Any, copies: dict[int, Any], depth: int = 0) -> Any:
    """Return a value with its mutable parts copied. `copies` holds the parts copied so far."""
    copier = _COPIERS.get(type(value))
    if copier is None and dataclasses.is_dataclass(type(value)):
        copier = _copy_record
    elif copier is None and hasattr(type(value), "model_copy"):
        copier = _copy_model
    if copier is None or depth > _DEEPEST:
        return value
    if id(value) not in copies:
        copies[id(value)] = value  # In case it contains itself.
        try:
            copies[id(value)] = copier(value, copies, depth + 1)
        except Exception:  # Copying a foreign object may run any code.
            return value
    return copies[id(value)]


def _copy_record(value: Any, copies: dict[int, Any], depth: int) -> Any:
    record = copy.copy(value)
    for field in dataclasses.fields(value):
        item = _snapshot(getattr(value, field.name), copies, depth)
        object.__setattr__(record, field.name, item)
    return record


def _copy_model(value: Any, copies: dict[int, Any], depth: int) -> Any:
    return value.model_copy(deep=True)


_COPIERS: dict[type, Callable[[Any, dict[int, Any], int], Any]] = {
    list: lambda value, copies, depth: [_snapshot(item, copies, depth) for item in value],
    tuple: lambda value, copies, depth: tuple(_snapshot(item, copies, depth) for item in value),
    dict: lambda value, copies, depth: {
        key: _snapshot(item, copies, depth) for key, item in value.items()
    },
    set: lambda value, copies, depth: set(value),
    bytearray: lambda value, copies, depth: bytearray(value),
    np.ndarray: lambda value, copies, depth: value.copy(),
}
