"""The tee collector: the same episodes to several collectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import (
    EpisodeRecorder,
    TrajectoryCollector,
    aclose,
    drain,
    flush,
    optional,
    seal,
)

__all__ = ["TeeTrajectoryCollector"]


class TeeTrajectoryCollector(TrajectoryCollector):
    """Hands everything to each of its collectors, in order.

    One collector's failure keeps nothing from the others: each gets every call, and then the first
    error is raised, with notes on the rest. A collector that could not begin an episode is left out
    of that episode.
    """

    def __init__(self, *collectors: TrajectoryCollector) -> None:
        self._collectors = collectors
        self._closed = False

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """Begins the record of one episode in each collector.

        Raises:
            CollectorClosedError: The collector is closed.
            CollectorError: No collector could begin it.
            InvalidEpisodeIdError: The id cannot name an episode.
        """
        if self._closed:
            raise errors.CollectorClosedError("The collector is closed; make a new one.")
        recorders: list[EpisodeRecorder] = []
        failures: list[Exception] = []
        for collector in self._collectors:
            try:
                recorders.append(collector.begin_episode(info))
            except Exception as error:
                failures.append(error)
        if failures and not recorders:
            _raise(failures)
        return _TeeEpisodeRecorder(recorders, failures)

    async def drain(self) -> None:
        """Waits for the slowest."""
        await self._each(drain)

    async def seal(self) -> None:
        """Waits until each has sealed what has ended."""
        await self._each(seal)

    async def flush(self) -> None:
        """Waits until each has flushed."""
        await self._each(flush)

    async def aclose(self) -> None:
        """Closes each collector."""
        self._closed = True
        await self._each(aclose)

    async def _each(self, call: Callable[[TrajectoryCollector], Any]) -> None:
        failures: list[Exception] = []
        for collector in self._collectors:
            try:
                await call(collector)
            except Exception as error:
                failures.append(error)
        _raise(failures)


class _TeeEpisodeRecorder(EpisodeRecorder):
    """Hands one episode to several recorders."""

    def __init__(self, recorders: Iterable[EpisodeRecorder], failures: list[Exception]) -> None:
        self._recorders = tuple(recorders)
        # What could not be begun is reported by the first call after it.
        self._failures = failures

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replaces what is known of the episode, its id excepted."""
        self._each(lambda recorder: optional(recorder, "record_info")(info))

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Notes an action that is about to be handed to the environment."""
        self._each(lambda recorder: optional(recorder, "record_intent")(action, decision=decision))

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Records a timestep that the environment returned."""
        self._each(lambda recorder: recorder.record_step(step))

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Ends the record."""
        self._each(lambda recorder: recorder.end_episode(end))

    def _each(self, call: Callable[[EpisodeRecorder], None]) -> None:
        failures, self._failures = self._failures, []
        for recorder in self._recorders:
            try:
                call(recorder)
            except Exception as error:
                failures.append(error)
        _raise(failures)


def _raise(failures: list[Exception]) -> None:
    if failures:
        first, *others = failures
        for other in others:
            first.add_note(f"And: {other}")
        raise first
