"""The bodies of answers, in the shapes of vLLM, OpenAI and Anthropic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webtraj.testing.model_server import tokens
from webtraj.testing.model_server.exchange import ModelRequest, Reply

__all__ = ["OPENAI_FIELDS", "anthropic_error", "anthropic_message", "chat_completion", "error"]

OPENAI_FIELDS = frozenset(
    {
        "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
        "messages", "metadata", "model", "n", "parallel_tool_calls", "presence_penalty",
        "reasoning_effort", "response_format", "seed", "service_tier", "stop", "store",
        "stream", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    }
)  # fmt: skip
"""What a request to OpenAI may have; any other field is refused."""

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(status: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an error as vLLM and OpenAI put it."""
    own = {"message": fields["message"], "type": fields.get("type") or "BadRequestError"}
    code = fields.get("code")
    code = status if code is None else code
    return {"error": {**own, "param": fields.get("param"), "code": code}}


def anthropic_error(status: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an error as Anthropic puts it."""
    kind = fields.get("type") or _TYPES.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": fields["message"]},
        "request_id": "req_0",
    }


def chat_completion(
    request: ModelRequest, reply: Reply, number: int, *, like_vllm: bool
) -> dict[str, Any]:
    """Returns a reply as vLLM or OpenAI puts it."""
    body = request.json
    prompt = tokens.prompt_ids(request)
    text, ids = _generated(reply, body.get("max_tokens") or body.get("max_completion_tokens"))
    finish_reason = "stop" if ids[-1:] == [tokens.END_OF_TURN] else "length"
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "logprobs": _logprobs(ids) if body.get("logprobs") else None,
        "finish_reason": reply.finish_reason or finish_reason,
    }
    answer = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt) + len(ids),
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
    if like_vllm:
        wants_ids = body.get("return_token_ids")
        choice["message"]["reasoning"] = reply.reasoning or None
        choice["stop_reason"] = None
        choice["token_ids"] = ids if wants_ids else None
        answer["prompt_token_ids"] = prompt if wants_ids else None
    return answer


def anthropic_message(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Returns a reply as Anthropic puts it."""
    text, ids = _generated(reply, request.json["max_tokens"])
    finish_reason = "end_turn" if ids[-1:] == [tokens.END_OF_TURN] else "max_tokens"
    thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": "0"}]
    system = tokens.encode(str(request.json.get("system", "")))
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*(thinking if reply.reasoning else []), {"type": "text", "text": text}],
        "stop_reason": reply.finish_reason or finish_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(system) + len(tokens.prompt_ids(request)),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": len(ids),
        },
    }


def _generated(reply: Reply, max_tokens: int | None) -> tuple[str, list[int]]:
    """Returns the text and the token ids that fit."""
    ids = [*tokens.encode(reply.text), tokens.END_OF_TURN][:max_tokens]
    return tokens.decode(ids), ids


def _logprobs(ids: list[int]) -> dict[str, Any]:
    content = []
    for number in ids:
        token = tokens.decode([number])
        content.append(
            {
                "token": token,
                "logprob": tokens.logprob(number),
                "bytes": list(token.encode("utf-8", "surrogatepass")),
                "top_logprobs": [],
            }
        )
    return {"content": content}
