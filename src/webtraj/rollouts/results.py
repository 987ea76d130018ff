"""Results of episodes, the summary of a rollout, and observers of both."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from webtraj.metrics.metrics_report import measure_results
from webtraj.metrics.rates import Rate
from webtraj.runs.plan import PlannedEpisode
from webtraj.runs.run import EpisodeResult
from webtraj.store.tries import pick_counting
from webtraj.trajectory import EndReason

if TYPE_CHECKING:
    from webtraj.judging.judged import Judged
    from webtraj.runs.plan import PlannedEpisode

__all__ = [
    "EpisodeResult",
    "NullRolloutObserver",
    "RolloutObserver",
    "RolloutSummary",
    "TaskSummary",
    "TeeRolloutObserver",
]


# Observers of a running rollout: progress bars, live pages, counters.


class RolloutObserver(Protocol):
    """Receives a rollout's events in the event loop; its methods must neither block nor raise."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Called before the first episode, with the episodes to play."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """Called once for each started episode when it ends, for any reason."""


class NullRolloutObserver:
    """Ignores all events."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Do nothing."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """Do nothing."""


class TeeRolloutObserver:
    """Forwards events to several observers, in order; None stands for no observer."""

    def __init__(self, *observers: RolloutObserver | None) -> None:
        self._observers = [observer for observer in observers if observer is not None]

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Forward to each observer."""
        for observer in self._observers:
            observer.rollout_planned(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Forward to each observer."""
        for observer in self._observers:
            observer.episode_ended(result)


# Summaries of a rollout: counts and rates.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """Totals of the episodes of one task, or of several tasks."""

    task: str
    """Name of the task."""
    episodes: int
    """Number of started episodes."""
    successes: int
    """Number of successes."""
    failures: int
    """Number of agent failures, the agent's own errors included. Infrastructure failures and
    cancelled episodes are neither successes nor failures."""
    steps: int
    """Total steps of all episodes."""
    infrastructure_failures: int = 0
    """Number of episodes that a browser, page, server or judge failed."""
    seconds: float
    """Total time of all episodes in seconds, counting concurrent episodes separately."""
    end_reasons: Mapping[EndReason, int]
    """Number of episodes by end reason."""

    @property
    def success_rate(self) -> float | None:
        """Share of successes among successes and failures; None if there are neither."""
        return Rate(self.successes, self.successes + self.failures).value

    @property
    def mean_steps(self) -> float:
        """Mean steps per episode."""
        return self.steps / self.episodes if self.episodes else 0.0

    @property
    def steps_per_second(self) -> float:
        """Steps per second of one worker's time."""
        return self.steps / self.seconds if self.seconds else 0.0

    @classmethod
    def of(cls, task: str, results: Iterable[EpisodeResult]) -> TaskSummary:
        """Return the summary of the results."""
        metrics = measure_results(results, by=()).overall
        reasons = ((reason, metrics.end_reasons[reason.name.lower()]) for reason in EndReason)
        return cls(
            task=task,
            episodes=metrics.total,
            successes=metrics.successes,
            failures=metrics.failures,
            infrastructure_failures=metrics.infrastructure_failures,
            steps=metrics.steps,
            seconds=metrics.throughput.episode_seconds,
            end_reasons={reason: number for reason, number in reasons if number},
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RolloutSummary:
    """Results of a whole rollout."""

    results: tuple[EpisodeResult, ...]
    """Result of every started episode, in the order in which they ended."""
    seconds: float
    """Duration of the rollout in seconds; of a resumed run, since it was resumed."""
    earlier: int = 0
    """How many of the results, the first ones, a resumed run had before."""
    judged: Judged | None = None
    """The judge's verdicts, if a judge was given. `results` keep the recorded outcomes."""
    proposed: Any = None
    """Proposed tasks, a `webtraj.exploring.Proposed`, if proposals were requested."""

    def __repr__(self) -> str:
        total = self.total
        return (
            f"<RolloutSummary: episodes={total.episodes}, tasks={len(self.tasks)}, "
            f"successes={total.successes}, failures={total.failures}, "
            f"infrastructure_failures={total.infrastructure_failures}, steps={total.steps}, "
            f"seconds={self.seconds:.1f}>"
        )

    @property
    def scored(self) -> RolloutSummary:
        """The summary with the judge's verdicts as outcomes, if there are any."""
        verdicts = {} if self.judged is None else self.judged.outcomes
        results = (
            dataclasses.replace(result, outcome=verdicts.get(result.episode_id, result.outcome))
            for result in self.results
        )
        return dataclasses.replace(self, results=tuple(results))

    @property
    def tasks(self) -> tuple[TaskSummary, ...]:
        """A summary of each task, sorted by name."""
        by_task: dict[str, list[EpisodeResult]] = {}
        for result in self.results:
            by_task.setdefault(result.task, []).append(result)
        return tuple(TaskSummary.of(task, by_task[task]) for task in sorted(by_task))

    @property
    def last_tries(self) -> tuple[EpisodeResult, ...]:
        """The try that counts for each row of the plan (`webtraj.store.tries`)."""
        return pick_counting(self.results)

    @property
    def total(self) -> TaskSummary:
        """A summary of all tasks together."""
        return TaskSummary.of("all", self.results)

    @property
    def errors(self) -> tuple[EpisodeResult, ...]:
        """The episodes that ended in an error."""
        return tuple(result for result in self.results if result.failed)

    @property
    def steps_per_second(self) -> float:
        """Steps per second of all workers together, without earlier results of a resumed run."""
        steps = sum(result.num_steps for result in self.results[self.earlier :])
        return steps / self.seconds if self.seconds else 0.0
