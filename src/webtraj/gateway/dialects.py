"""The vendors' APIs: convert a request and its reply to a `ModelCall`.

Pure functions. A stream of server-sent events is assembled into the body that the server sends
without streaming, so that the rest of webtraj reads only one form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from webtraj.agents.models import replies
from webtraj.agents.models.replies import AttemptError, Reply
from webtraj.datasets.importers.base import images_as_bytes
from webtraj.trajectory import ModelCall

__all__ = [
    "DIALECTS",
    "Dialect",
    "Extras",
    "assemble",
    "model_call",
    "with_extras",
]

Dialect = Literal["openai", "responses", "anthropic"]
"""OpenAI's chat completions, OpenAI's Responses, Anthropic's messages."""

DIALECTS: Final[Mapping[str, Dialect]] = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
}
"""The paths of model calls, below `/v1`."""

_CONVERSATION: Final[Mapping[Dialect, tuple[str, str]]] = {
    "openai": ("messages", ""),
    "responses": ("input", "instructions"),
    "anthropic": ("messages", "system"),
}
"""The fields with the messages, and with the system prompt if it has a field of its own."""
_NOT_SAMPLING: Final = ("model", "stream", "stream_options")
_READERS: Final[Mapping[Dialect, Callable[[Any], Reply]]] = {
    "openai": replies.read_openai,
    "responses": replies.read_responses,
    "anthropic": replies.read_anthropic,
}


def model_call(
    dialect: Dialect, request: Mapping[str, Any], response: Any, **known: Any
) -> ModelCall:
    """Return the record of a call.

    Args:
        dialect: The API.
        request: The request's body.
        response: The reply's body, or the assembled stream (see `assemble`); None without a reply.
        known: Other fields of the record.
    """
    conversation, system = _CONVERSATION[dialect]
    content = request.get(conversation)
    messages = (
        list(content) if isinstance(content, list) else [{"role": "user", "content": content}]
    )
    if system and request.get(system):
        messages.insert(0, {"role": "system", "content": request[system]})
    others = (conversation, system, *_NOT_SAMPLING)
    error = known.pop("error", "")
    reply: Reply | None = None
    if response is not None:
        try:
            reply = _READERS[dialect](response)
        except AttemptError as failure:
            error = error or str(failure)
    fields = {} if reply is None else {
        field.name: getattr(reply, field.name)
        for field in dataclasses.fields(reply)
        if field.name != "dropped"
    }  # fmt: skip
    return ModelCall(
        model=str(request.get("model", "")),
        messages=tuple(images_as_bytes(messages)),
        sampling={name: value for name, value in request.items() if name not in others},
        response=response,
        error=error,
        **{"provider": dialect, **known},
        **fields,
    )


# Streams.


def assemble(dialect: Dialect, stream: bytes) -> tuple[Any, str]:
    """Assemble the body of a reply from its stream.

    Returns:
        The body, None if nothing arrived; and an error, empty if the body is complete.
    """
    lines = (line[5:] for line in stream.splitlines() if line.startswith(b"data:"))
    # A line that is not JSON is `[DONE]`, or was cut off.
    events = [event for event in map(replies.parse_json, lines) if isinstance(event, dict)]
    whole, ended, error = _ASSEMBLERS[dialect](events)
    if error:
        return whole, error
    return whole, "" if ended else "The stream ended before the reply did."


_Assembled = tuple[Any, bool, str]
"""The body, whether it is complete, and the error that the server reported."""


def _chat(chunks: Sequence[Mapping[str, Any]]) -> _Assembled:
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    error = ""
    for chunk in chunks:
        if chunk.get("error"):
            error = str(replies.ServerError.of(chunk))
            continue
        whole |= {name: value for name, value in chunk.items() if value is not None}
        for part in chunk.get("choices") or ():
            index = part.get("index", 0)
            choice = choices.setdefault(index, {"index": index, "message": {}})
            _grow(choice["message"], part.get("delta") or {})
            if (logprobs := part.get("logprobs")) is not None:
                _grow(choice.setdefault("logprobs", {}), logprobs)
            choice.setdefault("token_ids", []).extend(part.get("token_ids") or ())
            rest = ("index", "delta", "logprobs", "token_ids")
            choice |= {k: v for k, v in part.items() if k not in rest and v is not None}
    if not whole:
        return None, False, error
    whole |= {"object": "chat.completion", "choices": [choices[i] for i in sorted(choices)]}
    ended = bool(choices) and all(choice.get("finish_reason") for choice in choices.values())
    return whole, ended, error


_WORDS: Final = ("role", "id", "type", "name")
"""Strings that a later delta replaces instead of extending them."""


