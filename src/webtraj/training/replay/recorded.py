"""Recorded conversations, read back: from the shapes of providers to messages.

What `webtraj.agents.models.messages` writes into a `ModelCall`, with the bytes of pictures in
place, comes back here as it was. Data URIs and base64, as other software records them, are read
too. A conversation of another shape is refused, never guessed at.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Part, Role, Text
from webtraj.collectors.blobs import LazyBlob

__all__ = ["read_messages"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXTS = ("text", "input_text", "output_text")
_SHAPE = (
    "expected messages with a role of system, user or assistant, and a content of text, or of "
    "parts of text and pictures, as OpenAI or Anthropic have them"
)


def read_messages(messages: Iterable[Any]) -> tuple[Message, ...]:
    """Returns the messages that recorded ones stand for; lazy blobs in them are loaded.

    >>> read_messages([{"role": "user", "content": "Click it."}])
    (Message(role='user', parts=(Text(text='Click it.'),)),)

    Raises:
        InvalidInputError: They are of a shape that is not known, or hold more than text and
            pictures, such as the results of tools.
    """
    return tuple(_message(index, message) for index, message in enumerate(messages))


def _message(index: int, message: Any) -> Message:
    if isinstance(message, Mapping):
        role = _ROLES.get(message.get("role", ""))
        content = message.get("content")
        # A message that says more than its content, such as a call of a tool, is not just that.
        more = [name for name in ("tool_calls", "tool_call_id", "function_call") if name in message]
        if role is not None and not any(message[name] for name in more):
            parts = _parts(index, content)
            if parts:
                return Message(role, parts)
    raise _refusal(index, message)


def _parts(index: int, content: Any) -> tuple[Part, ...]:
    content = _loaded(content)
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(_part(index, part) for part in content)


def _part(index: int, part: Any) -> Part:
    if isinstance(part, Mapping):
        kind = part.get("type")
        if kind in _TEXTS:
            text = _loaded(part.get("text"))
            if isinstance(text, str):
                return Text(text)
        elif (picture := _picture(part)) is not None:
            return Image(picture)
    raise _refusal(index, part)


def _picture(part: Mapping[str, Any]) -> bytes | None:
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
    data = _loaded(data)
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


def _loaded(value: Any) -> Any:
    return value.load() if isinstance(value, LazyBlob) else value


def _refusal(index: int, what: Any) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"Message {index} of a recorded prompt cannot be read: {_SHAPE}; got {what!r:.200}."
    )
