"""The collector protocol. The modules beside this one implement it.

A collector is shared by many concurrent episodes, so `begin_episode` returns a recorder for one
episode. Recording follows `asyncio.StreamWriter`: the `record_*` calls and `end_episode` are plain
functions that hand the data over before they return, so cancellation cannot cut them in half;
`drain` waits while the collector is behind; `flush` waits until it has caught up. A collector never
drops data to keep up.

A collector must have `begin_episode`, and its recorder `record_step` and `end_episode`. The rest
has defaults: inherit them from the two protocols, or omit the methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from webtraj import trajectory as trajectory_lib
from webtraj.store.closing import Closing

__all__ = [
    "EpisodeRecorder",
    "NullTrajectoryCollector",
    "TrajectoryCollector",
    "aclose",
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
        """Wait while the collector is too far behind. By default, it never is.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        return

    async def seal(self) -> None:
        """Wait until every ended episode is safe on this machine, but no longer.

        Rollouts wait for this between episodes, so it must not wait for a network. By default it is
        `flush`; a collector that sends episodes elsewhere overrides it.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        await self.flush()

    async def flush(self) -> None:
        """Wait until every ended episode is at its destination. By default, it always is.

        Raises:
            CollectorError: Earlier data could not be stored.
        """
        return

    async def aclose(self) -> None:
        """End open episodes as CLOSED, flush, and release all resources. Idempotent.

        By default, only flushes.

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


async def seal(collector: TrajectoryCollector) -> None:
    """Call a collector's `seal`, or `flush` if it has none."""
    await _if_there(collector, "flush" if getattr(collector, "seal", None) is None else "seal")


async def drain(collector: TrajectoryCollector) -> None:
    """Wait while a collector is too far behind; one without `drain` never is."""
    await _if_there(collector, "drain")


async def flush(collector: TrajectoryCollector) -> None:
    """Wait until a collector has caught up; one without `flush` always has."""
    await _if_there(collector, "flush")


async def aclose(collector: TrajectoryCollector) -> None:
    """Close a collector, if it can be closed."""
    await _if_there(collector, "aclose")


def raise_first(failures: Sequence[Exception]) -> None:
    """Raise the first of several failures, which names the others; nothing if there are none."""
    if failures:
        first, *others = failures
        for other in others:
            first.add_note(f"And: {other}")
        raise first


def optional(recorder: EpisodeRecorder, name: str) -> Any:
    """Return a recorder's method, or one that does nothing if it has none."""
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
