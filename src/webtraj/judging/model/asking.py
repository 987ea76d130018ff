"""Asking: one vote on one question, shown less where a model cannot take it all.

What a vote is follows from its calls alone, so that stored ones give it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from webtraj import asking, errors
from webtraj.agents.models.base import Message, ModelClient, Sampling, Structure
from webtraj.judging.model import verdicts
from webtraj.judging.model.case import Question, Vote
from webtraj.judging.model.prompts import Prompts
from webtraj.judging.model.settings import JudgeSettings
from webtraj.trajectory import ModelCall

__all__ = ["Ask", "Asker", "Compose", "vote_of"]

Compose = Callable[[Question, int], Sequence[Message]]
"""Makes the conversation that asks a question, with what can be shown less halved so many times.
An empty one if there is none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A call that was made for a vote."""

    call: ModelCall
    halved: int = 0
    """How often what was shown had been halved."""
    unanswered: bool = False
    """Whether its model was away or refused, so that there is no vote: the next time may be
    another. A conversation that is too long is too long each time."""


def vote_of(calls: Sequence[ModelCall], words: Sequence[str]) -> Vote:
    """Returns the vote that calls have brought."""
    reason = "It was not asked."
    for call in calls:
        reading = verdicts.read_call(call, words)
        if reading.value is not None:
            return Vote(reading.value.word, reading.value.reasoning)
        reason = call.error or reading.broken
    return Vote(reason=reason, lost=bool(calls and calls[-1].error))


@dataclasses.dataclass(frozen=True, slots=True)
class Asker:
    """Asks questions."""

    settings: JudgeSettings
    prompts: Prompts
    forms: asking.Forms
    """What is known of the clients. Shared."""

    async def ask(
        self, client: ModelClient, question: Question, compose: Compose
    ) -> tuple[Ask, ...]:
        """Asks for one vote; returns all calls that were made for it, the last one's last.

        A conversation that is too long for the model is asked again with half of it, a few times.
        """
        words = self.prompts.words[question.prompt]
        asks: list[Ask] = []
        shown: Sequence[Message] = ()
        for halved in range(self.settings.halvings + 1):
            messages = compose(question, halved)
            if not messages or messages == shown:
                continue  # This is no less than before.
            answer = await asking.ask(
                client,
                messages,
                lambda call: verdicts.read_call(call, words),
                sampling=self._sampling(words),
                again=self.prompts.ask_again,
                attempts=self.settings.retries + 1,
                timeout=self.settings.timeout,
                forms=self.forms,
            )
            asks += [Ask(call, halved) for call in answer.calls]
            if not isinstance(answer.error, errors.ContextOverflowError):
                asks[-1] = dataclasses.replace(asks[-1], unanswered=answer.error is not None)
                break
            shown = messages
        return tuple(asks)

    def _sampling(self, words: Sequence[str]) -> Sampling:
        structure = Structure("json", verdicts.schema_of(words))
        return Sampling(
            temperature=self.settings.temperature,
            max_tokens=self.settings.max_tokens,
            structure=structure if self.settings.structured else None,
        )
