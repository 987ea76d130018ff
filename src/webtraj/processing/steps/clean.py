"""`clean`: drops episodes that there is nothing to learn from, for reasons that are counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from webtraj import trajectory as trajectory_lib
from webtraj.processing.base import Drop
from webtraj.processing.steps import looking, options
from webtraj.trajectory import INFRASTRUCTURE_FAILURES, EndReason, Outcome

__all__ = ["Clean"]

_BROKEN_ENDS = {
    EndReason.UNKNOWN: "open",
    EndReason.INTERRUPTED: "interrupted",
    EndReason.CLOSED: "closed",
    EndReason.ERRORED: "errored",
    EndReason.CANCELLED: "cancelled",
    EndReason.CRASHED: "crashed",
}
_BROKEN = (*INFRASTRUCTURE_FAILURES, Outcome.AGENT_ERROR, Outcome.CANCELLED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Drops what is empty, too short, has holes, holds no action at all, or was cut short.

    The reasons, in the order in which they are looked for:

    * `open`, `errored`, `crashed`, ...: the record did not end by the episode's own end.
    * `outcome env_error`, `timeout`, ...: infrastructure failed, or the agent raised.
    * `empty`: no steps, or observations that hold nothing.
    * `too short`: fewer than `min_steps` actions.
    * `no observation`, `no action`, `no response`: None where there has to be something. A model's
      reply is none if it has neither text nor a raw body.
    * `no valid action`: every reply was one that could not be read.

    >>> from webtraj.trajectory import EpisodeInfo
    >>> Clean()(trajectory_lib.EpisodeTrajectory(EpisodeInfo(episode_id="e1"))).reason
    'open'
    """

    name: str = dataclasses.field(default="clean", init=False)
    version: str = dataclasses.field(default="1", init=False)
    needs_model: ClassVar[bool] = False
    min_steps: int = 1
    """Actions that an episode must have. Many tasks take a single click, so 1 keeps them."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "min_steps", self.min_steps, least=0)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Drop:
        """Returns the episode itself, or why it is dropped."""
        return next(self._faults(trajectory), trajectory)

    def _faults(self, trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[Drop]:
        if trajectory.end_reason in _BROKEN_ENDS:
            error = trajectory.end.error if trajectory.end is not None else None
            yield Drop(
                _BROKEN_ENDS[trajectory.end_reason],
                f"{error.type}: {error.message}" if error else "",
            )
        if trajectory.outcome in _BROKEN:
            detail = trajectory.end.detail if trajectory.end is not None else ""
            yield Drop(f"outcome {trajectory.outcome.name.lower()}", detail)
        if all(looking.is_empty(step.observation) for step in trajectory.steps):
            yield Drop("empty")
        if trajectory.num_steps < self.min_steps:
            yield Drop("too short", f"{trajectory.num_steps} of {self.min_steps}")
        for step in trajectory.steps:
            if hole := _hole_in(step):
                yield Drop(hole, f"step {step.index}")
        actions = trajectory.steps[1:]
        if actions and all(looking.is_invalid(step) for step in actions):
            yield Drop("no valid action", f"{len(actions)} replies")


def _hole_in(step: trajectory_lib.StepRecord) -> str:
    observation = step.observation
    if looking.is_empty(observation):
        return "no observation"
    if isinstance(observation, Mapping) and any(value is None for value in observation.values()):
        return "no observation"
    if step.first:
        return ""
    if step.action is None:
        return "no action"
    calls = () if step.decision is None else step.decision.model_calls
    # Calls that failed before are no hole: the last one was answered.
    if calls and not calls[-1].text and calls[-1].response is None:
        return "no response"
    return ""