def _grow(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta of chat completions: extend texts, lists and indexed items."""
    for name, value in delta.items():
        before = whole.get(name)
        match value:
            case None:
                whole.setdefault(name, None)
            case str() if isinstance(before, str) and name not in _WORDS:
                whole[name] = before + value
            case Mapping():
                _grow(whole.setdefault(name, {}), value)
            case list() if any(isinstance(item, Mapping) and "index" in item for item in value):
                items = whole.setdefault(name, [])
                for item in value:
                    while len(items) <= item["index"]:
                        items.append({})
                    _grow(items[item["index"]], {k: v for k, v in item.items() if k != "index"})
            case list():
                whole[name] = [*(before or ()), *value]
            case _:
                whole[name] = value


_GROWING: Final = ("text", "thinking", "signature")


def _messages(events: Sequence[Mapping[str, Any]]) -> _Assembled:
    whole: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    written: dict[int, str] = {}
    ended, error = False, ""
    for event in events:
        match event.get("type"):
            case "message_start":
                whole = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                index, delta = event["index"], event["delta"]
                block = blocks.setdefault(index, {})
                written[index] = written.get(index, "") + delta.get("partial_json", "")
                for name in _GROWING:
                    if name in delta:
                        block[name] = (block.get(name) or "") + delta[name]
                if "citation" in delta:
                    block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case "message_delta":
                whole |= event.get("delta") or {}
                whole["usage"] = {**(whole.get("usage") or {}), **(event.get("usage") or {})}
            case "message_stop":
                ended = True
            case "error":
                error = str(replies.ServerError.of(event))
    if not whole:
        return None, False, error
    for index, text in written.items():
        if text:
            try:
                blocks[index]["input"] = orjson.loads(text)
            except orjson.JSONDecodeError:
                blocks[index]["input"] = text  # Incomplete, or the model did not write JSON.
    return {**whole, "content": [blocks[index] for index in sorted(blocks)]}, ended, error


_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")


def _responses(events: Sequence[Mapping[str, Any]]) -> _Assembled:
    whole: dict[str, Any] | None = None
    items: dict[int, Any] = {}
    for event in events:
        kind = event.get("type")
        if kind in _ENDS:
            response = event["response"]
            failed = kind == "response.failed" and replies.ServerError.of(response)
            return response, True, str(failed or "")
        if kind == "error":
            body = event if "error" in event else {"error": event}
            return whole, False, str(replies.ServerError.of(body))
        if "response" in event:
            whole = event["response"]
        elif kind in ("response.output_item.added", "response.output_item.done"):
            items[event["output_index"]] = event["item"]
        elif kind == "response.output_text.delta":
            # `output_item.done` replaces it, unless the stream breaks off before.
            item = items.get(event["output_index"]) or {"type": "message"}
            text = "".join(part.get("text", "") for part in item.get("content") or ())
            part = {"type": "output_text", "text": text + event["delta"]}
            items[event["output_index"]] = {**item, "content": [part]}
    if whole is not None:
        whole = {**whole, "output": [items[index] for index in sorted(items)]}
    return whole, False, ""


_ASSEMBLERS: Final = {"openai": _chat, "anthropic": _messages, "responses": _responses}


# Fields that the gateway requests from vLLM, and removes if the agent did not request them.


@dataclasses.dataclass(frozen=True, slots=True)
class Extras:
    """The fields of vLLM's reply that the agent did not request."""

    token_ids: bool
    logprobs: bool
    usage: bool

    def without(self, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """Remove the extras from a body, or a chunk of a stream; return None if nothing is left."""
        is_chunk = data.get("object") == "chat.completion.chunk"
        if self.usage and is_chunk and not data.get("choices") and "usage" in data:
            return None
        data = dict(data)
        choices = [dict(choice) for choice in data.get("choices") or ()]
        if self.token_ids:
            for part, name in ((data, "prompt_token_ids"), *((c, "token_ids") for c in choices)):
                part.pop(name, None)
        if self.logprobs:
            for choice in choices:
                choice["logprobs"] = None
        return {**data, "choices": choices} if "choices" in data else data

    def without_in_event(self, event: bytes) -> bytes:
        """Remove the extras from an event of a stream; return an empty text if nothing is left."""
        head, field, rest = event.partition(b"data:")
        try:
            chunk = orjson.loads(rest)
        except orjson.JSONDecodeError:
            return event  # `[DONE]`, or JSON that would change if it were written again.
        if not isinstance(chunk, dict):
            return event
        kept = self.without(chunk)
        return b"" if kept is None else b"%b%b %b\n\n" % (head, field, orjson.dumps(kept))


def with_extras(request: Mapping[str, Any]) -> tuple[dict[str, Any], Extras]:
    """Return a chat completion's request to vLLM with the extras, and a list of the extras.

    The extras are token ids, log-probabilities and, for a stream, the usage.
    """
    options = request.get("stream_options")
    options = options if isinstance(options, Mapping) else {}
    extras = Extras(
        token_ids=not request.get("return_token_ids"),
        logprobs=not request.get("logprobs"),
        usage=bool(request.get("stream")) and not options.get("include_usage"),
    )
    more: dict[str, Any] = {"return_token_ids": True, "logprobs": True}
    if request.get("stream"):
        more["stream_options"] = {**options, "include_usage": True}
    return {**request, **more}, extras
