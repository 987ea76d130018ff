"""`grade-difficulty`: grades the difficulty of an episode's task."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

from webtraj import errors
from webtraj.agents.models import structured_output
from webtraj.processing.base import Changed
from webtraj.processing.steps import asker, options
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory

__all__ = ["DIFFICULTY", "GradeDifficulty"]

DIFFICULTY = "difficulty"
"""Key in `EpisodeInfo.metadata`: `score`, `level` (easy, medium, hard), and `by` whom."""


class _Grade(asker.ReplyForm):
    reason: Annotated[
        str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)
    ]
    difficulty: Annotated[int, pydantic.Field(ge=1, le=10)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GradeDifficulty(asker.AskingStep):
    """Writes `EpisodeInfo.metadata["difficulty"]`: a score and WebGym's level for it.

    The score is the task's own or, as in WebGym, the number of its facts. If the task has neither,
    the model grades the goal; without a model, the episode stays unchanged. Episodes that already
    have a grade keep it.

    Raises:
        InvalidInputError: An option is out of range.
    """

    name: str = dataclasses.field(default="grade-difficulty", init=False)
    version: str = dataclasses.field(default="1", init=False)
    max_tokens: int = 512
    """The maximum length of a reply, in tokens."""
    _asker: asker.Asker[_Grade] | None = dataclasses.field(
        init=False, repr=False, compare=False, default=None
    )

    def __post_init__(self) -> None:
        if self.client is not None:
            options.put(self, _asker=asker.Asker(self, "difficulty", _Grade))

    async def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed:
        """Return the episode with its task's difficulty.

        Raises:
            ModelError: The model gave no grade.
            InvalidInputError: The recorded task cannot be read.
        """
        if DIFFICULTY in trajectory.info.metadata:
            return trajectory
        score = _read_score(trajectory.info)
        if score:
            return _add_grade(trajectory, {"score": score, "by": "task"})
        goal = asker.goal_of(trajectory)
        if self._asker is None or not goal:
            return trajectory
        shown = structured_output.quote({"task": ("task", goal)})
        reply, _ = await self._asker.ask(shown)
        by = self._asker.model
        graded = _add_grade(
            trajectory, {"score": reply.difficulty, "by": by, "reason": reply.reason}
        )
        return self._asker.make_changed(*graded.trajectories, **graded.changes)


def _read_score(info: EpisodeInfo) -> int:
    """Return the task's own score; 0 if it has none."""
    data = info.metadata.get("task")
    if data is None:
        return 0
    from webtraj.environments.tasks import TaskSpec

    try:
        spec = TaskSpec.from_data(data)
        return spec.difficulty or sum(len(group.facts) for group in spec.facts)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise errors.InvalidInputError(
            f"The task in the metadata of the episode {info.episode_id!r} cannot be read "
            f"({error!r:.200}); expected data of a TaskSpec."
        ) from error


def _add_grade(trajectory: EpisodeTrajectory, grade: Mapping[str, Any]) -> Changed:
    from webtraj.environments.tasks import TaskSpec

    level = TaskSpec(name="graded", difficulty=grade["score"]).level
    grade = {"level": level, **grade}
    metadata = {**trajectory.info.metadata, DIFFICULTY: grade}
    info = dataclasses.replace(trajectory.info, metadata=metadata)
    return Changed((dataclasses.replace(trajectory, info=info),), {DIFFICULTY: grade})
