"""Asking: one vote on one question, shown less where a model cannot take it all.

What a vote is follows from its calls alone, so that stored ones give it again.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from webtraj import errors, structured_output
from webtraj.agents.models.base import (
    Image,
    Message,
    ModelClient,
    Part,
    Role,
    Sampling,
    Structure,
    Text,
)
from webtraj.judging.model.case import Answered, Case, JudgeSettings, Question, Vote
from webtraj.judging.model.prompts import Prompts
from webtraj.structured_output import Reading, object_of, read_object
from webtraj.trajectory import Judgement, ModelCall

__all__ = [
    "Ask",
    "Asker",
    "Compose",
    "JUDGING_WORDS",
    "Recorded",
    "Transcript",
    "UNCLEAR",
    "Verdict",
    "messages_of",
    "read_call",
    "read_reply",
    "schema_of",
    "vote_of",
]

# Verdicts: what a model's reply says, or why it says nothing.
#
# A verdict is one JSON object (`webtraj.structured_output`) of exactly two members, and nothing
# else is one::
#
#     {"reasoning": "The page says that the order was placed.", "verdict": "success"}
#
# Other words, another case, members that are missing or surplus are broken. So is a reply whose
# reasoning states another verdict than its verdict does.

UNCLEAR = "unclear"
JUDGING_WORDS = ("success", "failure", UNCLEAR)
"""The verdicts on a criterion."""

_STATED = re.compile(
    r"""\bverdict\b["'*]*\s*(?:[:=]|\bis\b)\s*["'*]*(not\s+)?["'*]*([a-z]+)""", re.IGNORECASE
)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply says."""

    word: str
    """One of the words that were asked for."""
    reasoning: str
    """Why, in the model's words."""


def schema_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of a verdict, of the keywords that every server knows."""
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
    """Read the verdict that a call brought."""
    return _verdict_of(object_of(call), words)


def read_reply(text: str, words: Sequence[str]) -> Reading[Verdict]:
    """Read the verdict that a complete reply states.

    >>> read_reply('{"reasoning": "It is there.", "verdict": "success"}', JUDGING_WORDS).value
    Verdict(word='success', reasoning='It is there.')
    >>> read_reply("SUCCESS", JUDGING_WORDS).broken
    'The reply is not one JSON object.'

    Args:
        text: The reply.
        words: The verdicts that there are.
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
        return Reading(broken="The reasoning is no text, or empty.")
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
    """Return the vote that calls have brought."""
    reason = "It was not asked."
    for call in calls:
        reading = read_call(call, words)
        if reading.value is not None:
            return Vote(reading.value.word, reading.value.reasoning)
        reason = call.error or reading.broken
    return Vote(reason=reason, lost=bool(calls and calls[-1].error))


@dataclasses.dataclass(frozen=True, slots=True)
class Asker:
    """Asks questions."""

    settings: JudgeSettings
    prompts: Prompts
    forms: structured_output.Forms
    """What is known of the clients. Shared."""

    async def ask(
        self, client: ModelClient, question: Question, compose: Compose
    ) -> tuple[Ask, ...]:
        """Ask for one vote; returns all calls that were made for it, the last one's last.

        A conversation that is too long for the model is asked again with half of it, a few times.
        """
        words = self.prompts.words[question.prompt]
        asks: list[Ask] = []
        shown: Sequence[Message] = ()
        for halved in range(self.settings.halvings + 1):
            messages = compose(question, halved)
            if not messages or messages == shown:
                continue  # This is no less than before.
            answer = await structured_output.ask(
                client,
                messages,
                lambda call: read_call(call, words),
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
        structure = Structure("json", schema_of(words))
        return Sampling(
            temperature=self.settings.temperature,
            max_tokens=self.settings.max_tokens,
            structure=structure if self.settings.structured else None,
        )


# The transcript: which of a judgement's calls was made for which vote on which question.
#
# It is stored in the findings, with an entry for each model call, in order. With the case, which
# stands beside it, it is all that a verdict depends on.

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
        """Add the calls of each vote on a question; returns what they say."""
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
        """Return the transcript of a judgement.

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
        """Return the votes on a question. What is not on record was not asked."""
        words = self.words.get(question.key, ())
        votes = (self.calls.get((question.key, number), ()) for number in range(question.votes))
        return Answered(question, tuple(vote_of(calls, words) for calls in votes))

    def messages(self, question: Question, halved: int = 0) -> tuple[Message, ...]:
        """Return the conversation that asked a question first; empty if none is on record.

        Args:
            question: The question.
            halved: How often what was shown had been halved.
        """
        call = self.first.get((question.key, halved))
        return () if call is None else messages_of(call)


def messages_of(call: ModelCall) -> tuple[Message, ...]:
    """Return the conversation that a call recorded, in whichever provider's shape.

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
