"""The transcript: which of a judgement's calls was made for which vote on which question.

It is stored in the findings, with an entry for each model call, in order. With the case, which
stands beside it, it is all that a verdict depends on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Role, Text
from webtraj.judging.model.asking import Ask, vote_of
from webtraj.judging.model.case import Answered, Case, Question
from webtraj.trajectory import Judgement, ModelCall

__all__ = ["Recorded", "Transcript", "messages_of"]

_ROLES: tuple[Role, ...] = ("system", "user", "assistant")


@dataclasses.dataclass(slots=True)
class Transcript:
    """A transcript that is being made."""

    calls: list[ModelCall] = dataclasses.field(default_factory=list)
    """All calls, in the order of questions, votes and attempts."""
    entries: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Of each call: the question's key, the vote's number and the words that were asked for; and,
    if what was shown had been halved, how often."""
    unanswered: list[str] = dataclasses.field(default_factory=list)
    """The keys of questions with a vote that was lost since its model was away or refused."""

    def add(
        self, question: Question, words: Sequence[str], votes: Sequence[Sequence[Ask]]
    ) -> Answered:
        """Adds the calls of each vote on a question; returns what they say."""
        for number, asks in enumerate(votes):
            self.calls += [ask.call for ask in asks]
            for ask in asks:
                entry = {"question": question.key, "vote": number, "words": list(words)}
                self.entries.append({**entry, "halved": ask.halved} if ask.halved else entry)
        if any(ask.unanswered for asks in votes for ask in asks):
            self.unanswered.append(question.key)
        said = (vote_of([ask.call for ask in asks], words) for asks in votes)
        return Answered(question, tuple(said))


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """A transcript that was stored."""

    case: Case
    """What was judged."""
    calls: Mapping[tuple[str, int], tuple[ModelCall, ...]]
    """The calls by question and vote."""
    words: Mapping[str, tuple[str, ...]]
    """The words that each question asked for."""
    first: Mapping[tuple[str, int], ModelCall]
    """The first call on each question by how often what was shown had been halved."""

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """Returns the transcript of a judgement.

        Raises:
            InvalidInputError: It has none that can be read.
        """
        calls: dict[tuple[str, int], tuple[ModelCall, ...]] = {}
        words: dict[str, tuple[str, ...]] = {}
        first: dict[tuple[str, int], ModelCall] = {}
        try:
            case = Case.from_data(judgement.findings["case"])
            entries = judgement.findings["transcript"]
            for entry, call in zip(entries, judgement.model_calls, strict=True):
                key = (str(entry["question"]), int(entry["vote"]))
                calls[key] = (*calls.get(key, ()), call)
                words[key[0]] = tuple(map(str, entry["words"]))
                first.setdefault((key[0], int(entry.get("halved", 0))), call)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.InvalidInputError(
                f"The judgement by {judgement.judge!r}, version {judgement.version!r}, has no "
                f"transcript that can be read ({error!r}); only those of the model judge have one."
            ) from error
        return cls(case, calls, words, first)

    def answered(self, question: Question) -> Answered:
        """Returns the votes on a question. What is not on record was not asked."""
        words = self.words.get(question.key, ())
        votes = (self.calls.get((question.key, number), ()) for number in range(question.votes))
        return Answered(question, tuple(vote_of(calls, words) for calls in votes))

    def messages(self, question: Question, halved: int = 0) -> tuple[Message, ...]:
        """Returns the conversation that asked a question first; empty if none is on record.

        Args:
            question: The question.
            halved: How often what was shown had been halved.
        """
        call = self.first.get((question.key, halved))
        return () if call is None else messages_of(call)


def messages_of(call: ModelCall) -> tuple[Message, ...]:
    """Returns the conversation that a call recorded, in whichever provider's shape.

    Raises:
        InvalidInputError: There is something else in it than texts and pictures.
    """
    return tuple(map(_message, call.messages))


def _message(message: Any) -> Message:
    try:
        role, content = message["role"], message["content"]
        if role not in _ROLES:
            raise ValueError(f"role {role!r}")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return Message(role, tuple(map(_part, parts)))
    except (KeyError, TypeError, ValueError) as error:
        raise errors.InvalidInputError(
            f"A recorded message cannot be asked again ({error!r}); expected texts and pictures."
        ) from error


def _part(part: Any) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": bytes(data)}}:
            return Image(data)
        case {"type": "image", "source": {"data": bytes(data)}}:
            return Image(data)
    raise ValueError("a part of another kind")
