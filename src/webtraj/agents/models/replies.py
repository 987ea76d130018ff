"""Parse the replies of model servers, and classify their failures."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.base import ToolCall
from webtraj.environments.actions.dialects.replies import has_no_arguments

__all__ = [
    "AttemptError",
    "OVERFLOW_TEXTS",
    "Reply",
    "ServerError",
    "failure_of",
    "items_of",
    "parse_json",
    "read_anthropic",
    "read_openai",
    "read_responses",
    "reasoning_of",
    "sound_json",
    "tool_calls_of",
]

_T = TypeVar("_T")

# The meaning of a server's refusal: whether a retry can help, and whether the context is full.
#
# This is decided by the HTTP status and the fields of the error's body (`code`, `type`, `param`).
# Message text is used for one purpose only: to recognize a conversation that is too long, on
# servers without a field for it. All such texts are in `OVERFLOW_TEXTS`.

_HEALING = frozenset({408, 409, 425, 429})
"""The statuses below 500 for which a retry may succeed."""
_LASTING = frozenset({501, 505})
"""Those from 500 on for which it cannot: the server lacks what was asked for (RFC 9110, 15.6)."""
_HOPELESS_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
"""Codes for which waiting does not help, although their status is 429."""

_OVERFLOW_STATUSES = frozenset({400, 413, 422})
_OVERFLOW_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, OpenRouter, DeepSeek, Groq
        "string_above_max_length",  # OpenAI: one message is too long
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic: more bytes than it takes
        "context_window_exceeded",
        "ContextWindowExceededError",  # LiteLLM
    }
)
_OVERFLOW_PARAMS = frozenset({"input_tokens", "input_text"})
"""vLLM names the exceeded quantity as the parameter."""

OVERFLOW_TEXTS = (
    "prompt is too long",  # Anthropic
    "input length and `max_tokens` exceed context limit",  # Anthropic
    "maximum context length",  # vLLM before 0.12, Mistral, Together, SGLang
    "longer than the maximum model length",  # vLLM, of pictures
    "longer than the model's context length",  # SGLang
    "exceeds the maximum number of tokens allowed",  # Gemini
    "`inputs` tokens + `max_new_tokens` must be",  # text-generation-inference
    "exceeds the available context size",  # llama.cpp before it had a type
)
"""Parts of servers' messages that mean that a conversation is too long."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServerError:
    """The body of an error response. Missing fields are empty."""

    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""

    @classmethod
    def of(cls, body: Any) -> ServerError | None:
        """Parse the formats of OpenAI, Anthropic, vLLM and FastAPI; None if it is not an error."""
        if not isinstance(body, Mapping):
            return None
        error = body.get("error") or body.get("detail")
        if error is None and body.get("object") == "error":
            error = body
        if error is None:
            return None
        if not isinstance(error, Mapping):
            return cls(message=error if isinstance(error, str) else orjson.dumps(error).decode())
        fields = {name: error.get(name) for name in ("message", "type", "code", "param")}
        return cls(**{name: "" if value is None else str(value) for name, value in fields.items()})

    @property
    def is_overflow(self) -> bool:
        """Whether it says that the conversation is too long."""
        return (
            not _OVERFLOW_CODES.isdisjoint((self.code, self.type))
            or self.param in _OVERFLOW_PARAMS
            or any(text in self.message for text in OVERFLOW_TEXTS)
        )

    def __str__(self) -> str:
        names = [name for name in (self.type, self.code, self.param) if name]
        return " ".join(filter(None, [repr(self.message), f"({', '.join(names)})" * bool(names)]))


class AttemptError(Exception):
    """An attempt without a reply. Internal to this package: callers get a `ModelError`."""

    def __init__(
        self,
        message: str,
        *,
        error_class: type[errors.ModelError] = errors.ModelUnavailableError,
        kind: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        response: Any = None,
    ) -> None:
        """Initialize the failure.

        Args:
            message: What was requested, what came back, and what to do.
            error_class: The error for callers; only `ModelUnavailableError` is retried.
            kind: See `FailedAttempt.error`; empty if nothing was sent.
            status: The HTTP status of an error.
            retry_after: Seconds that the server asks to wait.
            response: The body of the answer, if any.
        """
        super().__init__(message)
        self.error_class = error_class
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.response = response

    @property
    def may_heal(self) -> bool:
        """Whether another attempt may succeed."""
        return self.error_class is errors.ModelUnavailableError


