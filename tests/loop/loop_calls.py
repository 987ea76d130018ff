"""The model calls of an episode, that of an action in flight included."""

from __future__ import annotations

from collections.abc import Iterator

from webtraj import EpisodeTrajectory, ModelCall

__all__ = ["calls_of"]


def calls_of(trajectory: EpisodeTrajectory) -> Iterator[ModelCall]:
    """Yields them in order."""
    decisions = [step.decision for step in trajectory.steps]
    if trajectory.end is not None:
        decisions.append(trajectory.end.in_flight_decision)
    for decision in decisions:
        yield from () if decision is None else decision.model_calls
