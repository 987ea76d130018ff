"""Asking a model from a step: a prompt's question in, a parsed reply or an error out.

A broken reply (`agents.models.structured_output`), or one that fails the step's own check, is
retried and finally raises an error. So a step only ever records a complete answer.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import pydantic

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.contexts import cut_lines
from webtraj.agents.models import structured_output
from webtraj.agents.models.base import Image, Message, ModelClient, Sampling, Structure
from webtraj.agents.models.structured_output import Reading
from webtraj.environments.browser.observation import changes_between
from webtraj.environments.browser.recorded_channels import last_action_of, text_of
from webtraj.processing.base import Changed
from webtraj.processing.steps import observations, options
from webtraj.processing.steps.prompts import load_prompt
from webtraj.shown import one_line
from webtraj.trajectory import EpisodeTrajectory, ModelCall, StepRecord

__all__ = [
    "Asker",
    "AskingStep",
    "ReplyForm",
    "changes_text",
    "goal_of",
    "page_text",
    "picture_of",
    "read_reply",
    "step_lines",
]

# Describing an episode to a model: its task, steps and pages as text.

_line = functools.partial(one_line, longest=300)


def goal_of(trajectory: EpisodeTrajectory) -> str:
    """Return the goal, from the episode or from its first observations."""
    if trajectory.info.goal:
        return trajectory.info.goal
    goals = (text_of(step.observation, "goal") for step in trajectory.steps)
    return next(filter(None, goals), "")


def step_lines(steps: Sequence[StepRecord]) -> list[str]:
    """Return one line per action: the action, its target and any error."""
    lines = []
    before: Any = None
    for step in steps:
        if not step.first:
            lines.append(f"Step {step.index}: {_line(_describe_deed(before, step))}")
        before = step.observation
    return lines


def page_text(observation: Any, characters: int) -> str:
    """Return a page as text, cut to fit: its URL and title, then its lines."""
    url = text_of(observation, "url")
    title = text_of(observation, "title")
    head = " ".join(filter(None, [_line(title), f"<{_line(url)}>" if url else ""]))
    tree = text_of(observation, "axtree") or text_of(observation, "text")
    body, _ = cut_lines(tree, characters, len)
    return "\n".join(filter(None, [head, body])) or "There is no text of the page."


def changes_text(before: Any, after: Any, characters: int) -> str:
    """Return the changes on a page as text, cut to fit."""
    old, new = (text_of(one, "axtree") for one in (before, after))
    lines = changes_between(old, new) if old or new else []
    urls = [text_of(one, "url") for one in (before, after)]
    if urls[0] != urls[1]:
        lines.insert(0, f"The page is now <{_line(urls[1])}>.")
    if error := last_action_of(after).get("error"):
        lines.insert(0, f"The action was not done: {_line(str(error))}")
    text, _ = cut_lines("\n".join(lines), characters, len)
    return text or "Nothing that is seen."


def picture_of(observation: Any) -> bytes:
    """Return the page's picture; empty if there is none."""
    for found in (
        observations.channel(observation, "screenshot"),
        observations.channel(observations.channel(observation, "set_of_marks"), "image"),
    ):
        if isinstance(found, bytes):
            return found
    return b""


def _describe_deed(before: Any, step: trajectory_lib.StepRecord) -> str:
    element = observations.element_of(before, step)
    on = (
        f" on {element.role} {json.dumps(element.name, ensure_ascii=False)}" if element.role else ""
    )
    error = last_action_of(step.observation).get("error", "")
    return (
        f"{observations.format_action_of(step.action)}{on}{f'; not done: {error}' if error else ''}"
    )


_AGAIN = (
    "Your last reply could not be used: ${broken} Reply with one JSON object of the members that "
    "were asked for, and nothing else."
)
_NO_MODEL = (
    "The step {step!r} needs a model; give it a client, or name a model: "
    "--model NAME --base-url URL."
)
_NO_ANSWER = "The model {model!r} gave no usable answer in {times} attempts: {broken}"