def failure_of(
    status: int,
    headers: Mapping[str, str],
    body: Any,
    *,
    url: str,
    key_hint: str,
    retry_after: float | None,
) -> AttemptError | None:
    """Return the failure that an answer reports; None if it reports none.

    Args:
        status: The HTTP status.
        headers: The headers, by lower-case name.
        body: The body: JSON data if it is JSON, else text.
        url: The address that answered, for the message.
        key_hint: How to pass an API key, for the message.
        retry_after: Seconds that the server asks to wait.
    """
    error = ServerError.of(body)
    if 200 <= status < 300:
        if error is None or not body.get("error"):
            return None
        # A gateway may answer 200 and then fail when the server behind it does.
        status = int(error.code) if error.code.isdecimal() and len(error.code) == 3 else 502
    error = error or ServerError(
        message=" ".join(body.split())[:500] if isinstance(body, str) else ""
    )
    said = f"{url} answered HTTP {status}: {error}."
    failed = functools.partial(AttemptError, kind="status", status=status, response=body)
    if status == 413 or (status in _OVERFLOW_STATUSES and error.is_overflow):
        message = f"The conversation is too long for the model. {said} Send less of its history."
        return failed(message, error_class=errors.ContextOverflowError)
    if _may_heal(status, headers, error):
        message = f"The model server cannot answer now. {said}"
        return failed(message, retry_after=retry_after)
    hint = _HINTS.get(status, "Change the request; the same one would be refused again.")
    message = f"The model server refuses the request. {said} {hint.format(key=key_hint)}"
    return failed(message, error_class=errors.ModelRefusedError)


def _may_heal(status: int, headers: Mapping[str, str], error: ServerError) -> bool:
    if not _HOPELESS_CODES.isdisjoint((error.code, error.type)):
        return False
    match headers.get("x-should-retry"):  # OpenAI and Anthropic say it outright.
        case "true":
            return True
        case "false":
            return False
    return status in _HEALING or (status >= 500 and status not in _LASTING)


_HINTS = {
    401: "Pass a valid API key: {key}.",
    403: "Pass an API key with permission for this: {key}.",
    404: "Check base_url, and that the server has the model.",
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "Redirects are not followed: pass the final base_url."
    ),
}


def parse_json(data: bytes) -> Any:
    r"""Return a body as JSON data, or as text if it is not JSON.

    A byte order mark is ignored. Some servers write what JSON or UTF-8 forbids: NaN and infinities
    become null, lone surrogates and invalid bytes become U+FFFD.

    >>> parse_json(b'\xef\xbb\xbf{"a": NaN}')
    {'a': None}
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data.decode("utf-8-sig", "replace")
    try:
        return sound_json(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return text


_SURROGATE = re.compile("[\ud800-\udfff]")


def sound_json(value: Any) -> Any:
    """Return parsed JSON with invalid numbers and text replaced; see `parse_json`."""
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case float():
            return value if math.isfinite(value) else None
        case int() if not -(2**63) <= value < 2**64:
            return float(value) if abs(value) < 1e308 else None  # As orjson reads it.
        case list():
            return [sound_json(item) for item in value]
        case dict():
            return {sound_json(key): sound_json(item) for key, item in value.items()}
    return value


# Parsing answers: OpenAI's chat completions with vLLM's extensions, OpenAI's responses, and
# Anthropic's messages.
#
# Nothing is guessed. A body that is not a reply is a failure, never an empty text. A reply is not
# sampled again for an optional field that is malformed: the field is left empty, and named in
# `Reply.dropped`.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply, in the terms of `ModelCall`."""

    text: str
    finish_reason: str
    usage: Mapping[str, int]
    prompt_token_ids: tuple[int, ...] = ()
    completion_token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    dropped: tuple[str, ...] = ()
    """The optional fields that were malformed."""

    @property
    def num_tokens(self) -> int | None:
        """The tokens that the provider counts for its limits; None if unknown."""
        if "total_tokens" in self.usage:
            return self.usage["total_tokens"]
        if "output_tokens" not in self.usage:
            return None
        # Anthropic counts cached tokens separately, and does not limit them.
        names = ("input_tokens", "cache_creation_input_tokens", "output_tokens")
        return sum(self.usage.get(name, 0) for name in names)


