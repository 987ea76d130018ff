"""What servers answer, read: OpenAI's chat completions as vLLM extends them, Anthropic's messages.

Nothing is guessed. A body that is no reply is a failure, never an empty text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.failures import AttemptError

__all__ = ["Reply", "read_anthropic", "read_openai", "reasoning_of"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply, in the terms of `ModelCall`."""

    text: str
    finish_reason: str
    usage: Mapping[str, int]
    prompt_token_ids: tuple[int, ...] = ()
    completion_token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()

    @property
    def num_tokens(self) -> int | None:
        """Tokens there and back, as the provider counts them for its limits; None if unknown."""
        if "total_tokens" in self.usage:
            return self.usage["total_tokens"]
        if "output_tokens" not in self.usage:
            return None
        # What Anthropic reads from its cache is counted apart, and not limited.
        names = ("input_tokens", "cache_creation_input_tokens", "output_tokens")
        return sum(self.usage.get(name, 0) for name in names)


def read_openai(body: Any) -> Reply:
    """Reads a chat completion; of several choices, the first.

    Raises:
        AttemptError: It is none.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        completion_ids = tuple(choice.get("token_ids") or ())
        logprobs = _logprobs(choice.get("logprobs"))
        return Reply(
            # A refusal is what the model says, too.
            text=_text(message.get("content") or message.get("refusal")),
            finish_reason=_text(choice.get("finish_reason")),
            usage=_counts(body.get("usage")),
            prompt_token_ids=tuple(body.get("prompt_token_ids") or ()),
            completion_token_ids=completion_ids,
            # Without token ids, or with others than those, they would belong to nothing.
            logprobs=logprobs if len(logprobs) == len(completion_ids) else (),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _no_reply("chat completion", body, error) from error


def read_anthropic(body: Any) -> Reply:
    """Reads a message.

    Raises:
        AttemptError: It is none.
    """
    try:
        texts = [_text(block["text"]) for block in body["content"] if block["type"] == "text"]
        return Reply(
            text="".join(texts),
            finish_reason=_text(body["stop_reason"]),
            usage=_counts(body.get("usage")),
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _no_reply("message", body, error) from error


def reasoning_of(call: trajectory_lib.ModelCall) -> str:
    """Returns what a model thought before its reply, where a server tells it apart from that.

    vLLM does so with a reasoning parser, Anthropic in blocks of thinking. Empty if there is none.
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
    return ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _logprobs(logprobs: Any) -> tuple[float, ...]:
    content = logprobs.get("content") if logprobs else None
    return tuple(float(token["logprob"]) for token in content or ())


def _counts(usage: Any, prefix: str = "") -> dict[str, int]:
    """Returns the counts of a usage; those in an inner object are named `outer.inner`."""
    counts: dict[str, int] = {}
    for name, value in (usage or {}).items():
        if isinstance(value, Mapping):
            counts |= _counts(value, f"{prefix}{name}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            counts[prefix + name] = value
    return counts


def _no_reply(what: str, body: Any, error: Exception) -> AttemptError:
    keys = sorted(map(str, body)) if isinstance(body, Mapping) else type(body).__name__
    return AttemptError(
        f"The model server answered what is no {what} ({type(error).__name__}: {error}); it has "
        f"{keys}. Check that base_url is that of a model server.",
        response=body,
    )
