"""The result of one episode of a rollout."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from webtraj.trajectory import EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.rollouts.plan import PlannedEpisode
    from webtraj.store.index import EpisodeSummary

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
    row: int = 0
    """The planned episode's place in the plan."""
    number: int = 0
    """How many tries at that planned episode there were before this one."""
    site: str = ""
    """The site, where there is one."""
    level: str = "unknown"
    """The task's difficulty in a word."""
    cause: BaseException | None = dataclasses.field(default=None, repr=False, compare=False)
    """The error itself, if it happened in this process."""

    @property
    def failed(self) -> bool:
        """Whether an error ended it, the agent's own included."""
        return self.end_reason is EndReason.ERRORED

    @property
    def counts(self) -> bool:
        """Whether it says something about the agent: it ended by itself, or the agent failed.

        A row of the plan with such a result is done.
        """
        return self.finished or self.outcome is Outcome.AGENT_ERROR

    @property
    def broke(self) -> bool:
        """Whether an error ended it that is not the agent's own."""
        return self.failed and not self.counts

    @property
    def finished(self) -> bool:
        """Whether it ended by itself, or by a limit that belongs to it."""
        return self.end_reason in (EndReason.TERMINATED, EndReason.TRUNCATED)

    @classmethod
    def of_summary(
        cls, summary: EpisodeSummary, planned: PlannedEpisode, number: int
    ) -> EpisodeResult:
        """Returns the result that an episode on record had."""
        finished = summary.end_reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
        start, end = summary.start_time, summary.end_time
        return cls(
            task=summary.task or planned.task,
            seed=summary.seed,
            attempt=planned.attempt,
            episode_id=summary.episode_id,
            end_reason=summary.end_reason,
            outcome=summary.outcome,
            num_steps=summary.num_steps,
            total_reward=summary.total_reward if finished else None,
            seconds=0.0 if start is None or end is None else max(end - start, 0.0),
            row=planned.row,
            number=number,
            site=planned.spec.site,
            level=planned.spec.level,
        )
