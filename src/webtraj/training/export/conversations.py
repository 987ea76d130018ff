"""Conversations as trainers want them: in turns, with marks for pictures that are nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import re

from webtraj.agents.models.base import Image, Message, Part, Text
from webtraj.agents.models.messages import PICTURE_MARKS
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.training.export.base import LeftOut
from webtraj.training.samples import Sample

__all__ = ["Conversation", "IMAGE", "conversation_of", "digest_of", "hide", "show"]

# The marks that stand for pictures in text, and text that only looks like them.
#
# Trainers that take `<image>` for a picture count those marks, and abort where they are not as many
# as the pictures are, as do models with tokens of their own (`<|image_pad|>`); a page that says one
# is enough. So such text is written with a character
# of no width in it, which can be taken out again, whatever the text was::
#
#     >>> hide("see <image>")
#     ('see <\u200bimage>', 1)
#     >>> show(hide("see <image>")[0])
#     'see <image>'

IMAGE = "<image>"

_NO_WIDTH = "\u200b"
_MARK = f"({PICTURE_MARKS})"
_LOOKS_LIKE_ONE = re.compile(f"<({_NO_WIDTH}*){_MARK}")
_HIDDEN = re.compile(f"<{_NO_WIDTH}({_NO_WIDTH}*){_MARK}")


def hide(text: str) -> tuple[str, int]:
    """Returns text in which nothing is a mark, and how many there were."""
    if "<" not in text:
        return text, 0
    return _LOOKS_LIKE_ONE.subn(rf"<{_NO_WIDTH}\1\2", text)


def show(text: str) -> str:
    """Returns the text that `hide` was given."""
    return _HIDDEN.sub(r"<\1\2", text)


# Conversations as trainers want them: strictly in turns, from the user to the assistant.
#
# A record may have two messages of one role in a row, which chat templates of servers take and
# trainers drop without a word. They are made one, with an empty line between, and counted.

_BETWEEN = Text("\n\n")


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt in turns; the completion is the next."""

    system: str
    """Empty if there is none."""
    turns: tuple[Message, ...]
    """User, assistant, user, ...: the last is the user's."""
    merged: int
    """How many messages were made one with the one before."""

    def messages(self) -> tuple[Message, ...]:
        """Returns the prompt as messages again."""
        system = (Message.of("system", self.system),) if self.system else ()
        return (*system, *self.turns)

    @property
    def images(self) -> list[Image]:
        """All pictures, in order."""
        return [part for turn in self.turns for part in turn.parts if isinstance(part, Image)]


def conversation_of(sample: Sample) -> Conversation | LeftOut:
    """Returns a sample's prompt in turns, or why it has none."""
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
        if turns and turns[-1].role == message.role:
            turns[-1] = Message(message.role, _joined(turns[-1].parts, message.parts))
        else:
            turns.append(message)
    if not turns:
        return LeftOut("its prompt has no message of the user")
    if turns[0].role != "user":
        return LeftOut("its prompt begins with the assistant")
    if turns[-1].role != "user":
        return LeftOut("its prompt ends with the assistant")
    if not sample.completion:
        return LeftOut("its completion is empty")
    texts = (part.text for turn in turns for part in turn.parts if isinstance(part, Text))
    if not all(map(is_unicode, (system, sample.completion, *texts))):
        return LeftOut("its text has a half of a character, which no file can hold")
    return Conversation(system, tuple(turns), len(messages) - len(turns))


def _joined(parts: tuple[Part, ...], more: tuple[Part, ...]) -> tuple[Part, ...]:
    return (*parts, _BETWEEN, *more)


def digest_of(sample: Sample) -> bytes:
    """Returns a hash of who said what, and which pictures were shown where.

    Neighbouring texts of one message count as one, as the formats have them.
    """
    total = hashlib.sha256()
    conversation = conversation_of(sample)
    if isinstance(conversation, LeftOut):
        raise ValueError(f"A sample has no conversation: {conversation.why}.")
    for role, parts in (
        ("system", (Text(conversation.system),)),
        *((turn.role, turn.parts) for turn in conversation.turns),
        ("assistant", (Text(sample.completion),)),
    ):
        total.update(f"\0{role}\0".encode())
        for part in parts:
            if isinstance(part, Image):
                total.update(f"\0{part.uuid}\0".encode())
            else:
                total.update(part.text.encode("utf-8", "surrogatepass"))
    return total.digest()[:16]
