"""Conversations in the shapes of providers, each twice: as it is sent, and as it is recorded.

The two differ in pictures only. What is sent has them in base64; a record has their bytes in the
same place, so that stores can keep each picture once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text
from webtraj.agents.models.images import Base64Cache, media_type

__all__ = [
    "dump_body",
    "estimate_tokens",
    "to_anthropic",
    "to_openai",
    "with_valid_text",
]

Shaped = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Messages as they are sent, and as they are recorded."""

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1000
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_openai(messages: Sequence[Message], pictures: Base64Cache, *, uuids: bool) -> Shaped:
    """Returns messages in the shape of OpenAI's chat completions.

    Args:
        messages: The conversation.
        pictures: Keeps what pictures are encoded to.
        uuids: Whether to name pictures, as vLLM understands it.
    """
    sent: list[dict[str, Any]] = []
    recorded: list[dict[str, Any]] = []
    for message in messages:
        text = _only_text(message)
        if text is not None:
            shaped = {"role": message.role, "content": text}
            sent.append(shaped)
            recorded.append(shaped)
            continue
        pairs = [_openai_part(part, pictures, uuids=uuids) for part in message.parts]
        sent.append({"role": message.role, "content": [there for there, _ in pairs]})
        recorded.append({"role": message.role, "content": [here for _, here in pairs]})
    return sent, recorded


def _openai_part(
    part: Text | Image, pictures: Base64Cache, *, uuids: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(part, Text):
        shaped = {"type": "text", "text": part.text}
        return shaped, shaped
    name = {"uuid": part.uuid} if uuids else {}
    return (
        {"type": "image_url", "image_url": {"url": pictures.data_uri(part)}, **name},
        {"type": "image_url", "image_url": {"url": part.data}, **name},
    )


def to_anthropic(
    messages: Sequence[Message], pictures: Base64Cache
) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns messages in the shape of Anthropic's Messages API.

    Returns:
        The system prompt, which stands apart from the messages there; the messages as they are
        sent; and as they are recorded.

    Raises:
        InvalidInputError: A system message stands elsewhere than first, or shows a picture.
    """
    system = ""
    sent: list[dict[str, Any]] = []
    recorded: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        text = _only_text(message)
        if message.role == "system":
            if index > 0 or text is None:
                raise errors.InvalidInputError(
                    f"Message {index} is a system message that "
                    f"{'does not come first' if index else 'is not one text'}; Anthropic takes one "
                    "system message, first, of one text. Give what it says as a user message."
                )
            system = text
            continue
        if text is not None:
            shaped = {"role": message.role, "content": text}
            sent.append(shaped)
            recorded.append(shaped)
            continue
        pairs = [_anthropic_part(part, pictures) for part in message.parts]
        sent.append({"role": message.role, "content": [there for there, _ in pairs]})
        recorded.append({"role": message.role, "content": [here for _, here in pairs]})
    return system, sent, recorded


def _anthropic_part(
    part: Text | Image, pictures: Base64Cache
) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(part, Text):
        shaped = {"type": "text", "text": part.text}
        return shaped, shaped
    kind = {"type": "base64", "media_type": media_type(part.data)}
    return (
        {"type": "image", "source": {**kind, "data": pictures.base64(part)}},
        {"type": "image", "source": {**kind, "data": part.data}},
    )


def _only_text(message: Message) -> str | None:
    """Returns the text of a message that is nothing else: some servers take no list of parts."""
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return message.parts[0].text
    return None


def with_valid_text(messages: Sequence[Message]) -> Sequence[Message]:
    """Returns messages that UTF-8 can hold; pages may have text with halves of characters."""
    try:
        for message in messages:
            for part in message.parts:
                if isinstance(part, Text):
                    part.text.encode()
    except UnicodeEncodeError:
        return [
            Message(message.role, tuple(map(_with_valid_text, message.parts)))
            for message in messages
        ]
    return messages


def _with_valid_text(part: Text | Image) -> Text | Image:
    return part if isinstance(part, Image) else Text(_SURROGATE.sub("\ufffd", part.text))


def dump_body(body: Any) -> bytes:
    """Returns a request's body as JSON.

    Raises:
        InvalidInputError: There is something in it that JSON does not have.
    """
    try:
        return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise errors.InvalidInputError(
            f"The sampling parameters cannot be sent as JSON: {error}. Give numbers, text, lists "
            "and dicts of those."
        ) from error


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Returns about how many tokens a conversation has, without asking a tokenizer."""
    parts = [part for message in messages for part in message.parts]
    characters = sum(len(part.text) for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    return characters // _CHARACTERS_PER_TOKEN + images * _TOKENS_PER_IMAGE