def read_openai(body: Any) -> Reply:
    """Parse a chat completion. Only the first choice is read.

    Raises:
        AttemptError: The body is not a chat completion.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        # A refusal is the model's text, too.
        text = _text(message.get("content")) or _text(message.get("refusal"))
        fields = _Fields()
        ids = fields.ids("token_ids", choice.get("token_ids"))
        return Reply(
            text=text,
            finish_reason=fields.word("finish_reason", choice.get("finish_reason")),
            usage=fields.counts(body.get("usage")),
            prompt_token_ids=fields.ids("prompt_token_ids", body.get("prompt_token_ids")),
            completion_token_ids=ids,
            logprobs=fields.logprobs(choice.get("logprobs"), ids),
            dropped=tuple(fields.dropped),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _no_reply("chat completion", body, error) from error


def read_anthropic(body: Any) -> Reply:
    """Parse a message.

    Raises:
        AttemptError: The body is not a message.
    """
    try:
        if body["content"] is None:
            raise TypeError("content is null")
        text, fields = _text(body["content"]), _Fields()
        return Reply(
            text=text,
            finish_reason=fields.word("stop_reason", body.get("stop_reason")),
            usage=fields.counts(body.get("usage")),
            dropped=tuple(fields.dropped),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _no_reply("message", body, error) from error


def read_responses(body: Any) -> Reply:
    """Parse a response of OpenAI's Responses API.

    Raises:
        AttemptError: The body is not a response.
    """
    try:
        items = [item for item in map(_mapping, body["output"]) if item.get("type") == "message"]
        cut = _mapping(body.get("incomplete_details")).get("reason")
        fields = _Fields()
        return Reply(
            text="".join(_text(item.get("content")) for item in items),
            finish_reason=fields.word("status", cut or body.get("status")),
            usage=fields.counts(body.get("usage")),
            dropped=tuple(fields.dropped),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _no_reply("response", body, error) from error


_TEXTS = ("text", "output_text", "refusal")
"""The types of parts with the model's own text; others hold its reasoning, calls or references."""


def _text(content: Any) -> str:
    """Return the text of a reply's content: a text, or parts. Raises `TypeError`."""
    match content:
        case None:
            return ""
        case str():
            return content
        case Mapping():
            own = (content.get("type") or "text") in _TEXTS
            return _text(content.get("text") or content.get("refusal")) if own else ""
        case [*parts]:
            return "".join(map(_text, parts))
    raise TypeError(f"expected text, got {type(content).__name__}")


_MOST_TOKENS = 2**53
"""JSON's numbers are exact below it."""


