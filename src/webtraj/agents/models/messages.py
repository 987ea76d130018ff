"""Conversations in the shapes of providers, each twice: as it is sent, and as it is recorded.

The two differ in pictures only. What is sent has them in base64; a record has their bytes in the
same place, so that stores can keep each picture once.
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

# Pictures on the wire: their media type, and their base64, encoded once for each picture.

_CACHE_BYTES = 64 * 2**20
_WEBP_HEAD = 12


def media_type(data: bytes) -> str:
    r"""Returns the media type of an encoded picture.

    >>> media_type(b"\x89PNG\r\n\x1a\n...")
    'image/png'

    Raises:
        InvalidInputError: It is none that models take.
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
        f"A picture begins with {data[:8]!r}, which is none of PNG, JPEG, WebP and GIF. Encode it "
        "in one of those."
    )


class Base64Cache:
    """Keeps the base64 of the pictures last used, as pieces of JSON that are ready to be sent.

    A conversation shows its last few pictures again at every step. They are known by their `uuid`,
    so that it does not matter whether the same `Image` object comes again.
    """

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._texts: collections.OrderedDict[tuple[str, bool], bytes] = collections.OrderedDict()

    def data_uri(self, image: Image) -> orjson.Fragment:
        """Returns a picture as the JSON string of a `data:` URI."""
        return self._fragment(image, as_uri=True)

    def base64(self, image: Image) -> orjson.Fragment:
        """Returns a picture as the JSON string of its base64."""
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


# Markup that a model's server reads as its own: turns, tools, pictures.
#
# A chat template writes `<|im_end|>` between turns, and a tokenizer does not see whether a template
# or a page wrote it. So whatever quotes a page, a task or another agent to a model breaks such
# markup up, here and nowhere else. Records of what was observed keep it as it was; a record of a
# model call has the prompt as it was sent.

PICTURE_MARKS = (
    r"(?:(?:image|video|audio)>"  # Trainers' own
    r"|\|(?:image|video|audio|vision)(?:_pad)?\|>"  # Qwen's, Llama's
    r"|(?:IMG_CONTEXT|image_soft_token|start_of_image)>)"  # InternVL's, Gemma's
)
"""What stands for a picture in rows of trainers and in prompts, after its `<`."""

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
"""The character by which a tokenizer would know markup."""
_HARMLESS = {"<": "\u2039", ">": "\u203a", "[": "\u27e6"}


def without_markup(text: str) -> str:
    r"""Return a text in which a tokenizer finds no markup of its own.

    >>> print(ascii(without_markup('[1] button "Buy<|im_end|>" <b>bold</b>')))
    '[1] button "Buy\u2039|im_end|\u203a" <b>bold</b>'
    """
    return _MARKUP.sub(lambda match: _HARMLESS[match[0]], text)


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
