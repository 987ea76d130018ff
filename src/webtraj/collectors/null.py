"""The null collector: takes everything and keeps nothing, so that nobody needs an `is None`."""

from __future__ import annotations

from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.collectors.base import TrajectoryCollector

__all__ = ["NullTrajectoryCollector"]


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
