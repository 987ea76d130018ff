"""The memory collector: episodes as Python objects, for tests and small experiments.

Observations are kept by reference, as the environment emitted them: an environment that changes an
array after it has emitted it changes the record too. Nothing survives the process.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.closing import AsyncClosing
from webtraj.collectors.layout import check_episode_id

__all__ = ["MemoryTrajectoryCollector"]


class MemoryTrajectoryCollector(AsyncClosing):
    """Keeps episodes in memory, in the order in which they ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trajectories: list[trajectory_lib.EpisodeTrajectory] = []
        self._open: dict[str, _MemoryEpisodeRecorder] = {}
        self._ids: set[str] = set()
        self._closed = False

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
        """Begins the record of one episode.

        Raises:
            CollectorClosedError: The collector is closed.
            CollectorError: The id is taken.
            InvalidEpisodeIdError: The id cannot name an episode.
        """
        check_episode_id(info.episode_id)
        with self._lock:
            if self._closed:
                raise errors.CollectorClosedError("The collector is closed; make a new one.")
            if info.episode_id in self._ids:
                raise errors.CollectorError(
                    f"There is an episode {info.episode_id!r} already; every episode needs an id "
                    "of its own."
                )
            recorder = _MemoryEpisodeRecorder(self, info)
            self._ids.add(info.episode_id)
            self._open[info.episode_id] = recorder
        return recorder

    async def drain(self) -> None:
        """Returns at once."""

    async def flush(self) -> None:
        """Returns at once."""

    async def aclose(self) -> None:
        """Ends open episodes as CLOSED. Idempotent."""
        end = trajectory_lib.EpisodeEnd(
            reason=trajectory_lib.EndReason.CLOSED, phase=trajectory_lib.Phase.CLOSE
        )
        with self._lock:
            self._closed = True
            still_open = list(self._open.values())
        for recorder in still_open:
            recorder.end_episode(end)

    def _ended(self, trajectory: trajectory_lib.EpisodeTrajectory) -> None:
        with self._lock:
            del self._open[trajectory.episode_id]
            self._trajectories.append(trajectory)


class _MemoryEpisodeRecorder:
    """Gathers one episode."""

    def __init__(
        self, collector: MemoryTrajectoryCollector, info: trajectory_lib.EpisodeInfo
    ) -> None:
        self._collector = collector
        self._episode_id = info.episode_id
        self._info = info
        self._steps: list[trajectory_lib.StepRecord] = []
        self._start_time = time.time()
        self._ended = False

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replaces what is known of the episode, its id excepted."""
        self._check_open()
        self._info = dataclasses.replace(info, episode_id=self._episode_id)

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Does nothing: memory does not outlive the process that intends."""
        self._check_open()

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Keeps a timestep that the environment returned."""
        self._check_open()
        self._steps.append(step)

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Ends the record."""
        self._check_open()
        self._ended = True
        self._collector._ended(
            trajectory_lib.EpisodeTrajectory(
                self._info, tuple(self._steps), end, self._start_time, time.time()
            )
        )

    def _check_open(self) -> None:
        if self._ended:
            raise errors.CollectorClosedError(
                f"The episode {self._episode_id!r} has ended; its record takes nothing more."
            )
