"""Replies of the model server as streams of server-sent events, in each API's format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from webtraj.testing.model_server.exchange import ModelRequest

__all__ = ["events"]

_PIECE = 8
"""The characters, and tokens, of a piece of text."""


def events(request: ModelRequest, reply: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the events of a stream that add up to a whole reply."""
    match request.api:
        case "chat":
            for chunk in _chat(reply, request.json):
                yield b"data: " + orjson.dumps(chunk) + b"\n\n"
            yield b"data: [DONE]\n\n"
        case "messages":
            for event in _messages(reply):
                yield _encode_event(event)
        case "responses":
            for number, event in enumerate(_responses(reply)):
                yield _encode_event({**event, "sequence_number": number})


def _encode_event(event: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))


def _pieces(value: Any) -> Iterator[Any]:
    for start in range(0, len(value), _PIECE):
        yield value[start : start + _PIECE]


def _chat(reply: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    (choice,), message = reply["choices"], reply["choices"][0]["message"]
    head = {name: reply[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        made = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **fields}
        return {**head, "choices": [made]}

    ids = choice.get("token_ids")
    prompt = {} if ids is None else {"prompt_token_ids": reply["prompt_token_ids"]}
    yield chunk({"role": "assistant", "content": ""}) | prompt
    if message.get("reasoning"):
        yield chunk({"reasoning": message["reasoning"]})
    tokens = (choice.get("logprobs") or {}).get("content") or []
    for text, some, logprobs in itertools.zip_longest(
        _pieces(message["content"] or ""), _pieces(ids or []), _pieces(tokens)
    ):
        more = {} if ids is None else {"token_ids": some}
        if logprobs:
            more["logprobs"] = {"content": logprobs}
        yield chunk({"content": text or ""}, **more)
    for index, call in enumerate(message.get("tool_calls") or ()):
        named = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [named]})
        for part in _pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, finish_reason=choice["finish_reason"])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": reply["usage"]}


_STARTS: dict[str, tuple[str, str, Any]] = {
    "text": ("text", "text_delta", ""),
    "thinking": ("thinking", "thinking_delta", ""),
    "tool_use": ("input", "input_json_delta", {}),
}
"""For each type of Anthropic's blocks: the field that grows, its deltas' type, its first value."""


def _messages(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {**reply["usage"], "output_tokens": 1}
    begun = {**reply, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(reply["content"]):
        field, kind, start = _STARTS[block["type"]]
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, field: start},
        }
        whole = block[field]
        text = whole if isinstance(whole, str) else orjson.dumps(whole).decode()
        name = field if isinstance(whole, str) else "partial_json"
        for part in _pieces(text):
            delta = {"type": kind, name: part}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    output = {"output_tokens": reply["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": delta, "usage": output}
    yield {"type": "message_stop"}


def _responses(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(reply["output"]):
        at = {"output_index": index}
        parts = item.get("content") or []
        begun = {**item, "content": []} if parts else item
        yield {"type": "response.output_item.added", **at, "item": begun}
        for number, part in enumerate(parts):
            where = {**at, "content_index": number, "item_id": item["id"]}
            yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
            for text in _pieces(part["text"]):
                yield {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
            yield {"type": "response.content_part.done", **where, "part": part}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": f"response.{reply['status']}", "response": reply}
