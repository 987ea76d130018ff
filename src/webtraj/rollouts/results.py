"""The result of one episode of a rollout."""

from __future__ import annotations

import dataclasses

from webtraj.trajectory import EndReason, Outcome

__all__ = ["EpisodeResult"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """How one episode of a rollout ended."""

    task: str
    """The task's name."""
    seed: int | None
    """What the environment was seeded with; None if it takes no seed."""
    attempt: int
    """Number of this attempt at the task in this rollout, from 0."""
    episode_id: str
    """The id of its record; empty if it was not recorded, or failed before its first step."""
    end_reason: EndReason
    """Why it ended."""
    outcome: Outcome
    """What it was worth, in kind."""
    num_steps: int
    """Steps that the environment took after its first observation."""
    total_reward: float | None
    """Sum of all rewards; None if the episode did not end by itself: then it has none."""
    seconds: float
    """How long it took."""
    error: str = ""
    """What went wrong, if something did; the record has it in full."""

    @property
    def failed(self) -> bool:
        """Whether an error ended it, so that nothing can be said of the policy."""
        return self.end_reason is EndReason.ERRORED
