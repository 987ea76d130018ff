"""Requests and replies of the model server, in each API's format."""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import orjson

__all__ = [
    "END_OF_TURN",
    "IMAGE",
    "ModelRequest",
    "OPENAI_FIELDS",
    "Reply",
    "TOKENS_PER_IMAGE",
    "anthropic_error",
    "anthropic_message",
    "chat_completion",
    "decode",
    "encode",
    "error",
    "logprob",
    "prompt_ids",
]

# The fake model's tokenizer: every character is a token with its code point as id.
# So token ids decode to the text, and tests can check that none was lost.

END_OF_TURN = 0x110000
"""The token that ends a message: the first number that is not a code point."""
IMAGE = 0x110001
"""The token that represents a picture, repeated several times."""
TOKENS_PER_IMAGE = 64


def encode(text: str) -> list[int]:
    """Return the token ids of a text."""
    return list(map(ord, text))


def decode(ids: Iterable[int]) -> str:
    """Return the text of token ids, without the special ones.

    >>> decode([*encode("wait"), END_OF_TURN])
    'wait'
    """
    return "".join(chr(number) for number in ids if number < END_OF_TURN)


def logprob(token_id: int) -> float:
    """Return a token's fixed log-probability."""
    return -(token_id % 7 + 1) / 8


def prompt_ids(request: ModelRequest) -> list[int]:
    """Return the token ids of a conversation, as the fake model sees it."""
    ids: list[int] = []
    for index, message in enumerate(request.messages):
        ids += encode(f"{message['role']}: ")
        for part in request.parts(index):
            if part["type"] == "text":
                ids += encode(part["text"])
            else:
                ids += [IMAGE] * TOKENS_PER_IMAGE
        ids.append(END_OF_TURN)
    return ids + encode("assistant: ")


# Requests and replies.


@dataclasses.dataclass(frozen=True)
class ModelRequest:
    """A request that the server received."""

    method: str
    path: str
    """The path, without the query."""
    headers: Mapping[str, str]
    """The headers, by lower-case name."""
    body: bytes
    query: str = ""
    """The query string, after `?`."""

    @functools.cached_property
    def json(self) -> Any:
        """The body as JSON data."""
        return orjson.loads(self.body)

    @property
    def model(self) -> str:
        """The requested model."""
        return str(self.json.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, in the provider's format."""
        messages: list[dict[str, Any]] = self.json["messages"]
        return messages

    @property
    def text(self) -> str:
        """The text of the last message."""
        return "\n".join(part["text"] for part in self.parts(-1) if part["type"] == "text")

    @property
    def images(self) -> list[bytes]:
        """All pictures of the conversation, in order."""
        return [
            _picture(part)
            for index in range(len(self.messages))
            for part in self.parts(index)
            if part["type"] in ("image", "image_url")
        ]

    def parts(self, index: int) -> list[dict[str, Any]]:
        """Return the parts of a message, as a list even for plain text."""
        content = self.messages[index].get("content") or []
        return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _picture(part: Mapping[str, Any]) -> bytes:
    if part["type"] == "image":
        return base64.b64decode(part["source"]["data"])
    return base64.b64decode(part["image_url"]["url"].partition(",")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A reply for the server to send."""

    text: str = ""
    """The model's text. It is cut at the request's token limit; each character is one token."""
    _: dataclasses.KW_ONLY
    reasoning: str = ""
    """The reasoning, for servers that return it separately."""
    finish_reason: str = ""
    """The finish reason; by default it depends on the text's length."""
    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Additional headers."""
    body: bytes | None = None
    """A raw body to send instead."""
    failure: Mapping[str, Any] | None = None
    """The fields of an error to send instead: `message`, `type`, `code`, `param`."""
    delay: float = 0.0
    """The delay in seconds; infinity waits until the client goes away."""
    cut: Literal["", "before", "within"] = ""
    """Whether to break the connection before the answer, or half way through it."""

    @classmethod
    def error(
        cls,
        status: int,
        message: str = "Out of order.",
        *,
        type: str = "",  # noqa: A002
        code: str | int | None = None,
        param: str | None = None,
        retry_after: float | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Make an error, in the server's format.

        >>> Reply.error(429, retry_after=2).headers
        {'retry-after': '2'}
        """
        more = {} if retry_after is None else {"retry-after": str(retry_after)}
        fields = {"message": message, "type": type, "code": code, "param": param}
        return cls(status=status, headers={**(headers or {}), **more}, failure=fields)


# Response bodies in the formats of vLLM, OpenAI and Anthropic.

OPENAI_FIELDS = frozenset(
    {
        "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
        "messages", "metadata", "model", "n", "parallel_tool_calls", "presence_penalty",
        "reasoning_effort", "response_format", "seed", "service_tier", "stop", "store",
        "stream", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    }
)  # fmt: skip
"""The fields that OpenAI accepts; any other is refused."""

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
    """Return an error in vLLM's and OpenAI's format."""
    own = {"message": fields["message"], "type": fields.get("type") or "BadRequestError"}
    code = fields.get("code")
    code = status if code is None else code
    return {"error": {**own, "param": fields.get("param"), "code": code}}


def anthropic_error(status: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error in Anthropic's format."""
    kind = fields.get("type") or _TYPES.get(status, "api_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": fields["message"]},
        "request_id": "req_0",
    }


def chat_completion(
    request: ModelRequest, reply: Reply, number: int, *, like_vllm: bool
) -> dict[str, Any]:
    """Return a reply in vLLM's or OpenAI's format."""
    body = request.json
    prompt = prompt_ids(request)
    text, ids = _generated(reply, body.get("max_tokens") or body.get("max_completion_tokens"))
    finish_reason = "stop" if ids[-1:] == [END_OF_TURN] else "length"
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
    """Return a reply in Anthropic's format."""
    text, ids = _generated(reply, request.json["max_tokens"])
    finish_reason = "end_turn" if ids[-1:] == [END_OF_TURN] else "max_tokens"
    thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": "0"}]
    system = encode(str(request.json.get("system", "")))
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*(thinking if reply.reasoning else []), {"type": "text", "text": text}],
        "stop_reason": reply.finish_reason or finish_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(system) + len(prompt_ids(request)),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": len(ids),
        },
    }


def _generated(reply: Reply, max_tokens: int | None) -> tuple[str, list[int]]:
    """Return the text and token ids within the limit."""
    ids = [*encode(reply.text), END_OF_TURN][:max_tokens]
    return decode(ids), ids


def _logprobs(ids: list[int]) -> dict[str, Any]:
    content = []
    for number in ids:
        token = decode([number])
        content.append(
            {
                "token": token,
                "logprob": logprob(number),
                "bytes": list(token.encode("utf-8", "surrogatepass")),
                "top_logprobs": [],
            }
        )
    return {"content": content}
