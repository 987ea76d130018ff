"""Where an episode's time went, from its record alone: to the model, the environment, or neither.

A step's `start_time` and `end_time` frame the environment's own `reset` or `step`; a model call's
`latency` is the time from its first attempt to the full reply, retries included. What is left is
the agent's own work, waiting for a turn to ask, and the recording. Phase by phase, and over a whole
rollout, `webtraj.rollouts.metrics` tells more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import accounting

__all__ = ["TimeSplit", "time_split", "total_time_split"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeSplit:
    """Seconds of one episode, or of several together."""

    model: float = 0.0
    """Waiting for the model,"""
    environment: float = 0.0
    """waiting for the environment,"""
    other: float = 0.0
    """and what was neither."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.model + self.environment + self.other

    @property
    def other_share(self) -> float:
        """The share that was neither model nor environment, from 0 to 1; 0 of nothing."""
        return self.other / self.total if self.total else 0.0


def time_split(trajectory: trajectory_lib.EpisodeTrajectory) -> TimeSplit:
    """Returns where an episode's time went.

    The time of an episode that was not ended in order (`CRASHED`), or whose times were not
    recorded, is what its steps and calls took. Clocks that were set back meanwhile make no time
    negative.
    """
    model = sum(call.latency or 0.0 for call in accounting.model_calls(trajectory))
    environment = sum(
        max(step.end_time - step.start_time, 0.0)
        for step in trajectory.steps
        if step.start_time is not None and step.end_time is not None
    )
    begun, ended = trajectory.start_time, trajectory.end_time
    total = ended - begun if begun is not None and ended is not None else 0.0
    return TimeSplit(
        model=model, environment=environment, other=max(total - model - environment, 0.0)
    )


def total_time_split(trajectories: Iterable[trajectory_lib.EpisodeTrajectory]) -> TimeSplit:
    """Returns where the time of several episodes went, added up as if none had run at once."""
    splits = [time_split(trajectory) for trajectory in trajectories]
    return TimeSplit(
        model=sum(split.model for split in splits),
        environment=sum(split.environment for split in splits),
        other=sum(split.other for split in splits),
    )
