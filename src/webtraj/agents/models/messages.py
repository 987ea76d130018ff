"""Conversations in the formats of providers, in two versions: as sent, and as recorded.

They differ only in pictures: the sent version has base64, the recorded one has bytes in the same
place, so that stores can keep each picture once.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import Image, Message, Text

__all__ = [
    "Base64Cache",
    "PICTURE_MARKS",
    "dump_body",
    "estimate_tokens",
    "for_template",
    "functions_of",
    "media_type",
    "to_anthropic",
    "to_openai",
    "to_responses",
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

_Show = Callable[[Image], Any]
"""Returns what stands for a picture: its base64 as sent, its bytes as recorded."""

_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1000
_SURROGATE = re.compile("[\ud800-\udfff]")


def _data_of(image: Image) -> bytes:
    return image.data


def to_openai(messages: Sequence[Message], pictures: Base64Cache, *, uuids: bool) -> Shaped:
    """Return messages in the format of OpenAI's chat completions.

    In this format a tool's result is text, so its pictures follow in a user message.

    Args:
        messages: The conversation.
        pictures: The cache of encoded pictures.
        uuids: Whether to add the pictures' uuids, for vLLM.
    """
    apart = list(_with_pictures_apart(messages))

    def shape(show: _Show) -> list[dict[str, Any]]:
        def part_of(image: Image) -> dict[str, Any]:
            name = {"uuid": image.uuid} if uuids else {}
            return {"type": "image_url", "image_url": {"url": show(image)}, **name}

        return [
            message.to_data(part_of) | ({} if message.parts else {"content": None})
            for message in apart
        ]

    return shape(pictures.data_uri), shape(_data_of)


def _with_pictures_apart(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield messages, with pictures of tool results moved to a user message after them."""
    shown: list[Image] = []
    for message in messages:
        if message.role != "tool":
            if shown:
                yield Message("user", tuple(shown))
                shown = []
            yield message
            continue
        shown += [part for part in message.parts if isinstance(part, Image)]
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        said = "\n\n".join(texts) or "Done. A picture of the page follows."
        yield dataclasses.replace(message, parts=(Text(said),))
    if shown:
        yield Message("user", tuple(shown))


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
    for index, message in enumerate(messages):
        if message.role == "system":
            text = _only_text(message)
            if index > 0 or text is None:
                raise errors.InvalidInputError(
                    f"Message {index} is a system message that "
                    f"{'does not come first' if index else 'is not one text'}; Anthropic takes one "
                    "system message, first, of one text. Send the rest as a user message."
                )
            system = text
    others = [message for message in messages if message.role != "system"]
    return system, _to_anthropic(others, pictures.base64), _to_anthropic(others, _data_of)


def _to_anthropic(messages: Sequence[Message], show: _Show) -> list[dict[str, Any]]:
    shaped: list[dict[str, Any]] = []
    for is_result, run in itertools.groupby(messages, lambda message: message.role == "tool"):
        if is_result:
            results = [_tool_result(message, show) for message in run]
            shaped.append({"role": "user", "content": results})
            continue
        for message in run:
            content: Any = list(message.items) or _only_text(message)
            if content is None:
                content = [_anthropic_part(part, show) for part in message.parts]
            shaped.append({"role": message.role, "content": content})
    return shaped


def _tool_result(message: Message, show: _Show) -> dict[str, Any]:
    call = message.calls[0]
    content = [_anthropic_part(part, show) for part in message.parts]
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content,
    }
    if message.failed:
        result["is_error"] = True
    if toolset := call.item.get("toolset_name"):
        result["toolset_name"] = toolset
    return result


def _anthropic_part(part: Text | Image, show: _Show) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source = {"type": "base64", "media_type": media_type(part.data), "data": show(part)}
    return {"type": "image", "source": source}


_EMPTY_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
"""One pixel, for the screenshot that the result of a `computer_call` must have."""


