"""Requests and replies of the model server, in each API's format."""

from __future__ import annotations

import base64
import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
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
    "response",
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
        ids += encode(f"{message.get('role', message.get('type'))}: ")
        for part in request.parts(index):
            if part["type"] in _TEXTS:
                ids += encode(part["text"])
            elif part["type"] in _PICTURES:
                ids += [IMAGE] * TOKENS_PER_IMAGE
            else:
                ids += encode(orjson.dumps(part).decode())
        ids.append(END_OF_TURN)
    return ids + encode("assistant: ")


# Requests and replies.

Api = Literal["", "chat", "messages", "responses"]

_TEXTS = ("text", "input_text", "output_text")
_PICTURES = ("image", "image_url", "input_image", "computer_screenshot")
_PATHS: tuple[tuple[Api, str], ...] = (
    ("chat", r"/v1/chat/completions"),
    ("chat", r"/openai/deployments/(?P<model>[^/]+)/chat/completions"),
    ("messages", r"/v1/messages"),
    ("messages", r"/model/(?P<model>[^/]+)/invoke"),
    (
        "messages",
        r"/(?:v1/)?projects/[\w-]+/locations/[\w-]+/publishers/anthropic/models/(?P<model>[^/]+):rawPredict",
    ),
    ("responses", r"/v1/responses"),
)
"""The paths of each API: the vendor's own, Azure's, Bedrock's and Vertex's."""


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

    @functools.cached_property
    def _route(self) -> tuple[Api, str]:
        for api, pattern in _PATHS:
            if found := re.fullmatch(pattern, self.path):
                return api, urllib.parse.unquote(found.groupdict().get("model", ""))
        return "", ""

    @property
    def api(self) -> Api:
        """The API that it speaks; empty for other requests."""
        return self._route[0]

    @property
    def model(self) -> str:
        """The requested model."""
        return self._route[1] or str(self.json.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the provider's format. For a Responses request, its input items."""
        messages = self.json["input" if self.api == "responses" else "messages"]
        return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages

    @property
    def text(self) -> str:
        """The text of the last message."""
        return "\n".join(part["text"] for part in self.parts(-1) if part["type"] in _TEXTS)

    @property
    def tools(self) -> list[str]:
        """The names of the offered tools. For a provider's own tool, its type."""
        return [
            tool.get("function", tool).get("name", tool.get("type"))
            for tool in self.json.get("tools", ())
        ]

    @property
    def images(self) -> list[bytes]:
        """All pictures of the conversation, in order."""
        return [
            _picture(part)
            for index in range(len(self.messages))
            for part in self.parts(index)
            if part["type"] in _PICTURES
        ]

    def parts(self, index: int) -> list[dict[str, Any]]:
        """Return the parts of a message, as a list even for plain text.

        The parts of tool results are included.
        """
        message = self.messages[index]
        return [
            inner
            for part in _parts(message.get("content") or message.get("output"))
            for inner in (_parts(part.get("content")) if part["type"] == "tool_result" else [part])
        ]


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [content] if isinstance(content, dict) else list(content or ())


def _picture(part: Mapping[str, Any]) -> bytes:
    if part["type"] == "image":
        return base64.b64decode(part["source"]["data"])
    url = part["image_url"]
    return base64.b64decode((url["url"] if isinstance(url, dict) else url).partition(",")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A reply for the server to send."""

    text: str = ""
    """The model's text. It is cut at the request's token limit; each character is one token."""
    _: dataclasses.KW_ONLY
    calls: Sequence[Mapping[str, Any]] = ()
    """Tool calls: `{"name": "click", "arguments": {...}}`. Other fields are added to the call as
    the API has it; for OpenAI's computer tool, `{"type": "computer_call", "actions": [...]}`."""
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
    cut: Literal["", "before", "within", "stall"] = ""
    """Whether to break the connection before the answer, or half way through it; `stall` stops half
    way and leaves it open."""

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
    text, ids = _generate(reply, body.get("max_tokens") or body.get("max_completion_tokens"))
    finish_reason = "stop" if ids[-1:] == [END_OF_TURN] else "length"
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if reply.calls:
        finish_reason = "tool_calls"
        message["content"] = text or None
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call["name"], "arguments": _json_text(call["arguments"])},
            }
            for index, call in enumerate(reply.calls)
        ]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
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
    text, ids = _generate(reply, request.json["max_tokens"])
    finish_reason = "end_turn" if ids[-1:] == [END_OF_TURN] else "max_tokens"
    thinking = [{"type": "thinking", "thinking": reply.reasoning, "signature": "0"}]
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}_{index}", **_but(call, "arguments")}
        | {"input": call["arguments"]}
        for index, call in enumerate(reply.calls)
    ]
    if calls:
        finish_reason = "tool_use"
    said = [{"type": "text", "text": text}] if text or not calls else []
    system = encode(str(request.json.get("system", "")))
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [*(thinking if reply.reasoning else []), *said, *calls],
        "stop_reason": reply.finish_reason or finish_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(system) + len(prompt_ids(request)),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": len(ids),
        },
    }


def response(request: ModelRequest, reply: Reply, number: int) -> dict[str, Any]:
    """Return a reply in the format of OpenAI's Responses."""
    body = request.json
    text, ids = _generate(reply, body.get("max_output_tokens"))
    complete = ids[-1:] == [END_OF_TURN]
    output: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
        output.append({**thought, "encrypted_content": "c2VjcmV0"})
    if text or not reply.calls:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        said = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        output.append({**said, "status": "completed", "content": [part]})
    for index, call in enumerate(reply.calls):
        made = {"id": f"item_{number}_{index}", "call_id": f"call_{number}_{index}"}
        made["status"] = "completed"
        if call.get("type") == "computer_call":
            output.append({**made, "pending_safety_checks": [], **call})
        else:
            arguments = _json_text(call["arguments"])
            output.append(made | {"type": "function_call", **call, "arguments": arguments})
    prompt = len(prompt_ids(request))
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "status": "completed" if complete else "incomplete",
        "error": None,
        "incomplete_details": None if complete else {"reason": "max_output_tokens"},
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": len(ids),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + len(ids),
        },
    }


def _json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


def _but(call: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != name}


def _generate(reply: Reply, max_tokens: int | None) -> tuple[str, list[int]]:
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
