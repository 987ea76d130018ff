"""Votes on questions: reading them from calls, and storing them.

A vote depends only on its calls, so stored calls give the same vote again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from webtraj import errors
from webtraj.agents.models.base import (
    Image,
    Message,
    Part,
    Role,
    Text,
)
from webtraj.agents.models.structured_output import Reading, object_of, read_object
from webtraj.judging.model.case import Answered, Case, Question, Vote
from webtraj.trajectory import Judgement, ModelCall

__all__ = [
    "Ask",
    "Compose",
    "Recorded",
    "Transcript",
    "Verdict",
    "messages_of",
    "read_call",
    "read_reply",
    "schema_of",
    "vote_of",
]

# Parsing replies into verdicts.
# A verdict is one JSON object (`agents.models.structured_output`) with exactly two members::
#
#     {"reasoning": "The page says that the order was placed.", "verdict": "success"}
# A reply with other words, other letter case, or missing or extra members is broken. So is one
# whose reasoning states a different verdict.

_STATED = re.compile(
    r"""\bverdict\b["'*]*\s*(?:[:=]|\bis\b)\s*["'*]*(not\s+)?["'*]*([a-z]+)""", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """A parsed reply."""

    word: str
    """One of the allowed words."""
    reasoning: str
    """The model's reasoning."""


def schema_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of a verdict, using only keywords that every server supports."""
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": list(words)},
        },
        "required": ["reasoning", "verdict"],
        "additionalProperties": False,
    }


def read_call(call: ModelCall, words: Sequence[str]) -> Reading[Verdict]:
    """Read the verdict from a call."""
    return _verdict_of(object_of(call), words)


def read_reply(text: str, words: Sequence[str]) -> Reading[Verdict]:
    """Read the verdict from a complete reply.

    >>> words = ("success", "failure", "unclear")
    >>> read_reply('{"reasoning": "It is there.", "verdict": "success"}', words).value
    Verdict(word='success', reasoning='It is there.')
    >>> read_reply("SUCCESS", words).broken
    'The reply is not one JSON object.'

    Args:
        text: The reply.
        words: The allowed verdicts.
    """
    return _verdict_of(read_object(text), words)


def _verdict_of(reading: Reading[dict[str, Any]], words: Sequence[str]) -> Reading[Verdict]:
    if reading.value is None:
        return Reading(broken=reading.broken)
    data: Mapping[str, Any] = reading.value
    if set(data) != {"reasoning", "verdict"}:
        return Reading(broken='The reply has not exactly the members "reasoning" and "verdict".')
    reasoning, verdict = data["reasoning"], data["verdict"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        return Reading(broken="The reasoning is empty or not text.")
    if verdict not in words:
        return Reading(broken=f"The verdict is none of {', '.join(words)}.")
    if _contradicts(reasoning, verdict, words):
        return Reading(broken="The reasoning states another verdict than the verdict.")
    return Reading(Verdict(verdict, reasoning))


def _contradicts(reasoning: str, verdict: str, words: Sequence[str]) -> bool:
    for match in _STATED.finditer(reasoning):
        stated = match[2].lower()
        if stated in words and (stated == verdict) == bool(match[1]):
            return True
    return False


Compose = Callable[[Question, int], Sequence[Message]]
"""A function that makes the conversation for a question, with evidence halved the given number of
times; empty if there is none."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """One call made for a vote."""

    call: ModelCall
    halved: int = 0
    """How many times the evidence was halved."""
    unanswered: bool = False
    """Whether there is no vote because the model was unavailable or refused, which a retry may
    mend. A conversation that is too long does not count: it is too long each time."""


def vote_of(calls: Sequence[ModelCall], words: Sequence[str]) -> Vote:
    """Return the vote that follows from its calls."""
    reason = "It was not asked."
    for call in calls:
        reading = read_call(call, words)
        if reading.value is not None:
            return Vote(reading.value.word, reading.value.reasoning)
        reason = call.error or reading.broken
    return Vote(reason=reason, lost=bool(calls and calls[-1].error))


# The transcript maps each call of a judgement to its question and vote.
# It is stored in the findings, with one entry per model call, in order. A verdict depends only on
# the transcript and on the case, which is stored beside it.

_ROLES: tuple[Role, ...] = ("system", "user", "assistant")


@dataclasses.dataclass(slots=True)
class Transcript:
    """A transcript under construction."""

    calls: list[ModelCall] = dataclasses.field(default_factory=list)
    """All calls, ordered by question, vote and attempt."""
    entries: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """For each call: the question's key, the vote's number, the allowed words and, if the evidence
    was halved, how many times."""
    unanswered: list[str] = dataclasses.field(default_factory=list)
    """The keys of questions that lost a vote because a model was unavailable or refused."""

    def add(
        self, question: Question, words: Sequence[str], votes: Sequence[Sequence[Ask]]
    ) -> Answered:
        """Add the calls of each vote on a question and return the answer."""
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
    """A stored transcript."""

    case: Case
    """The judged case."""
    calls: Mapping[tuple[str, int], tuple[ModelCall, ...]]
    """The calls by question and vote."""
    words: Mapping[str, tuple[str, ...]]
    """The allowed words of each question."""
    first: Mapping[tuple[str, int], ModelCall]
    """The first call on each question, by how many times the evidence was halved."""

    @classmethod
    def of(cls, judgement: Judgement) -> Self:
        """Return the transcript of a judgement.

        Raises:
            InvalidInputError: The judgement has no readable transcript.
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

    def count_votes(self, question: Question) -> Answered:
        """Return the votes on a question. A question that is not on record was not asked."""
        words = self.words.get(question.key, ())
        votes = (self.calls.get((question.key, number), ()) for number in range(question.votes))
        return Answered(question, tuple(vote_of(calls, words) for calls in votes))

    def messages(self, question: Question, halved: int = 0) -> tuple[Message, ...]:
        """Return the conversation that first asked a question; empty if none is on record.

        Args:
            question: The question.
            halved: How many times the evidence was halved.
        """
        call = self.first.get((question.key, halved))
        return () if call is None else messages_of(call)


def messages_of(call: ModelCall) -> tuple[Message, ...]:
    """Return the conversation recorded in a call, from any provider's format.

    Raises:
        InvalidInputError: It contains something other than text and pictures.
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
