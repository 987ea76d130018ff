"""Composing: questions about evidence as conversations.

The order serves the prefix caches of servers. The system message is the same for all episodes; what
follows, evidence and pictures, for all criteria of one; the question itself comes last.
"""

from __future__ import annotations

from collections.abc import Iterator

from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.asking.quoting import Quotes
from webtraj.judging.model.case import Question, spread
from webtraj.judging.model.evidence import Evidence
from webtraj.judging.model.prompts import Prompts

__all__ = ["Composer"]

_LESS = "Of {of} screenshots there is room for {shown}; the others are left out."
_NO_ANSWER = "The agent gave no final answer."


class Composer:
    """Composes the conversations about one episode.

    Args:
        evidence: What is shown.
        prompts: What the judge is told.
    """

    def __init__(self, evidence: Evidence, prompts: Prompts) -> None:
        self._evidence = evidence
        self._prompts = prompts
        self._quotes = Quotes.of(evidence.texts)
        self._task = "\n\n".join(self._about_task())
        self._all = "\n\n".join([self._task, *self._about_episode()])
        self._images = {index: Image(data) for index, data in evidence.pictures.items()}

    def messages(self, question: Question, halved: int = 0) -> tuple[Message, ...]:
        """Returns the conversation that asks a question.

        Args:
            question: The question.
            halved: How often its pictures are halved, for models that cannot take all of them.
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
        """Returns the block under judgement."""
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