class ReplyForm(pydantic.BaseModel):
    """The members of a reply: all are required, with exact types, and no others are allowed."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


_Form = TypeVar("_Form", bound=ReplyForm)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskingStep(options.PlainStep):
    """The options of a step that asks a model."""

    name: str = dataclasses.field(default="", init=False)
    client: ModelClient | None = dataclasses.field(default=None, repr=False)
    """The model. It is not closed."""
    attempts: int = 3
    """The number of attempts to get a usable reply."""
    timeout: float = 120.0
    """The time limit of one call, in seconds."""
    max_tokens: int = 1024
    """The maximum length of a reply, in tokens."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings, as plain data."""
        model = "" if self.client is None else self.client.name
        return {**options.settings_of(self), "model": model}


class Asker(Generic[_Form]):
    """Asks one prompt's question. Concurrent tasks share one asker.

    Args:
        step: The step that asks.
        prompt: The name of the prompt.
        form: The form of valid replies.

    Raises:
        InvalidInputError: The step has no client, or an option is out of range.
    """

    def __init__(self, step: AskingStep, prompt: str, form: type[_Form]) -> None:
        if step.client is None:
            raise errors.InvalidInputError(_NO_MODEL.format(step=step.name))
        options.check_number(step.name, "attempts", step.attempts, least=1, most=20)
        options.check_number(step.name, "timeout", step.timeout, least=0.001, whole=False)
        options.check_number(step.name, "max_tokens", step.max_tokens, least=1)
        self.model = step.client.name
        """The model's name."""
        self.prompt = load_prompt(prompt)
        """The prompt."""
        self._client = step.client
        self._form = form
        self._attempts = step.attempts
        self._timeout = step.timeout
        self._forms = structured_output.Forms()
        self._sampling = Sampling(
            temperature=0.0,
            max_tokens=step.max_tokens,
            structure=Structure("json", form.model_json_schema()),
        )

    def make_changed(self, *made: EpisodeTrajectory, **changes: Any) -> Changed:
        """Return a result that the model was asked for."""
        sha256 = self.prompt.sha256
        return Changed(made, changes, model=self.model, prompt_sha256=sha256)

    async def ask(
        self,
        fields: Mapping[str, str],
        pictures: Sequence[bytes] = (),
        check: Callable[[_Form], str] = lambda reply: "",
    ) -> tuple[_Form, ModelCall]:
        """Return the model's answer and its call.

        Args:
            fields: The values for the question's placeholders.
            pictures: The encoded pictures to show before the question.
            check: A function that returns why a well-formed answer is unusable; empty if it is
                usable.

        Raises:
            ModelError: No reply was usable; its `call` is the last one.
        """
        shown = [Image(picture) for picture in pictures]
        messages = (
            Message.of("system", self.prompt.system),
            Message.of("user", *shown, self.prompt.ask(fields)),
        )

        def read(call: ModelCall) -> Reading[_Form]:
            reading = read_reply(call, self._form)
            broken = "" if reading.value is None else check(reading.value)
            return Reading(broken=broken) if broken else reading

        answer = await structured_output.ask(
            self._client,
            messages,
            read,
            sampling=self._sampling,
            again=lambda broken: _AGAIN.replace("${broken}", broken),
            attempts=self._attempts,
            timeout=self._timeout,
            forms=self._forms,
        )
        if answer.error is not None:
            raise answer.error
        if answer.value is None:
            error = errors.ModelError(
                _NO_ANSWER.format(model=self.model, times=self._attempts, broken=answer.broken)
            )
            error.call = answer.calls[-1]
            raise error
        return answer.value, answer.calls[-1]


def read_reply(call: ModelCall, form: type[_Form]) -> Reading[_Form]:
    """Read a call's reply."""
    reading = structured_output.object_of(call)
    if reading.value is None:
        return Reading(broken=reading.broken)
    try:
        return Reading(form.model_validate(reading.value))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        return Reading(broken=f"The member {where!r:.100} is wrong: {first['msg']:.200}.")