class _Fields:
    """A reader of a reply's optional fields, which notes malformed ones."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def word(self, name: str, value: Any) -> str:
        """Return a finish reason. SGLang may write one as an object with a `type`."""
        word = value.get("type") if isinstance(value, Mapping) else value
        return word if isinstance(word, str) else self._without(name, value, "")

    def ids(self, name: str, value: Any) -> tuple[int, ...]:
        """Return token ids."""
        found = _list(value)
        sound = found and all(type(item) is int and item >= 0 for item in found)
        return tuple(found) if sound else self._without(name, value, ())

    def logprobs(self, value: Any, ids: tuple[int, ...]) -> tuple[float, ...]:
        """Return the log-probability of each token id; empty unless every token has an id."""
        tokens = _list(_mapping(value).get("content"))
        found: list[Any] = [_mapping(token).get("logprob") for token in tokens]
        if not ids:
            return ()  # Not every server returns them, and they are useless without.
        sound = len(found) == len(ids) and all(
            type(item) in (int, float) and math.isfinite(item) for item in found
        )
        return tuple(map(float, found)) if sound else self._without("logprobs", value, ())

    def counts(self, usage: Any) -> dict[str, int]:
        """Return the counts of a usage object; nested counts are named `outer.inner`."""
        if not isinstance(usage, Mapping):
            return self._without("usage", usage, {})
        return dict(self._counts(usage, ""))

    def _counts(self, usage: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, int]]:
        for name, value in usage.items():
            # Others may be a price or the service's tier.
            counts_tokens = str(name).endswith("tokens")
            whole = counts_tokens and type(value) is float and value.is_integer()
            if isinstance(value, Mapping):
                yield from self._counts(value, f"{prefix}{name}.")
            elif (whole or type(value) is int) and 0 <= value < _MOST_TOKENS:
                yield f"{prefix}{name}", int(value)
            elif counts_tokens:
                self._without(f"usage.{prefix}{name}", value, None)

    def _without(self, name: str, value: Any, empty: _T) -> _T:
        if value:
            self.dropped.append(name)
        return empty


def tool_calls_of(response: Any) -> tuple[ToolCall, ...]:
    """Return the tool calls of a raw response; empty if it has none.

    Supports chat completions (`tool_calls`), Anthropic's messages (blocks `tool_use`) and OpenAI's
    responses (items `computer_call` and `function_call`).
    """
    calls = []
    for call in _list(_message(response).get("tool_calls")):
        function = _mapping(_mapping(call).get("function"))
        made = ToolCall(
            str(_mapping(call).get("id") or ""),
            str(function.get("name") or ""),
            _arguments(function.get("arguments")),
            _mapping(call),
        )
        calls.append(made)
    for item in items_of(response):
        match _mapping(item).get("type"):
            case "tool_use":
                id_, name, arguments = item.get("id"), item.get("name"), item.get("input")
            case "computer_call":
                actions = _list(item.get("actions")) or [item.get("action")]
                id_, name, arguments = item.get("call_id"), "computer", {"actions": actions}
            case "function_call":
                id_, name, arguments = item.get("call_id"), item.get("name"), item.get("arguments")
            case _:
                continue
        calls.append(ToolCall(str(id_ or ""), str(name), _arguments(arguments), item))
    return tuple(calls)


def _arguments(said: Any) -> Any:
    return {} if has_no_arguments(said) else said


def items_of(response: Any) -> tuple[Any, ...]:
    """Return the blocks of Anthropic's messages or the output items of OpenAI's responses."""
    body = _mapping(response)
    return tuple(_list(body.get("output")) or _list(body.get("content")))


def _message(response: Any) -> Mapping[str, Any]:
    choices = _list(_mapping(response).get("choices"))
    return _mapping(_mapping(choices[0]).get("message")) if choices else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def reasoning_of(call: trajectory_lib.ModelCall) -> str:
    """Return the model's reasoning, if the server separates it from the reply.

    vLLM separates it with a reasoning parser, Anthropic in thinking blocks, OpenAI's Responses API
    in summaries. Empty if there is none.
    """
    body = call.response
    if not isinstance(body, Mapping):
        return ""
    match body:
        case {"choices": [{"message": Mapping() as message}, *_]}:
            reasoning = message.get("reasoning") or message.get("reasoning_content")
            return reasoning if isinstance(reasoning, str) else ""
        case {"content": [*blocks]}:
            return "".join(
                block["thinking"]
                for block in blocks
                if isinstance(block, Mapping) and isinstance(block.get("thinking"), str)
            )
        case {"output": [*items]}:
            parts = [
                part
                for item in items
                if _mapping(item).get("type") == "reasoning"
                for part in (*_list(item.get("summary")), *_list(item.get("content")))
            ]
            return "\n".join(
                text for part in parts if isinstance(text := _mapping(part).get("text"), str)
            )
    return ""


def _no_reply(what: str, body: Any, error: Exception) -> AttemptError:
    keys = sorted(map(str, body)) if isinstance(body, Mapping) else type(body).__name__
    return AttemptError(
        f"The model server did not answer with a {what} ({type(error).__name__}: {error}); it sent "
        f"{keys}. Check that base_url is that of a model server.",
        kind="reply",
        response=body,
    )
