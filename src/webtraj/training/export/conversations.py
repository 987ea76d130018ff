"""Conversations for trainers: strict turns between user and assistant.

A record may have consecutive messages of the same role. Servers accept them, but trainers silently
drop them. So they are merged with an empty line between, and counted.
"""

from __future__ import annotations

import dataclasses
import hashlib

import orjson

from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.training.export.base import LeftOut
from webtraj.training.samples import Sample

__all__ = ["Conversation", "conversation_of", "digest_of"]

_BETWEEN = Text("\n\n")


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt in turns; the completion is the next turn."""

    system: str
    """The system message; empty if there is none."""
    turns: tuple[Message, ...]
    """User, assistant, user, ...; the last turn is the user's, or a tool's."""
    merged: int
    """The number of messages merged into the one before."""

    def messages(self) -> tuple[Message, ...]:
        """Return the prompt as messages."""
        system = (Message.of("system", self.system),) if self.system else ()
        return (*system, *self.turns)


def conversation_of(sample: Sample) -> Conversation | LeftOut:
    """Return a sample's prompt in turns, or the reason why it is left out."""
    messages = list(sample.messages)
    system = ""
    if messages and messages[0].role == "system":
        parts = messages.pop(0).parts
        if any(isinstance(part, Image) for part in parts):
            return LeftOut("its system message shows a picture")
        system = "".join(part.text for part in parts if isinstance(part, Text))
    turns: list[Message] = []
    for message in messages:
        if message.role == "system":
            return LeftOut("a system message stands elsewhere than first")
        if turns and turns[-1].role == message.role != "tool":
            last = turns[-1]
            parts = _join(last.parts, message.parts)
            turns[-1] = Message(message.role, parts, (*last.calls, *message.calls))
        else:
            turns.append(message)
    if not turns:
        return LeftOut("its prompt has no message of the user")
    if turns[0].role != "user":
        return LeftOut("its prompt begins with the assistant")
    if turns[-1].role == "assistant":
        return LeftOut("its prompt ends with the assistant")
    if not sample.completion and not sample.calls:
        return LeftOut("its completion is empty")
    texts = (part.text for turn in turns for part in turn.parts if isinstance(part, Text))
    if not all(map(is_unicode, (system, sample.completion, *texts))):
        return LeftOut("its text has a half of a character, which no file can hold")
    return Conversation(system, tuple(turns), len(messages) - len(turns))


def _join(parts: tuple[Part, ...], more: tuple[Part, ...]) -> tuple[Part, ...]:
    return (*parts, _BETWEEN, *more) if parts and more else (*parts, *more)


def digest_of(sample: Sample) -> bytes:
    """Return a hash of roles, texts and pictures in their order.

    Adjacent texts of one message count as one, as in the formats.
    """
    total = hashlib.sha256()
    conversation = conversation_of(sample)
    if isinstance(conversation, LeftOut):
        raise ValueError(f"A sample has no conversation: {conversation.why}.")
    for role, parts, calls in (
        ("system", (Text(conversation.system),), ()),
        *((turn.role, turn.parts, turn.calls) for turn in conversation.turns),
        ("assistant", (Text(sample.completion),), sample.calls),
    ):
        total.update(f"\0{role}\0".encode())
        for part in parts:
            if isinstance(part, Image):
                total.update(f"\0{part.uuid}\0".encode())
            else:
                total.update(part.text.encode("utf-8", "surrogatepass"))
        for call in calls:
            total.update(orjson.dumps(call.to_data()))
    return total.digest()[:16]
