"""Asking: one vote on one question, until there is a verdict or no use in asking on.

All calls are kept, in order. What a vote is follows from its calls alone, so that stored ones give
it again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence

from webtraj import errors
from webtraj.agents.models.base import Message, ModelClient, Sampling, Structure
from webtraj.judging.model import verdicts
from webtraj.judging.model.case import Vote
from webtraj.judging.model.prompts import Prompts
from webtraj.judging.model.settings import JudgeSettings
from webtraj.trajectory import ModelCall

__all__ = ["Asker", "sampling_of", "vote_of"]


def vote_of(calls: Sequence[ModelCall], words: Sequence[str]) -> Vote:
    """Returns the vote that calls have brought."""
    reason = "It was not asked."
    for call in calls:
        reading = verdicts.read_call(call, words)
        if reading.verdict:
            return Vote(reading.verdict, reading.reasoning)
        reason = call.error or reading.broken
    return Vote(reason=reason, lost=bool(calls and calls[-1].error))


def sampling_of(settings: JudgeSettings, words: Sequence[str], *, structured: bool) -> Sampling:
    """Returns how a verdict is sampled."""
    structure = Structure("json", verdicts.schema_of(words)) if structured else None
    return Sampling(
        temperature=settings.temperature, max_tokens=settings.max_tokens, structure=structure
    )


@dataclasses.dataclass(slots=True)
class Asker:
    """Asks the questions of one episode."""

    settings: JudgeSettings
    prompts: Prompts
    unstructured: set[int]
    """The ids of clients whose servers hold no reply to a form, as far as that is known. Shared."""
    turns: asyncio.Semaphore
    """Bounds the calls under way."""

    async def ask(
        self, client: ModelClient, messages: Sequence[Message], words: Sequence[str]
    ) -> tuple[ModelCall, ...]:
        """Asks for one vote; returns all calls that were made for it, the last one's last."""
        calls: list[ModelCall] = []
        structured = self.settings.structured and id(client) not in self.unstructured
        asked = messages
        retries = self.settings.retries
        while True:
            sampling = sampling_of(self.settings, words, structured=structured)
            try:
                async with self.turns:
                    call = await client.complete(asked, sampling, timeout=self.settings.timeout)
            except errors.ModelError as error:
                calls.append(error.call or ModelCall(error=str(error) or repr(error)))
                if not structured or not isinstance(error, errors.ModelRefusedError):
                    return tuple(calls)
                # Perhaps it is only the form that it does not take.
                structured = False
                continue
            calls.append(call)
            if self.settings.structured and not structured:
                self.unstructured.add(id(client))
            reading = verdicts.read_call(call, words)
            if reading.verdict or retries == 0:
                return tuple(calls)
            retries -= 1
            asked = _again(messages, self.prompts.ask_again(reading.broken))


def _again(messages: Sequence[Message], note: str) -> tuple[Message, ...]:
    # What was broken is not shown again: it may be what a page has made the model say.
    last = messages[-1]
    return (*messages[:-1], Message.of(last.role, *last.parts, note))
