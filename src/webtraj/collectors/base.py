"""The collector protocol. The modules beside this one implement it.

A collector is shared by many concurrent episodes, so `begin_episode` returns a recorder for one
episode. Recording follows `asyncio.StreamWriter`: the `record_*` calls and `end_episode` are plain
functions that hand the data over before they return, so cancellation cannot cut them in half;
`drain` waits while the collector is behind; `flush` waits until it has caught up. A collector never
drops data to keep up.

A collector must have `begin_episode`, and its recorder `record_step` and `end_episode`. The rest
has defaults: inherit them from the two protocols, or omit the methods.

A collector for one episode at a time, as ARES has it, works too: `begin_episode(*, task_name)`,
`record_step(step)` and `end_episode(*, truncated)`. See `begin`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from webtraj import trajectory as trajectory_lib
from webtraj.store.closeable import Closing

__all__ = [
    "EpisodeRecorder",
    "NullTrajectoryCollector",
    "TrajectoryCollector",
    "aclose",
    "begin",
    "drain",
    "flush",
    "optional",
    "raise_first",
    "seal",
]


@runtime_checkable
class EpisodeRecorder(Protocol):
    """Records one episode. Not for use by two tasks at once."""

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replace the episode's info, except for its id. Does nothing by default."""
        return

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Record an action that is about to be taken. Does nothing by default."""
        return

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Record a timestep that the environment returned.

        Raises:
            CollectorError: The step could not be recorded.
        """

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """End the record; nothing more can be recorded afterwards.

        Raises:
            CollectorError: The end could not be recorded.
        """


@runtime_checkable
class TrajectoryCollector(Protocol):
    """Stores episodes. Safe to share between tasks and threads."""

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """Begin the record of one episode.

        Raises:
            CollectorError: The record could not be started.
            InvalidEpisodeIdError: The id cannot name an episode.
        """

    async def drain(self) -> None:
        """Wait while the collector is too far behind. By default, return at once.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        return

    async def seal(self) -> None:
        """Wait until every ended episode is safe on this machine.

        Rollouts wait for this between episodes, so it must not wait for a network. By default it is
        `flush`; a collector that sends episodes elsewhere overrides it.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        await self.flush()

    async def flush(self) -> None:
        """Wait until every ended episode is at its destination. By default, return at once.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        return

    async def aclose(self) -> None:
        """End open episodes as CLOSED, flush, and release all resources. Idempotent.

        By default, only flush.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        await self.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def begin(collector: TrajectoryCollector, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
    """Begin the record of one episode, with a collector of either kind.

    Raises:
        CollectorError: The record could not be started.
        InvalidEpisodeIdError: The id cannot name an episode.
    """
    try:
        takes = inspect.signature(collector.begin_episode).parameters
    except (TypeError, ValueError):  # A method that is not written in Python.
        return collector.begin_episode(info)
    if next(iter(takes), "") == "task_name":
        return _OneAtATime(collector, info)
    return collector.begin_episode(info)


class _OneAtATime(EpisodeRecorder):
    """Records an episode with a collector that is its own recorder and takes the task's name.

    It begins with the first step: only then is the task of many environments known.
    """

    def __init__(self, collector: Any, info: trajectory_lib.EpisodeInfo) -> None:
        self._collector = collector
        self._info = info
        self._has_begun = False

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Keep the description until the episode begins."""
        self._info = info

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Record a step, as `EpisodeRecorder.record_step`."""
        self._begin()
        self._collector.record_step(step)

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """End the episode, as `EpisodeRecorder.end_episode`."""
        self._begin()
        # There, an episode that did not terminate by itself is truncated.
        truncated = end.reason is not trajectory_lib.EndReason.TERMINATED
        self._collector.end_episode(truncated=truncated)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._collector.begin_episode(task_name=self._info.task)


async def seal(collector: TrajectoryCollector) -> None:
    """Call a collector's `seal`, or `flush` if it has none."""
    await _if_there(collector, "flush" if getattr(collector, "seal", None) is None else "seal")


async def drain(collector: TrajectoryCollector) -> None:
    """Wait while a collector is too far behind. Return at once if it has no `drain`."""
    await _if_there(collector, "drain")


async def flush(collector: TrajectoryCollector) -> None:
    """Wait until a collector has caught up. Return at once if it has no `flush`."""
    await _if_there(collector, "flush")


async def aclose(collector: TrajectoryCollector) -> None:
    """Close a collector, if it can be closed."""
    await _if_there(collector, "aclose")


def raise_first(failures: Sequence[Exception]) -> None:
    """Raise the first of some failures, with notes on the others; do nothing without failures."""
    if failures:
        first, *others = failures
        for other in others:
            first.add_note(f"And: {other}")
        raise first


def optional(recorder: EpisodeRecorder, name: str) -> Any:
    """Return a recorder's method; if it has none, a function that does nothing."""
    return getattr(recorder, name, lambda *args, **kwargs: None)


async def _if_there(collector: TrajectoryCollector, name: str) -> None:
    method = getattr(collector, name, None)
    if method is not None:
        await method()


# The null collector accepts everything and stores nothing, so nobody has to check for None.


class NullTrajectoryCollector(TrajectoryCollector, Closing):
    """Stores nothing. It is its own recorder, since it has no state."""

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> NullTrajectoryCollector:
        """Return the recorder: this object."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Do nothing."""

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Do nothing."""

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Do nothing."""

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Do nothing."""
