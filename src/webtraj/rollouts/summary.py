"""What came of a rollout: counts, and the rates that follow from them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from webtraj.rollouts.results import EpisodeResult
from webtraj.trajectory import AGENT_FAILURES, EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.exploring.proposing import Proposed
    from webtraj.rollouts.judging import Judged

__all__ = ["RolloutSummary", "TaskSummary"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """The episodes of one task, or of several taken together."""

    task: str
    """The task's name."""
    episodes: int
    """How many were begun."""
    successes: int
    """How many were a success."""
    failures: int
    """How many were the agent's failure, its own errors included. Infrastructure failures and
    cancelled episodes are neither success nor failure."""
    steps: int
    """Steps of all episodes together."""
    seconds: float
    """Time of all episodes together, whether they ran at once or not."""
    end_reasons: Mapping[EndReason, int]
    """How many ended for each reason."""

    @property
    def success_rate(self) -> float | None:
        """Successes among those that were a success or a failure; None if there were none."""
        judged = self.successes + self.failures
        return self.successes / judged if judged else None

    @property
    def mean_steps(self) -> float:
        """Steps an episode."""
        return self.steps / self.episodes if self.episodes else 0.0

    @property
    def steps_per_second(self) -> float:
        """Steps a second of one worker's time."""
        return self.steps / self.seconds if self.seconds else 0.0

    @classmethod
    def of(cls, task: str, results: Iterable[EpisodeResult]) -> TaskSummary:
        """Counts results."""
        results = tuple(results)
        outcomes = collections.Counter(result.outcome for result in results)
        return cls(
            task=task,
            episodes=len(results),
            successes=outcomes[Outcome.SUCCESS],
            failures=sum(outcomes[outcome] for outcome in AGENT_FAILURES),
            steps=sum(result.num_steps for result in results),
            seconds=sum(result.seconds for result in results),
            end_reasons=dict(
                sorted(collections.Counter(result.end_reason for result in results).items())
            ),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSummary:
    """Everything that came of a rollout."""

    results: tuple[EpisodeResult, ...]
    """Every episode that was begun, in the order of their ends."""
    seconds: float
    """How long the rollout took."""
    judged: Judged | None = None
    """What a judge made of it, if one was asked. `results` are as they were recorded."""
    proposed: Proposed | None = None
    """What was proposed for what was seen, if that was asked for."""

    @property
    def tasks(self) -> tuple[TaskSummary, ...]:
        """A summary for each task, in the order of their names."""
        by_task: dict[str, list[EpisodeResult]] = {}
        for result in self.results:
            by_task.setdefault(result.task, []).append(result)
        return tuple(TaskSummary.of(task, by_task[task]) for task in sorted(by_task))

    @property
    def last_tries(self) -> tuple[EpisodeResult, ...]:
        """The try that counts of each row of the plan, by row (`runs.counting`)."""
        from webtraj.rollouts.runs import counting

        return tuple(counting(self.results))

    @property
    def total(self) -> TaskSummary:
        """A summary of all tasks together."""
        return TaskSummary.of("all", self.results)

    @property
    def errors(self) -> tuple[EpisodeResult, ...]:
        """The episodes that an error ended."""
        return tuple(result for result in self.results if result.failed)

    @property
    def steps_per_second(self) -> float:
        """Steps a second of the whole rollout, all workers together."""
        return self.total.steps / self.seconds if self.seconds else 0.0
