"""The result of each episode of a rollout, the summary of all, and who looks on meanwhile."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from webtraj.rollouts.plan import PlannedEpisode
from webtraj.trajectory import AGENT_FAILURES, EndReason, Outcome

if TYPE_CHECKING:
    from webtraj.exploring.proposing import Proposed
    from webtraj.rollouts.judging import Judged
    from webtraj.rollouts.plan import PlannedEpisode
    from webtraj.store.index import EpisodeSummary

__all__ = [
    "EpisodeResult",
    "NullRolloutObserver",
    "RolloutObserver",
    "RolloutSummary",
    "TaskSummary",
    "TeeRolloutObserver",
]


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


# Looking on while a rollout runs: progress bars, live pages, counters.


class RolloutObserver(Protocol):
    """Is told what happens in a rollout, in the event loop: it must neither wait nor raise."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """The rollout is about to begin."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """An episode ended, however it did. Called once for each episode that was begun."""


class NullRolloutObserver:
    """Looks away."""

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Does nothing."""

    def episode_ended(self, result: EpisodeResult) -> None:
        """Does nothing."""


class TeeRolloutObserver:
    """Tells several observers, in order."""

    def __init__(self, *observers: RolloutObserver) -> None:
        self._observers = observers

    def rollout_planned(self, plan: Sequence[PlannedEpisode]) -> None:
        """Tells each of them."""
        for observer in self._observers:
            observer.rollout_planned(plan)

    def episode_ended(self, result: EpisodeResult) -> None:
        """Tells each of them."""
        for observer in self._observers:
            observer.episode_ended(result)


# What came of a rollout: counts, and the rates that follow from them.


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
