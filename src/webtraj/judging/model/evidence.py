"""The evidence that the judge sees.

It consists of the task with its facts, the steps, the final answer, the screenshots, and page text
where there are no screenshots. The environment's verdict is hidden: rewards and the channel `info`
are left out.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from webtraj import errors
from webtraj.agents.contexts import cut_lines
from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.agents.models.messages import media_type
from webtraj.agents.models.structured_output import Quotes
from webtraj.environments.actions.recorded import describe, final_answer
from webtraj.environments.browser.recorded_channels import last_action_of
from webtraj.judging.model.case import Case, JudgeSettings, Question, spread
from webtraj.judging.model.prompts import Prompts
from webtraj.shown import one_line
from webtraj.trajectory import EndReason, EpisodeTrajectory, StepRecord

if TYPE_CHECKING:
    from webtraj.environments.tasks import TaskSpec

__all__ = ["Composer", "Evidence", "gather", "halve", "step_list"]

# An episode's steps as text: action, thought, result, error.


def step_list(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> str:
    """Return the steps as text, with details below each, and how the episode ended."""
    told = ["\n".join(_describe_step(step, settings)) for step in trajectory.steps]
    if (left_out := len(told) - settings.max_steps) > 0:
        first = (settings.max_steps + 1) // 2
        told[first : first + left_out] = [f"[... {left_out} steps left out]"]
    return "\n".join([*told, _end(trajectory, settings)])


def _describe_step(step: StepRecord, settings: JudgeSettings) -> Iterator[str]:
    longest = settings.step_characters
    seen = step.observation if isinstance(step.observation, Mapping) else {}
    last = last_action_of(seen)
    if step.first:
        yield f"Step {step.index}: the episode begins"
    else:
        done = one_line(describe(step.action), longest)
        yield f"Step {step.index}: {done}{_element(last, longest)}"
    decision = step.decision
    if decision is not None and decision.thought and settings.thoughts:
        yield f"  thought: {one_line(decision.thought, longest)}"
    if decision is not None and decision.parse_error:
        yield f"  not understood: {one_line(decision.parse_error, longest)}"
    if error := _text(last.get("error"), longest):
        yield f"  not done: {error}"
    url, title = (_text(seen.get(name), longest) for name in ("url", "title"))
    if url or title:
        yield f"  page: {' '.join(filter(None, [title, url and f'<{url}>']))}"
    status = seen.get("http_status")
    if isinstance(status, numbers.Integral) and int(status) >= 400:
        yield f"  the site answered with the HTTP status {status}"
    yield from (f"  dialog: {one_line(dialog, longest)}" for dialog in _texts(seen.get("dialogs")))


def _element(last: Mapping[str, Any], longest: int) -> str:
    role, name = (_text(last.get(field), longest) for field in ("role", "name"))
    if not role and not name:
        return ""
    return f" on {' '.join(filter(None, [role, name and f'{name!r}']))}"


def _text(value: Any, longest: int) -> str:
    """Return a channel's text as one line; empty if it is not text."""
    return one_line(value, longest) if isinstance(value, str) else ""


def _texts(values: Any) -> list[str]:
    if isinstance(values, (str, bytes)):
        return []
    try:
        return [str(value) for value in values][:10]
    except TypeError:
        return []


