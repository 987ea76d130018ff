"""What metrics ask of one episode: what its summary or result says, and what its steps add.

Whatever an episode is known from, a summary of a dataset's index, a result of a rollout under way
or its whole record, becomes `EpisodeFacts` here, and metrics know nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from webtraj.rollouts.metrics.steps import StepFacts
from webtraj.rollouts.tasks.spec import TaskSpec
from webtraj.trajectory import EndReason, EpisodeTrajectory, Outcome

if TYPE_CHECKING:
    from webtraj.rollouts.plan import PlannedEpisode
    from webtraj.rollouts.results import EpisodeResult
    from webtraj.store.index import EpisodeSummary

__all__ = ["EpisodeFacts", "Origin"]


@dataclasses.dataclass(frozen=True, slots=True)
class Origin:
    """Where an episode comes from: a run's plan, which knows of its task what no record does."""

    run: str = ""
    """The run; empty if it is of none."""
    row: int = -1
    """The row of the run's plan."""
    number: int = 0
    """How many tries at that row there were before."""
    site: str = ""
    domain: str = ""
    difficulty: int = 0
    """How hard the task is, from 1; 0 if that is not known."""
    level: str = "unknown"
    """The same in a word."""

    @classmethod
    def of(cls, planned: PlannedEpisode, run: str, number: int) -> Origin:
        """Returns the origin that a row of a plan is."""
        spec = planned.spec
        return cls(
            run=run,
            row=planned.row,
            number=number,
            site=spec.site,
            domain=spec.domain,
            difficulty=spec.difficulty,
            level=spec.level,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFacts:
    """One episode, as metrics see it."""

    episode_id: str = ""
    task: str = ""
    policy: str = ""
    attempts_key: str = ""
    """What it has in common with the other attempts at its task."""
    outcome: Outcome = Outcome.UNKNOWN
    end_reason: EndReason = EndReason.UNKNOWN
    num_steps: int = 0
    reward: float | None = None
    """The total reward; None if the episode did not end by itself."""
    seconds: float | None = None
    """How long it took; None if that is not known."""
    start_time: float | None = None
    """In seconds since the epoch (UTC)."""
    end_time: float | None = None
    """In seconds since the epoch (UTC)."""
    origin: Origin = dataclasses.field(default_factory=Origin)
    steps: StepFacts | None = None
    """What its steps add; None if they were not read."""

    @property
    def task_group(self) -> str:
        """The task's domain where one is known, else what its name has before the last slash."""
        return self.origin.domain or self.task.rpartition("/")[0]

    @classmethod
    def of_result(cls, result: EpisodeResult, policy: str = "") -> EpisodeFacts:
        """Returns what a result of a rollout under way tells."""
        origin = Origin(row=result.row, number=result.number, site=result.site, level=result.level)
        return cls(
            episode_id=result.episode_id,
            task=result.task,
            policy=policy,
            attempts_key=result.task,
            outcome=result.outcome,
            end_reason=result.end_reason,
            num_steps=result.num_steps,
            reward=result.total_reward,
            seconds=result.seconds,
            origin=origin,
        )

    @classmethod
    def of_summary(cls, summary: EpisodeSummary, origin: Origin | None = None) -> EpisodeFacts:
        """Returns what a line of a dataset's index tells."""
        start, end = summary.start_time, summary.end_time
        known = Origin() if origin is None else origin
        return cls(
            episode_id=summary.episode_id,
            task=summary.task,
            policy=summary.policy,
            attempts_key=summary.group_id or f"{summary.policy}\0{summary.task}",
            outcome=summary.outcome,
            end_reason=summary.end_reason,
            num_steps=summary.num_steps,
            reward=_reward(summary.total_reward, summary.end_reason),
            seconds=None if start is None or end is None else max(end - start, 0.0),
            start_time=start,
            end_time=end,
            origin=known if known.site else dataclasses.replace(known, site=summary.site),
        )

    @classmethod
    def of_trajectory(
        cls, trajectory: EpisodeTrajectory, origin: Origin | None = None, *, steps: StepFacts
    ) -> EpisodeFacts:
        """Returns what a whole record tells; `steps` is what `steps.step_facts` says of it."""
        info = trajectory.info
        start, end = trajectory.start_time, trajectory.end_time
        return cls(
            episode_id=info.episode_id,
            task=info.task,
            policy=info.policy,
            attempts_key=info.group_id or f"{info.policy}\0{info.task}",
            outcome=trajectory.outcome,
            end_reason=trajectory.end_reason,
            num_steps=trajectory.num_steps,
            reward=_reward(trajectory.total_reward, trajectory.end_reason),
            seconds=None if start is None or end is None else max(end - start, 0.0),
            start_time=start,
            end_time=end,
            origin=_origin(trajectory, origin),
            steps=steps,
        )


def _reward(total: float, end_reason: EndReason) -> float | None:
    return total if end_reason in (EndReason.TERMINATED, EndReason.TRUNCATED) else None


def _origin(trajectory: EpisodeTrajectory, origin: Origin | None) -> Origin:
    """Returns where an episode comes from, as far as its record tells what no plan does."""
    info = trajectory.info
    if origin is not None:
        return origin if origin.site else dataclasses.replace(origin, site=info.site)
    place = _mapping(info.metadata.get("rollout"))
    task = _mapping(info.metadata.get("task"))
    # What a task's file said, in WebGym's words.
    spec = TaskSpec(
        name=info.task, difficulty=_number(task, "difficulty"), domain=_text(task, "domain")
    )
    return Origin(
        run=_text(place, "run"),
        row=_number(place, "row", -1),
        number=_number(place, "try") or int(bool(info.retry_of)),
        site=info.site,
        domain=spec.domain,
        difficulty=spec.difficulty,
        level=spec.level,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name, "")
    return value if isinstance(value, str) else ""


def _number(values: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = values.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
