"""What a collector is. What kinds there are stands in the modules beside this one.

A collector is shared by many episodes that run at the same time, so `begin_episode` returns a
recorder for that one episode. Recording follows `asyncio.StreamWriter`: the `record_*` calls and
`end_episode` are plain functions that hand the data over before they return, so that no
cancellation can cut them in half; `drain` waits while the collector is behind; `flush` waits until
it has caught up. A collector never drops data to keep up.

A collector must have `begin_episode`, and its recorder `record_step` and `end_episode`. The rest
has defaults: inherit them from the two protocols, or leave the methods out.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from webtraj import trajectory as trajectory_lib

__all__ = [
    "EpisodeRecorder",
    "NullTrajectoryCollector",
    "TrajectoryCollector",
    "aclose",
    "drain",
    "flush",
    "optional",
    "seal",
]


@runtime_checkable
class EpisodeRecorder(Protocol):
    """Records one episode. Not for use by two tasks at once."""

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Replaces what is known of the episode, its id excepted. By default, does nothing."""
        return

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Notes an action that is about to be taken. By default, does nothing."""
        return

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Records a timestep that the environment returned.

        Raises:
            CollectorError: It could not be kept.
        """

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Ends the record; the recorder takes nothing after it.

        Raises:
            CollectorError: The end could not be kept.
        """


@runtime_checkable
class TrajectoryCollector(Protocol):
    """Keeps episodes. Safe to share between tasks and threads."""

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> EpisodeRecorder:
        """Begins the record of one episode.

        Raises:
            CollectorError: The record could not be begun.
            InvalidEpisodeIdError: The id cannot name an episode.
        """

    async def drain(self) -> None:
        """Waits while the collector has too much in hand. By default, it never has.

        Raises:
            CollectorError: Something handed over earlier could not be kept.
        """
        return

    async def seal(self) -> None:
        """Waits until every ended episode is safe on this machine, and no longer.

        A rollout waits for this between episodes, so it must not wait for a network. By default, it
        is `flush`; a collector that sends episodes elsewhere overrides it.

        Raises:
            CollectorError: Something handed over earlier could not be kept.
        """
        await self.flush()

    async def flush(self) -> None:
        """Waits until every ended episode is where it belongs. By default, it always is.

        Raises:
            CollectorError: Something handed over earlier could not be kept.
        """
        return

    async def aclose(self) -> None:
        """Ends what is open as CLOSED, flushes, and lets go of all resources. Idempotent.

        By default, only flushes.

        Raises:
            CollectorError: Something handed over earlier could not be kept.
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
    """Do what a collector's `seal` does; for one without it, `flush`."""
    own = getattr(collector, "seal", None)
    await (flush(collector) if own is None else own())


async def drain(collector: TrajectoryCollector) -> None:
    """Wait while a collector has too much in hand; one without `drain` never has."""
    own = getattr(collector, "drain", None)
    if own is not None:
        await own()


async def flush(collector: TrajectoryCollector) -> None:
    """Wait until a collector has caught up; one without `flush` always has."""
    await _if_there(collector, "flush")


async def aclose(collector: TrajectoryCollector) -> None:
    """Close a collector, if it has anything to close."""
    await _if_there(collector, "aclose")


def optional(recorder: EpisodeRecorder, name: str) -> Any:
    """Return a method of a recorder, or one that does nothing if it has none."""
    return getattr(recorder, name, _do_nothing)


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    return None


async def _if_there(collector: TrajectoryCollector, name: str) -> None:
    method = getattr(collector, name, None)
    if method is not None:
        await method()


# The null collector: takes everything and keeps nothing, so that nobody needs an `is None`.


class NullTrajectoryCollector(TrajectoryCollector):
    """Keeps nothing. Its own recorder, since it has no state."""

    def begin_episode(self, info: trajectory_lib.EpisodeInfo) -> NullTrajectoryCollector:
        """Returns the recorder: this object."""
        return self

    def record_info(self, info: trajectory_lib.EpisodeInfo) -> None:
        """Does nothing."""

    def record_intent(
        self, action: Any, *, decision: trajectory_lib.Decision | None = None
    ) -> None:
        """Does nothing."""

    def record_step(self, step: trajectory_lib.StepRecord) -> None:
        """Does nothing."""

    def end_episode(self, end: trajectory_lib.EpisodeEnd) -> None:
        """Does nothing."""
