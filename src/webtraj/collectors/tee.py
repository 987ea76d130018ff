"""The tee collector: the same episodes to several collectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import (
    EpisodeRecorder,
    TrajectoryCollector,
    aclose,
    begin,
    drain,
    flush,
    optional,
    raise_first,
    seal,
)
from webtraj.store.closeable import Closing

__all__ = ["TeeTrajectoryCollector"]


class TeeTrajectoryCollector(TrajectoryCollector, Closing):
    """Passes everything to each of its collectors, in order.

    One collector's failure does not affect the others: each gets every call, and then the first
    error is raised, with notes on the rest. A collector that could not begin an episode does not
    record it.
    """

    def __init__(self, *collectors: TrajectoryCollector) -> None:
        self._collectors = collectors
        self._closed = False

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """Begin the record of one episode in each collector.

        Raises:
            CollectorClosedError: The collector is closed.
            CollectorError: No collector could begin the episode.
            InvalidEpisodeIdError: The id cannot name an episode.
        """
        if self._closed:
            raise errors.CollectorClosedError("The collector is closed. Make a new one.")
        recorders: list[EpisodeRecorder] = []
        failures: list[Exception] = []
        for collector in self._collectors:
            try:
                recorders.append(begin(collector, info))
            except Exception as error:
                failures.append(error)
        if not recorders:
            raise_first(failures)
        return _TeeEpisodeRecorder(recorders, failures)

    async def drain(self) -> None:
        """Wait for the slowest collector."""
        await self._each(drain)

    async def seal(self) -> None:
        """Wait until each collector has sealed all ended episodes."""
        await self._each(seal)

    async def flush(self) -> None:
        """Wait until each collector has flushed."""
        await self._each(flush)

    async def aclose(self) -> None:
        """Close each collector."""
        self._closed = True
        await self._each(aclose)

    def close(self) -> None:
        """Do what `aclose` does, for code without an event loop.

        A collector without a `close` is closed by `aclose`, in an event loop of its own.
        """
        self._closed = True
        failures: list[Exception] = []
        for collector in self._collectors:
            close = getattr(collector, "close", None)
            try:
                asyncio.run(aclose(collector)) if close is None else close()
            except Exception as error:
                failures.append(error)
        raise_first(failures)

    async def _each(self, call: Callable[[TrajectoryCollector], Any]) -> None:
        failures: list[Exception] = []
        for collector in self._collectors:
            try:
                await call(collector)
            except Exception as error:
                failures.append(error)
        raise_first(failures)


class _TeeEpisodeRecorder(EpisodeRecorder):
    """Passes one episode to several recorders."""

    def __init__(self, recorders: Iterable[EpisodeRecorder], failures: list[Exception]) -> None:
        self._recorders = tuple(recorders)
        # Failures to begin are reported by the first call after `begin_episode`.
        self._failures = failures

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replace the episode's info, except for its id."""
        self._each(lambda recorder: optional(recorder, "record_info")(info))

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Record an action that is about to be passed to the environment."""
        self._each(lambda recorder: optional(recorder, "record_intent")(action, decision=decision))

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Record a timestep that the environment returned."""
        self._each(lambda recorder: recorder.record_step(step))

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """End the record."""
        self._each(lambda recorder: recorder.end_episode(end))

    def _each(self, call: Callable[[EpisodeRecorder], None]) -> None:
        failures, self._failures = self._failures, []
        for recorder in self._recorders:
            try:
                call(recorder)
            except Exception as error:
                failures.append(error)
        raise_first(failures)
