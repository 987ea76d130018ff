"""Split an episode's time, from its record alone, into model, environment and other.

A step's `start_time` and `end_time` frame the environment's own `reset` or `step`; a model call's
`latency` is the time from its first attempt to the full reply, including retries. The rest is the
agent's own work, waiting for a turn to ask, and recording. `webtraj.rollouts.metrics` has the time
by phase, and over a whole rollout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import accounting

__all__ = ["TimeSplit", "time_split", "total_time_split"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeSplit:
    """Seconds of one episode, or of several added up."""

    model: float = 0.0
    """Waiting for the model."""
    environment: float = 0.0
    """Waiting for the environment."""
    other: float = 0.0
    """The rest."""

    @property
    def total(self) -> float:
        """The sum of the three."""
        return self.model + self.environment + self.other

    @property
    def other_share(self) -> float:
        """The share of `other`, from 0 to 1; 0 if the total is 0."""
        return self.other / self.total if self.total else 0.0


def time_split(trajectory: trajectory_lib.EpisodeTrajectory) -> TimeSplit:
    """Return how an episode's time splits up.

    For an episode without an orderly end (`CRASHED`), or without recorded times, the total is the
    time of its steps and calls. Times are never negative, even if a clock was set back.
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
    """Return the split of several episodes, added up as if they ran one after another."""
    splits = [time_split(trajectory) for trajectory in trajectories]
    return TimeSplit(
        model=sum(split.model for split in splits),
        environment=sum(split.environment for split in splits),
        other=sum(split.other for split in splits),
    )