def to_responses(messages: Sequence[Message], pictures: Base64Cache) -> Shaped:
    """Return messages as input items of OpenAI's Responses API.

    The result of a `computer_call` is only a screenshot, so its text follows in a user message. If
    the context left the screenshot out, a picture of one pixel takes its place.
    """
    return _to_responses(messages, pictures.data_uri), _to_responses(messages, _data_of)


def _to_responses(messages: Sequence[Message], show: _Show) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for is_result, run in itertools.groupby(messages, lambda message: message.role == "tool"):
        said: list[str] = []
        for message in run:
            text = _only_text(message)
            if is_result:
                items.append(_call_output(message, show, said))
            elif message.items:
                items += message.items
            elif text is not None:
                items.append({"role": message.role, "content": text})
            else:
                content = [_responses_part(part, show) for part in message.parts]
                items.append({"role": message.role, "content": content})
        if said:
            content = [{"type": "input_text", "text": "\n\n".join(said)}]
            items.append({"role": "user", "content": content})
    return items


def _call_output(message: Message, show: _Show, said: list[str]) -> dict[str, Any]:
    """Return a tool's result, and append the text that is sent separately to `said`."""
    call = message.calls[0]
    if call.item.get("type") != "computer_call":
        output = [_responses_part(part, show) for part in message.parts]
        return {"type": "function_call_output", "call_id": call.id, "output": output}
    shown = [part for part in message.parts if isinstance(part, Image)]
    said += [part.text for part in message.parts if isinstance(part, Text)]
    url = show(shown[-1] if shown else Image(_EMPTY_PICTURE))
    result: dict[str, Any] = {"type": "computer_call_output", "call_id": call.id}
    checks = call.item.get("pending_safety_checks")
    if checks:  # The agent goes on only if it may acknowledge them.
        result["acknowledged_safety_checks"] = checks
    return {**result, "output": {"type": "computer_screenshot", "image_url": url}}


def _responses_part(part: Text | Image, show: _Show) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "detail": "auto", "image_url": show(part)}


def _only_text(message: Message) -> str | None:
    """Return a message's text if it has nothing else, for servers that take no list of parts."""
    if len(message.parts) == 1 and isinstance(message.parts[0], Text):
        return message.parts[0].text
    return None


def for_template(message: Message, *, in_parts: bool) -> dict[str, Any]:
    """Return a message as chat templates take it: pictures without data, arguments as dicts.

    Args:
        message: The message.
        in_parts: Whether the template takes content as a list of parts, which pictures need.
    """
    content: Any = [
        {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
        for part in message.parts
    ]
    if not in_parts:
        content = "".join(part.text for part in message.parts if isinstance(part, Text))
    shaped = {"role": message.role, "content": content}
    if message.role == "tool":
        return {**shaped, "tool_call_id": message.calls[0].id}
    if not message.calls:
        return shaped
    calls = [call.to_data() for call in message.calls]
    for call in calls:
        with contextlib.suppress(ValueError):  # The model wrote something else; show just that.
            call["function"]["arguments"] = orjson.loads(call["function"]["arguments"])
    return {**shaped, "tool_calls": calls}


def functions_of(tools: Any) -> tuple[dict[str, Any], ...] | None:
    """Return recorded tools as functions in the format of chat completions.

    Returns:
        None if a tool is the provider's own, not a function.
    """
    functions = []
    for tool in tools or ():
        function = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            return None
        parameters = function.get("parameters", function.get("input_schema"))
        if not isinstance(parameters, Mapping):
            return None
        named = {"name": function["name"], "description": function.get("description", "")}
        functions.append({"type": "function", "function": {**named, "parameters": parameters}})
    return tuple(functions)


def with_valid_text(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages that UTF-8 can encode; text from pages may have lone surrogates."""
    try:
        for message in messages:
            for part in message.parts:
                if isinstance(part, Text):
                    part.text.encode()
    except UnicodeEncodeError:
        return [
            dataclasses.replace(message, parts=tuple(map(_with_valid_text, message.parts)))
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