def _end(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> str:
    if trajectory.end_reason is EndReason.TRUNCATED:
        detail = trajectory.end.detail if trajectory.end else ""
        why = f": {one_line(detail, settings.step_characters)}" if detail else ""
        return f"Then the episode was cut off{why}"
    return "Then the episode was over"


_LEAST_OF_A_PAGE = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence about one episode."""

    goal: str = ""
    """The goal of the task."""
    facts: tuple[str, ...] = ()
    """The facts that must hold, each with its group's subject."""
    reference: str = ""
    """The reference answer; empty if there is none."""
    answer: str = ""
    """The agent's final answer; empty if it gave none."""
    steps: str = ""
    """The steps as text."""
    pages: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """The page text that is shown, by step index."""
    pictures: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    """The encoded pictures by step index, in order."""
    unreadable: tuple[int, ...] = ()
    """The steps whose picture is in a format that models do not take."""
    missing: str = ""
    """Why the episode cannot be judged; empty if it can."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All text in the evidence."""
        said = (self.goal, self.reference, self.answer, self.steps)
        return (*said, *self.facts, *self.pages.values())

    def case(self, settings: JudgeSettings) -> Case:
        """Return the case: what can be asked about it."""
        return Case(
            settings=settings,
            pictures=tuple(self.pictures),
            facts=self.facts,
            has_answer=bool(self.answer),
            has_reference=bool(self.reference),
        )


def gather(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> Evidence:
    """Return the evidence about an episode."""
    try:
        goal, facts, reference = _task(trajectory)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        return Evidence(
            missing=f"The task in the episode's metadata cannot be read ({error!r}); it has to be "
            "data of a TaskSpec."
        )
    pictures, unreadable = _pictures(trajectory.steps)
    evidence = Evidence(
        goal=goal or trajectory.info.goal or _find_goal(trajectory),
        facts=facts,
        reference=reference.strip(),
        answer=(final_answer(trajectory) or "").strip(),
        steps=step_list(trajectory, settings),
        pages=_pages(trajectory.steps, pictures, settings.page_characters),
        pictures=pictures,
        unreadable=unreadable,
    )
    return dataclasses.replace(evidence, missing=_find_gap(evidence))


def halve(
    evidence: Evidence, trajectory: EpisodeTrajectory, settings: JudgeSettings, times: int
) -> Evidence:
    """Return evidence with page text and steps halved a number of times.

    Args:
        evidence: The full evidence.
        trajectory: The episode that it was gathered from.
        settings: The settings that it was gathered with.
        times: The number of halvings; 0 for none.
    """
    if times == 0:
        return evidence
    shown = min(settings.max_steps, len(trajectory.steps))
    budget = min(settings.page_characters, sum(map(len, evidence.pages.values())))
    less = dataclasses.replace(settings, max_steps=max(1, shown >> times))
    return dataclasses.replace(
        evidence,
        steps=step_list(trajectory, less),
        pages=_pages(trajectory.steps, evidence.pictures, budget >> times),
    )


def _find_gap(evidence: Evidence) -> str:
    if not evidence.goal.strip() and not evidence.facts:
        return "The episode has no goal and its task no facts: there is nothing to judge it by."
    if not evidence.pictures and not evidence.pages and not evidence.answer:
        return (
            "The episode has no picture, no text of a page and no answer: there is nothing to "
            "judge. Record it with the channel 'screenshot', 'axtree' or 'text'."
        )
    return ""


def _task(trajectory: EpisodeTrajectory) -> tuple[str, tuple[str, ...], str]:
    """Return the goal, facts and reference answer of the recorded task; empty if there is none."""
    data = trajectory.info.metadata.get("task")
    if data is None:
        return "", (), ""
    from webtraj.environments.tasks import TaskSpec

    spec = TaskSpec.from_data(data)
    told = (spec.goal, tuple(_facts(spec)), spec.reference_answer)
    if not all(isinstance(text, str) for text in (told[0], *told[1], told[2])):
        raise TypeError("goal, facts and reference_answer are texts")
    return told


def _facts(spec: TaskSpec) -> Iterator[str]:
    for group in spec.facts:
        about = ": ".join(filter(None, [group.id, group.description]))
        for fact in group.facts:
            yield f"Of the group {about}\n{fact.description}" if about else fact.description


def _find_goal(trajectory: EpisodeTrajectory) -> str:
    goals = (_channel(step, "goal") for step in trajectory.steps)
    return next((goal for goal in goals if isinstance(goal, str) and goal), "")


def _channel(step: StepRecord, name: str) -> Any:
    return step.observation.get(name) if isinstance(step.observation, Mapping) else None


def _pictures(steps: Sequence[StepRecord]) -> tuple[dict[int, bytes], tuple[int, ...]]:
    pictures, unreadable = {}, []
    for step in steps:
        picture = _picture(step)
        if not picture:
            continue
        try:
            media_type(picture)
        except errors.InvalidInputError:
            unreadable.append(step.index)
        else:
            pictures[step.index] = picture
    return pictures, tuple(unreadable)


def _picture(step: StepRecord) -> bytes:
    marked = _channel(step, "set_of_marks")
    marked = marked.get("image") if isinstance(marked, Mapping) else None
    found = (_channel(step, "screenshot"), marked)
    return next((bytes(data) for data in found if isinstance(data, bytes) and data), b"")


def _pages(
    steps: Sequence[StepRecord], pictures: Mapping[int, bytes], budget: int
) -> dict[int, str]:
    """Return page text, last page first, until the budget is used up."""
    if not steps or steps[-1].index in pictures:
        return {}
    shown: dict[int, str] = {}
    following = ""
    for step in reversed(steps):
        text = _page_text(step)
        if text and text != following:
            if budget < _LEAST_OF_A_PAGE and shown:
                break
            shown[step.index], _ = cut_lines(text, budget, len)
            budget -= len(shown[step.index])
            following = text
        if pictures and shown:
            break  # Pictures show the rest.
    return dict(sorted(shown.items()))


def _page_text(step: StepRecord) -> str:
    texts = (_channel(step, name) for name in ("axtree", "text"))
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


# Composing conversations from questions and evidence.
# The order suits servers' prefix caches. The system message is the same for all episodes; evidence
# and pictures are the same for all criteria of an episode; the question comes last.

_LESS = "Of {of} screenshots there is room for {shown}; the others are left out."
_NO_ANSWER = "The agent gave no final answer."


class Composer:
    """Composes the conversations about one episode.

    Args:
        evidence: The evidence to show.
        prompts: The judge's prompts.
    """

    def __init__(self, evidence: Evidence, prompts: Prompts) -> None:
        self._evidence = evidence
        self._prompts = prompts
        self._quotes = Quotes.of(evidence.texts)
        self._task = "\n\n".join(self._about_task())
        self._all = "\n\n".join([self._task, *self._about_episode()])
        self._images = {index: Image(data) for index, data in evidence.pictures.items()}

    def messages(self, question: Question, halved: int = 0) -> tuple[Message, ...]:
        """Return the conversation that asks a question.

        Args:
            question: The question.
            halved: The number of times to halve the pictures, for models that cannot take all of
                them.
        """
        about = self._task if question.stage == "screenshots" else self._all
        parts: list[Part] = [Text(about)]
        shown = spread(question.pictures, max(1, len(question.pictures) >> halved))
        if len(shown) < len(question.pictures):
            parts.append(Text(_LESS.format(shown=len(shown), of=len(question.pictures))))
        for index in shown:
            parts += [Text(self._caption(index)), self._images[index]]
        parts.append(Text(self._prompts.ask(question.prompt, self._criterion(question))))
        return (Message.of("system", self._prompts.system), Message("user", tuple(parts)))

    def _about_task(self) -> Iterator[str]:
        yield self._quotes.block("task", self._evidence.goal)
        if self._evidence.facts:
            facts = [f"Fact {n}. {fact}" for n, fact in enumerate(self._evidence.facts, 1)]
            yield self._quotes.block("facts that have to hold", "\n".join(facts))
        yield self._answer() if self._evidence.answer else _NO_ANSWER

    def _about_episode(self) -> Iterator[str]:
        yield self._quotes.block("steps", self._evidence.steps)
        for index, text in self._evidence.pages.items():
            yield self._quotes.block(f"text of the page {_when(index)}", text)
        if not self._evidence.pictures:
            yield "There are no screenshots."

    def _answer(self) -> str:
        return self._quotes.block("final answer of the agent", self._evidence.answer)

    def _caption(self, index: int) -> str:
        last = index == max(self._images)
        return f"Screenshot {_when(index)}{', the last one' if last else ''}:"

    def _criterion(self, question: Question) -> str:
        """Return the part of the prompt that holds what is judged."""
        match question.prompt:
            case "fact":
                assert question.criterion is not None
                fact = self._evidence.facts[question.criterion]
                label = f"fact {question.criterion + 1}, which is to be judged"
                return self._quotes.block(label, fact)
            case "answer":
                return self._answer()
            case "goal":
                return self._quotes.block("task, which is to be judged", self._evidence.goal)
            case "reference":
                reference = self._quotes.block("reference answer", self._evidence.reference)
                return f"{reference}\n\n{self._answer()}"
        return ""


def _when(index: int) -> str:
    return f"after step {index}" if index else "at the beginning"
