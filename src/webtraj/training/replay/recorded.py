"""Recorded conversations, read back: from the shapes of providers to messages.

What `webtraj.agents.models.messages` writes into a `ModelCall`, with the bytes of pictures in
place, comes back here as it was. Data URIs and base64, as other software records them, are read
too. A conversation of another shape is refused, never guessed at.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Role, Text
from webtraj.store.blobs import LazyBlob

__all__ = ["Leaf", "Turn", "loaded", "outline", "outline_of_messages", "read_messages"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXTS = ("text", "input_text", "output_text")
_SAYS_MORE = ("tool_calls", "tool_call_id", "function_call")
_SHAPE = (
    "expected messages with a role of system, user or assistant, and a content of text, or of "
    "parts of text and pictures, as OpenAI or Anthropic have them"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A text or a picture of a message, maybe not loaded yet."""

    value: str | bytes | LazyBlob
    is_image: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """One message, its parts maybe not loaded yet."""

    role: Role
    leaves: tuple[Leaf, ...]

    def load(self) -> Message:
        """Returns the message itself."""
        return Message(self.role, tuple(map(_part_of, self.leaves)))


def read_messages(messages: Iterable[Any]) -> tuple[Message, ...]:
    """Returns the messages that recorded ones stand for; lazy blobs in them are loaded.

    >>> read_messages([{"role": "user", "content": "Click it."}])
    (Message(role='user', parts=(Text(text='Click it.'),)),)

    Raises:
        InvalidInputError: They are of a shape that is not known, or hold more than text and
            pictures, such as the results of tools.
    """
    return tuple(turn.load() for turn in outline(messages))


def outline(messages: Iterable[Any]) -> tuple[Turn, ...]:
    """Does what `read_messages` does, and loads no lazy blobs.

    Raises:
        InvalidInputError: See `read_messages`.
    """
    return tuple(_turn(index, message) for index, message in enumerate(messages))


def outline_of_messages(messages: Iterable[Message]) -> tuple[Turn, ...]:
    """Returns messages in the form that `outline` gives."""
    return tuple(
        Turn(
            message.role,
            tuple(
                Leaf(part.data, True) if isinstance(part, Image) else Leaf(part.text, False)
                for part in message.parts
            ),
        )
        for message in messages
    )


def loaded(value: Any) -> Any:
    """Returns what a lazy blob stands for, and anything else as it is."""
    return value.load() if isinstance(value, LazyBlob) else value


def _part_of(leaf: Leaf) -> Part:
    value = loaded(leaf.value)
    return Image(value) if leaf.is_image else Text(value)


def _turn(index: int, message: Any) -> Turn:
    if isinstance(message, Mapping):
        role = _ROLES.get(message.get("role", ""))
        # A message that says more than its content, such as a call of a tool, is not just that.
        if role is not None and not any(message.get(name) for name in _SAYS_MORE):
            leaves = _leaves(index, message.get("content"))
            if leaves:
                return Turn(role, leaves)
    raise _refusal(index, message)


def _leaves(index: int, content: Any) -> tuple[Leaf, ...]:
    if _is_text(content):
        return (Leaf(content, False),)
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(_leaf(index, part) for part in content)


def _leaf(index: int, part: Any) -> Leaf:
    if isinstance(part, Mapping):
        if part.get("type") in _TEXTS:
            if _is_text(part.get("text")):
                return Leaf(part["text"], False)
        elif (picture := _picture(part)) is not None:
            return Leaf(picture, True)
    raise _refusal(index, part)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, LazyBlob) and value.text)


def _picture(part: Mapping[str, Any]) -> bytes | LazyBlob | None:
    """Returns the bytes of a picture, or None if the part is none that was kept."""
    match part:
        case {"type": "image_url", "image_url": {"url": data}}:
            pass
        case {"type": "input_image" | "image_url", "image_url": data}:
            pass
        case {"type": "image", "source": {"type": "base64", "data": data}}:
            pass
        case _:
            return None
    if isinstance(data, LazyBlob) and not data.text:
        return data
    data = loaded(data)
    if isinstance(data, bytes):
        return data or None
    if not isinstance(data, str):
        return None
    if data.startswith("data:"):
        head, _, data = data.partition(",")
        if not head.endswith(";base64"):
            return None
    try:
        return base64.b64decode(data, validate=True) or None
    except (binascii.Error, ValueError):
        return None  # A URL: the picture itself is not on record.


def _refusal(index: int, what: Any) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"Message {index} of a recorded prompt cannot be read: {_SHAPE}; got {what!r:.200}."
    )
