"""Conversations in the formats of providers, in two versions: as sent, and as recorded.

They differ only in pictures: the sent version has base64, the recorded one has bytes in the same
place, so that stores can keep each picture once.
"""

from __future__ import annotations

import base64
import collections
import re
from collections.abc import Sequence
from typing import Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text

__all__ = [
    "Base64Cache",
    "PICTURE_MARKS",
    "dump_body",
    "estimate_tokens",
    "media_type",
    "to_anthropic",
    "to_openai",
    "with_valid_text",
    "without_markup",
]

# Pictures on the wire: their media type, and their base64, encoded once per picture.

_CACHE_BYTES = 64 * 2**20
_WEBP_HEAD = 12


def media_type(data: bytes) -> str:
    r"""Return the media type of an encoded picture.

    >>> media_type(b"\x89PNG\r\n\x1a\n...")
    'image/png'

    Raises:
        InvalidInputError: The picture has a format that models do not take.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"RIFF") and data[8:_WEBP_HEAD] == b"WEBP":
        return "image/webp"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    raise errors.InvalidInputError(
        f"A picture begins with {data[:8]!r}, which is not PNG, JPEG, WebP or GIF. Encode it in "
        "one of those formats."
    )


class Base64Cache:
    """A cache of the base64 of recent pictures, as JSON fragments ready to send.

    A conversation shows its last few pictures again at every step. The key is their `uuid`, so
    equal pictures need not be the same `Image` object.
    """

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._texts: collections.OrderedDict[tuple[str, bool], bytes] = collections.OrderedDict()

    def data_uri(self, image: Image) -> orjson.Fragment:
        """Return a picture as the JSON string of a `data:` URI."""
        return self._fragment(image, as_uri=True)

    def base64(self, image: Image) -> orjson.Fragment:
        """Return a picture as the JSON string of its base64."""
        return self._fragment(image, as_uri=False)

    def _fragment(self, image: Image, *, as_uri: bool) -> orjson.Fragment:
        key = (image.uuid, as_uri)
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
            return orjson.Fragment(text)
        prefix = f"data:{media_type(image.data)};base64," if as_uri else ""
        text = b'"%b%b"' % (prefix.encode(), base64.b64encode(image.data))
        self._texts[key] = text
        self._num_bytes += len(text)
        while self._num_bytes > self._max_bytes:
            _, dropped = self._texts.popitem(last=False)
            self._num_bytes -= len(dropped)
        return orjson.Fragment(text)


# Markup that a model's server interprets: turns, tools, pictures.
#
# A chat template writes `<|im_end|>` between turns, and a tokenizer cannot tell whether a template
# or a page wrote it. So code that quotes a page, a task or another agent to a model breaks up such
# markup with this function. Recorded observations keep it; a recorded model call has the prompt as
# it was sent.

PICTURE_MARKS = (
    r"(?:(?:image|video|audio)>"  # Trainers' own
    r"|\|(?:image|video|audio|vision)(?:_pad)?\|>"  # Qwen's, Llama's
    r"|(?:IMG_CONTEXT|image_soft_token|start_of_image)>)"  # InternVL's, Gemma's
)
"""The placeholders of pictures in training rows and prompts, after their `<`."""

_IN_ANGLES = (
    r"s|bos|eos|pad|unk|mask|cls|sep|think|tools|img|image|video|audio|ref|box|quad|boi|eoi"
    r"|unused\d{1,5}|global-img"
    r"|[a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,6}"  # <start_of_turn>, <image_soft_token>, <tool_call>
)
_IN_BRACKETS = (
    r"INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|MODEL_SETTINGS"
    r"|CALL_ID|ARGS|THINK|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|control_\d{1,4}|gMASK|sMASK|MASK"
    r"|CLS|SEP|PAD|UNK|BOS|EOS"
)
_MARKUP = re.compile(
    r"<(?=[|\uff5c])|(?<=[|\uff5c])>"  # <|im_start|>, and DeepSeek's full-width bars
    rf"|<(?=/?(?:{_IN_ANGLES})>)"
    r"|<(?=</?SYS>>)|(?<=SYS>)>|<(?=/?SYS>)"
    rf"|\[(?=/?(?:{_IN_BRACKETS})\])",
    re.IGNORECASE,
)
"""The character by which a tokenizer recognizes markup."""
_HARMLESS = {"<": "\u2039", ">": "\u203a", "[": "\u27e6"}


def without_markup(text: str) -> str:
    r"""Return a text without markup that a tokenizer would interpret.

    >>> print(ascii(without_markup('[1] button "Buy<|im_end|>" <b>bold</b>')))
    '[1] button "Buy\u2039|im_end|\u203a" <b>bold</b>'
    """
    return _MARKUP.sub(lambda match: _HARMLESS[match[0]], text)


Shaped = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Messages as sent, and as recorded."""

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1000
_SURROGATE = re.compile("[\ud800-\udfff]")


def to_openai(messages: Sequence[Message], pictures: Base64Cache, *, uuids: bool) -> Shaped:
    """Return messages in the format of OpenAI's chat completions.

    Args:
        messages: The conversation.
        pictures: The cache of encoded pictures.
        uuids: Whether to add the pictures' uuids, for vLLM.
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
    """Convert messages to the format of Anthropic's Messages API.

    Returns:
        The system prompt, which is separate in that API; the messages as sent; and the messages as
        recorded.

    Raises:
        InvalidInputError: A system message is not first, or contains a picture.
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
                    "system message, first, of one text. Send the rest as a user message."
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
    """Return a message's text if it has nothing else: some servers take no list of parts."""
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return message.parts[0].text
    return None


def with_valid_text(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages that UTF-8 can encode; text from pages may have lone surrogates."""
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
    """Return a request's body as JSON.

    Raises:
        InvalidInputError: It has a value that JSON cannot express.
    """
    try:
        return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        raise errors.InvalidInputError(
            f"The sampling parameters cannot be sent as JSON: {error}. Use only numbers, text, "
            "lists and dicts."
        ) from error


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of a conversation, without a tokenizer."""
    parts = [part for message in messages for part in message.parts]
    characters = sum(len(part.text) for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    return characters // _CHARACTERS_PER_TOKEN + images * _TOKENS_PER_IMAGE
