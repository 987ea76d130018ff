"""Where an episode's time went, phase by phase, from its record alone.

A step's `start_time` and `end_time` frame the environment's own `reset` or `step`; within a step, a
browser environment's observation says more (the channel `timings`). Between two steps lie the
agent's decision and the recording; a model call's `start_time` and `latency` frame the request.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

from webtraj.trajectory import EpisodeTrajectory, ModelCall, StepRecord

__all__ = ["PhaseTimes", "phase_times"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """Seconds of one episode, or of several together."""

    model: float = 0.0
    """In model calls, from the request's turn to the full reply, retries included."""
    act: float = 0.0
    """In the browser, doing actions;"""
    settle: float = 0.0
    """waiting for pages to settle;"""
    observe: float = 0.0
    """reading pages and taking pictures."""
    reset: float = 0.0
    """In `reset`, which also waits for a free browser."""
    environment: float = 0.0
    """In `step` otherwise. Without the channel `timings`, that is all of it. So is the time of an
    action that never came back."""
    waiting: float = 0.0
    """From an observation to the request for the next action, and between requests: building
    prompts, and waiting for a turn."""
    other: float = 0.0
    """What is left: the agent's own work, and the recording."""

    @property
    def total(self) -> float:
        """All of it."""
        return math.fsum(dataclasses.astuple(self))

    def __add__(self, other: Self) -> Self:
        names = (field.name for field in dataclasses.fields(self))
        return type(self)(**{n: getattr(self, n) + getattr(other, n) for n in names})


def phase_times(trajectory: EpisodeTrajectory) -> PhaseTimes:
    """Returns where an episode's time went.

    An episode without times has none in any phase. Clocks that were set back meanwhile make no
    time negative.
    """
    spent = dict.fromkeys((field.name for field in dataclasses.fields(PhaseTimes)), 0.0)
    before: float | None = None
    for step in trajectory.steps:
        calls = () if step.decision is None else step.decision.model_calls
        _add_calls(spent, calls, before)
        _add_step(spent, step)
        before = step.end_time
    end = trajectory.end
    if end is not None and end.in_flight_decision is not None:
        _add_calls(spent, end.in_flight_decision.model_calls, before)
    begun, ended = trajectory.start_time, trajectory.end_time
    if begun is not None and ended is not None:
        rest = max(ended - begun - math.fsum(spent.values()), 0.0)
        spent["environment" if end is not None and end.action_in_flight else "other"] += rest
    return PhaseTimes(**spent)


def _add_calls(spent: dict[str, float], calls: tuple[ModelCall, ...], before: float | None) -> None:
    """Adds a decision's model calls, given when the observation came."""
    for call in calls:
        latency = _positive(call.latency)
        spent["model"] += latency
        if call.start_time is None:
            before = None
            continue
        if before is not None:
            spent["waiting"] += max(call.start_time - before, 0.0)
        before = call.start_time + latency


def _add_step(spent: dict[str, float], step: StepRecord) -> None:
    if step.start_time is None or step.end_time is None:
        return
    seconds = max(step.end_time - step.start_time, 0.0)
    if step.first:
        spent["reset"] += seconds
        return
    timings = step.observation.get("timings") if isinstance(step.observation, Mapping) else None
    parts = {"act": ("act",), "settle": ("settle",), "observe": ("observe", "pictures")}
    for phase, names in parts.items():
        # A step's parts are never more than all of it, whatever the page's clock says.
        part = min(math.fsum(_seconds(timings, name) for name in names), seconds)
        spent[phase] += part
        seconds -= part
    spent["environment"] += seconds


def _seconds(timings: Any, name: str) -> float:
    return _positive(timings.get(name) if isinstance(timings, Mapping) else None)


def _positive(value: Any) -> float:
    """Returns a number of seconds if it can be one, and 0 of all else that a file may have."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < math.inf else 0.0
