"""Asking a model for one JSON object, and taking nothing else for an answer.

A reply that is cut, refused, malformed, or fails its step's own check is asked for again, and then
an error. So what a step writes down is always a whole answer. What is quoted stands in blocks that
cannot speak for the step (`webtraj.judging.model.quoting`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar

import pydantic

from webtraj import errors
from webtraj.agents.models.base import Image, Message, ModelClient, Part, Sampling, Structure
from webtraj.processing.steps import options
from webtraj.processing.steps.prompts import Prompt
from webtraj.trajectory import ModelCall

__all__ = ["Asker", "ReplyForm", "all_of", "check_model_options", "read_reply"]

_COMPLETE = frozenset({"stop", "end_turn", "eos_token", "stop_sequence"})
"""The finish reasons of replies that a model has ended itself."""
_LONGEST = 100_000
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_AGAIN = (
    "Your last reply could not be used: ${broken} Reply with one JSON object of the members that "
    "were asked for, and nothing else."
)
_NO_MODEL = (
    "The step {step!r} asks a model, and was given none; give it a client, or name a model: "
    "--model NAME --model-url URL."
)
_NO_ANSWER = "The model {model!r} gave no answer that can be used, asked {times} times: {broken}"


class ReplyForm(pydantic.BaseModel):
    """The members that a reply has: all of them, no others, of exactly their types."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


_Form = TypeVar("_Form", bound=ReplyForm)
_T = TypeVar("_T")


def check_model_options(step: Any) -> None:
    """Checks what all steps that ask a model are told: client, attempts, timeout, max_tokens.

    Raises:
        InvalidInputError: There is no client, or an option is out of its range.
    """
    if step.client is None:
        raise errors.InvalidInputError(_NO_MODEL.format(step=step.name))
    options.check_number(step.name, "attempts", step.attempts, least=1, most=20)
    options.check_number(step.name, "timeout", step.timeout, least=0.001, whole=False)
    options.check_number(step.name, "max_tokens", step.max_tokens, least=1)


class Asker(Generic[_Form]):
    """Asks one prompt's question. Shared by tasks that run at the same time.

    Args:
        client: The model.
        prompt: What it is told.
        form: What its replies must be.
        attempts: How often a reply that cannot be used is asked for, in all.
        timeout: Seconds that one call may take.
        max_tokens: The longest reply.
    """

    def __init__(
        self,
        client: ModelClient,
        prompt: Prompt,
        form: type[_Form],
        *,
        attempts: int,
        timeout: float,
        max_tokens: int,
    ) -> None:
        self._client = client
        self._prompt = prompt
        self._form = form
        self._attempts = attempts
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._structured = True

    async def ask(
        self,
        fields: Mapping[str, str],
        pictures: Sequence[bytes] = (),
        check: Callable[[_Form], str] = lambda reply: "",
    ) -> tuple[_Form, ModelCall]:
        """Returns the model's answer, and the call that brought it.

        Args:
            fields: What is filled in in the question.
            pictures: What is shown before it, encoded.
            check: Returns why an answer of the right form cannot be used; empty if it can.

        Raises:
            ModelError: There was none that can be used; its `call` is the last one.
        """
        question = self._prompt.ask(fields)
        shown = [Image(picture) for picture in pictures]
        asked: list[str | Part] = [*shown, question]
        system = Message.of("system", self._prompt.system)
        attempt = 0
        while True:
            call = await self._complete((system, Message.of("user", *asked)))
            attempt += 1
            reply, broken = read_reply(call, self._form)
            if reply is not None and not (broken := check(reply)):
                return reply, call
            if attempt >= self._attempts:
                error = errors.ModelError(
                    _NO_ANSWER.format(model=self._client.name, times=attempt, broken=broken)
                )
                error.call = call
                raise error
            # What was broken is not shown again: it may be what a page made the model say.
            asked = [*shown, question, _AGAIN.replace("${broken}", broken)]

    async def _complete(self, messages: Sequence[Message]) -> ModelCall:
        structured = self._structured
        try:
            return await self._client.complete(
                messages, self._sampling(structured), timeout=self._timeout
            )
        except errors.ModelRefusedError:
            if not structured:
                raise
        # Perhaps it is only the form that the server does not take.
        call = await self._client.complete(messages, self._sampling(False), timeout=self._timeout)
        self._structured = False
        return call

    def _sampling(self, structured: bool) -> Sampling:
        structure = Structure("json", self._form.model_json_schema()) if structured else None
        return Sampling(temperature=0.0, max_tokens=self._max_tokens, structure=structure)


def read_reply(call: ModelCall, form: type[_Form]) -> tuple[_Form | None, str]:
    """Returns what a call brought; or None, and why it cannot be used.

    The reply is one JSON object, with white space and one code fence around it at most. Members
    that are named twice are as broken as those that are missing or surplus.
    """
    if call.finish_reason not in _COMPLETE:
        return None, f"It is not complete: its finish reason is {call.finish_reason!r:.50}."
    text = call.text.strip(" \t\r\n")
    if not text:
        return None, "It is empty."
    if len(text) > _LONGEST:
        return None, f"It is longer than {_LONGEST} characters."
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    try:
        # JSON can say halves of characters, which no file can hold.
        text.encode()
        data = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
        json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None, "It is not one JSON object."
    try:
        return form.model_validate(data), ""
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "it"
        return None, f"The member {where!r:.100} is wrong: {first['msg']:.200}."


async def all_of(jobs: Sequence[Callable[[], Awaitable[_T]]], parallel: int) -> list[_T]:
    """Returns the results of some jobs, at most `parallel` of them at once.

    The first that fails ends the others, and its error is raised.
    """
    turns = asyncio.Semaphore(parallel)

    async def one(job: Callable[[], Awaitable[_T]]) -> _T:
        async with turns:
            return await job()

    tasks = [asyncio.ensure_future(one(job)) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
