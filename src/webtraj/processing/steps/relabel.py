"""`relabel`: gives an episode the task that it actually achieved, in hindsight."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import pydantic

from webtraj.agents.models import structured_output
from webtraj.judging.base import is_judgeable
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import asker, options
from webtraj.processing.steps.difficulty import DIFFICULTY
from webtraj.trajectory import EpisodeTrajectory, Outcome, StepRecord

__all__ = ["RELABELLED", "Relabel", "derive_id", "for_goal", "of_any_goal"]

RELABELLED: Final = "relabelled"
"""Key in `EpisodeInfo.metadata` of the original task and how the episode was relabelled."""

_TASK_PREFIX = "hindsight/"
_ID_SUFFIX = ".hindsight"
_LONGEST_ID = 128
_LEAST_QUOTE = 4
_LEAST_OF_A_PAGE = 200
_OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)

_Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, max_length=2000)]


class _Hindsight(asker.ReplyForm):
    achieved: bool
    goal: _Text
    evidence: Annotated[list[_Text], pydantic.Field(max_length=10)]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Relabel(asker.AskingStep):
    """Asks a model which task an episode achieved, and makes an episode of that task.

    The model must quote its evidence from the steps and pages it sees; an answer whose evidence
    does not appear there verbatim (ignoring white space) is broken. A model's claim is not a
    success: the new episode's outcome is UNKNOWN until a judge has judged it.

    The new episode differs in id, goal (in observations too), task (`hindsight/<task>`), group,
    outcome and judgements. Rewards, which were for the old goal, are None. The channel `info`,
    which describes progress on the old task, is left out. The old values are in
    `metadata["relabelled"]`. Thoughts and recorded prompts still mention the old goal: train on
    such an episode by its observations, or rewrite its thoughts.

    Raises:
        InvalidInputError: There is no model, or an option is out of range.
    """

    name: str = dataclasses.field(default="relabel", init=False)
    version: str = dataclasses.field(default="2", init=False)
    needs_model: ClassVar[bool] = True
    outcomes: tuple[str, ...] = ("failure", "unknown")
    """The outcomes of episodes to relabel; others pass unchanged."""
    keep_original: bool = True
    """Whether to keep the original episode too. If not, an episode that achieved nothing is
    dropped."""
    page_characters: int = 12000
    """The most characters of pages to show; the last pages come first."""
    max_steps: int = 60
    """The number of last actions to show."""
    _asker: asker.Asker[_Hindsight] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options.put(self, _asker=asker.Asker(self, "relabel", _Hindsight))
        options.read_words(self, "outcomes")
        for outcome in self.outcomes:
            options.choice(self.name, "outcomes", outcome, _OUTCOMES)
        options.check_flags(self)
        options.check_number(self.name, "page_characters", self.page_characters, least=100)
        options.check_number(self.name, "max_steps", self.max_steps, least=1)

    async def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Return the episode and its relabelled copy.

        Raises:
            ModelError: The model gave no usable answer.
        """
        if (
            trajectory.outcome.name.lower() not in self.outcomes
            or RELABELLED in trajectory.info.metadata
            or not is_judgeable(trajectory)
            or not trajectory.num_steps
        ):
            return trajectory
        steps = "\n".join(asker.step_lines(trajectory.steps)[-self.max_steps :])
        pages = _pages(trajectory.steps, self.page_characters)
        shown = structured_output.quote(
            {
                "task": ("task", asker.goal_of(trajectory) or "It is not known."),
                "steps": ("steps", steps),
                "pages": ("pages", pages),
            }
        )
        seen = _squeeze(f"{structured_output.defuse(steps)}\n{structured_output.defuse(pages)}")
        reply, _ = await self._asker.ask(shown, check=lambda reply: _fault_of(reply, seen))
        if not reply.achieved:
            return trajectory if self.keep_original else Drop("nothing achieved")
        made = _relabel(trajectory, reply, self._asker.model)
        result = self._asker.make_changed(made, goal=made.info.goal, evidence=list(reply.evidence))
        if self.keep_original:
            result = dataclasses.replace(result, trajectories=(trajectory, made))
        return result


def _fault_of(reply: _Hindsight, seen: str) -> str:
    """Return why an answer is unusable; empty if it is usable."""
    if not reply.achieved:
        contradicts = reply.goal or reply.evidence
        return "It says that nothing was achieved, and yet what was." if contradicts else ""
    if not reply.goal or not reply.evidence:
        return "It has no goal, or no evidence."
    for quote in map(_squeeze, reply.evidence):
        if len(quote) < _LEAST_QUOTE or quote not in seen:
            return "Not all of its evidence stands in the blocks, letter by letter."
    return ""


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _pages(steps: Sequence[StepRecord], budget: int) -> str:
    """Return the last pages that fit, in order."""
    shown: list[str] = []
    following = ""
    for step in reversed(steps):
        text = asker.page_text(step.observation, max(budget, 1))
        if text != following:
            when = f"After step {step.index}" if step.index else "At the beginning"
            shown.append(f"{when}: {text}")
            budget -= len(text)
            following = text
        if budget < _LEAST_OF_A_PAGE:
            break
    return "\n\n".join(reversed(shown))


def _relabel(trajectory: EpisodeTrajectory, reply: _Hindsight, model: str) -> EpisodeTrajectory:
    info = trajectory.info
    goal = _squeeze(reply.goal)
    metadata = of_any_goal(info.metadata)
    metadata[RELABELLED] = {
        "episode_id": info.episode_id,
        "task": info.task,
        "goal": asker.goal_of(trajectory),
        "spec": info.metadata.get("task"),
        "group_id": info.group_id,
        "outcome": trajectory.outcome.name.lower(),
        "rewards": [step.reward for step in trajectory.steps],
        "evidence": list(reply.evidence),
        "model": model,
    }
    made_info = dataclasses.replace(
        info,
        episode_id=derive_id(info.episode_id, _ID_SUFFIX),
        task=f"{_TASK_PREFIX}{info.task}",
        goal=goal,
        group_id="",
        metadata=metadata,
    )
    assert trajectory.end is not None
    end = dataclasses.replace(trajectory.end, outcome=Outcome.UNKNOWN, judgements=())
    steps = tuple(for_goal(step, goal) for step in trajectory.steps)
    return dataclasses.replace(trajectory, info=made_info, steps=steps, end=end)


def of_any_goal(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return an episode's metadata without what is about its task."""
    return {key: value for key, value in metadata.items() if key not in ("task", DIFFICULTY)}


def for_goal(step: StepRecord, goal: str) -> StepRecord:
    """Return a step with another goal, without anything about the old goal's progress.

    It has no reward, since a reward of 0 would be a verdict.
    """
    observation = step.observation
    if isinstance(observation, Mapping):
        observation = {name: value for name, value in observation.items() if name != "info"}
        if "goal" in observation:
            observation["goal"] = goal
    return dataclasses.replace(step, observation=observation, reward=None)


def derive_id(episode_id: str, suffix: str) -> str:
    """Return a deterministic id for an episode made from another."""
    made = f"{episode_id}{suffix}"
    if len(made) <= _LONGEST_ID:
        return made
    digest = hashlib.sha256(episode_id.encode()).hexdigest()[:16]
    return f"{episode_id[: _LONGEST_ID - len(suffix) - 17]}-{digest}{suffix}"
