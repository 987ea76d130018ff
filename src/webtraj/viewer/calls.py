"""Model calls as JSON data: what the model was shown, what it said, and how sure it was."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.replies import reasoning_of
from webtraj.store.blobs import LazyBlob
from webtraj.viewer.values import Values, number

__all__ = ["call_data", "decision_data"]

_DATA_URI = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)
_SHOWN_ELSEWHERE = frozenset(
    ("logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids", "content_token_ids")
)
"""Keys of a response whose values are as long as prompt or reply, and stand in `tokens`."""


def decision_data(values: Values, decision: trajectory_lib.Decision | None) -> Any:
    """Returns a decision as JSON data; None if there is none."""
    if decision is None:
        return None
    return {
        "thought": values.text(decision.thought),
        "memory": values.text(decision.memory),
        "parse_error": values.text(decision.parse_error),
        "metadata": values.data(decision.metadata),
        "calls": [call_data(values, call) for call in decision.model_calls],
    }


def call_data(values: Values, call: trajectory_lib.ModelCall) -> dict[str, Any]:
    """Returns a model call as JSON data."""
    return {
        "model": values.text(call.model),
        "provider": values.text(call.provider),
        "policy_version": values.text(call.policy_version),
        "messages": [_message(values, message) for message in call.messages],
        "reply": values.text(call.text),
        "reasoning": values.text(reasoning_of(call)),
        "finish_reason": values.text(call.finish_reason),
        "usage": values.data(call.usage),
        "latency": number(call.latency),
        "start_time": number(call.start_time),
        "sampling": values.data(call.sampling),
        "tokens": list(_tokens(values, call)),
        "prompt_tokens": len(call.prompt_token_ids),
        "response": values.data(_short(call.response)),
        "error": values.text(call.error),
    }


def _message(values: Values, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        return {"role": "", "parts": [{"text": values.text(message)}]}
    content = message.get("content")
    parts = content if isinstance(content, (list, tuple)) else [content]
    rest = {name: item for name, item in message.items() if name not in ("role", "content")}
    made = [_part(values, part) for part in parts if part is not None]
    if rest:
        made.append({"text": values.text(rest), "json": True})
    return {"role": values.text(message.get("role")), "parts": made}


def _part(values: Values, part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": values.text(part)}
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": text, **rest} if not rest:
            return {"text": values.text(text)}
        case {"type": "image_url", "image_url": {"url": data}}:
            pass
        case {"type": "image", "source": {"data": data}}:
            pass
        case bytes() | LazyBlob():
            data = part
        case _:
            data = None
    shown = values.picture(_picture_bytes(data))
    if shown is not None:
        return {"image": shown["url"], "width": shown["width"], "height": shown["height"]}
    return {"text": values.text(part), "json": True}


def _picture_bytes(data: Any) -> Any:
    """Returns the bytes of a picture that stands in text; what is a URL elsewhere stays one."""
    if not isinstance(data, str):
        return data
    encoded = data[found.end() :] if (found := _DATA_URI.match(data)) else data
    if "://" in encoded[:20]:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None


def _tokens(values: Values, call: trajectory_lib.ModelCall) -> Iterator[dict[str, Any]]:
    """Yields the tokens of the reply; their texts where the server has told them."""
    ids, logprobs = call.completion_token_ids, call.logprobs
    said = _told(call.response)
    count = max(len(ids), len(logprobs))
    if count and len(said) != count:
        said = []  # They would belong to other tokens.
    for at in range(count or len(said)):
        told = said[at] if said else {}
        logprob = logprobs[at] if at < len(logprobs) else told.get("logprob")
        yield {
            "text": values.text(told.get("token", "")),
            "id": values.data(ids[at]) if at < len(ids) else None,
            "logprob": number(logprob) if isinstance(logprob, (int, float)) else None,
            "top": values.data(told.get("top_logprobs") or []),
        }


def _told(response: Any) -> Sequence[Mapping[str, Any]]:
    match response:
        case {"choices": [{"logprobs": {"content": [*content]}}, *_]}:
            return content if all(isinstance(item, Mapping) for item in content) else []
    return []


def _short(response: Any) -> Any:
    """Returns a response without what stands elsewhere already."""
    if isinstance(response, Mapping):
        return {k: _short(v) for k, v in response.items() if k not in _SHOWN_ELSEWHERE}
    return [_short(item) for item in response] if isinstance(response, list) else response
