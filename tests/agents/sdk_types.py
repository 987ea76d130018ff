"""The vendors' SDKs as the other side: their types of requests and responses.

`accepted(request)` checks a request that a client sent against the SDK's types of parameters, and
that it has no field that they lack. `understood(request, body)` checks a reply of the fake server
against the SDK's type of the response.
"""

from __future__ import annotations

import functools
from typing import Any

import pydantic

_CLOUD_FIELDS = {"anthropic_version", "anthropic_beta"}
"""The fields that a cloud's gateway adds to the body of a message."""
_OWN_FIELDS = {"return_token_ids", "top_k", "min_p", "uuid"}
"""The fields of vLLM, which OpenAI's types lack."""


@functools.cache
def _types(api: str) -> tuple[pydantic.TypeAdapter[Any], Any]:
    if api == "messages":
        from anthropic.types.beta import BetaMessage
        from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming

        return pydantic.TypeAdapter(MessageCreateParamsNonStreaming), BetaMessage
    if api == "responses":
        from openai.types.responses import Response
        from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

        return pydantic.TypeAdapter(ResponseCreateParamsNonStreaming), Response
    from openai.types.chat import ChatCompletion
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return pydantic.TypeAdapter(CompletionCreateParamsNonStreaming), ChatCompletion


def accepted(request: Any) -> None:
    """Checks a request of the fake model server."""
    body = {k: v for k, v in request.json.items() if k not in _CLOUD_FIELDS | _OWN_FIELDS}
    body.setdefault("model", request.model)
    if request.api == "messages":
        # The newest version of the API has no sampling settings, and the SDK does not know others.
        sampled = [name for name in ("temperature", "top_p", "top_k") if name in request.json]
        version = request.json.get("anthropic_version") or request.headers["anthropic-version"]
        assert ("2023" in version) or not sampled
        body = {name: value for name, value in body.items() if name not in sampled}
    parameters, _ = _types(request.api)
    try:
        kept = _listed(parameters.validate_python(body))
    except pydantic.ValidationError as error:
        raise AssertionError(f"The SDK refuses the request: {str(error)[:2000]}") from None
    lost = _lost(_without_uuids(body), kept)
    assert not lost, f"The SDK has no fields {lost}."


def understood(request: Any, answer: Any) -> None:
    """Checks a reply of the fake model server to a request."""
    _, response = _types(request.api)
    read = response.model_validate(answer, strict=True)
    assert read.to_dict(mode="json", exclude_unset=True)


def _listed(value: Any) -> Any:
    """Returns data with its lazily checked iterables read."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [_listed(item) for item in value]


def _without_uuids(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_uuids(v) for k, v in value.items() if k not in _OWN_FIELDS}
    return [_without_uuids(item) for item in value] if isinstance(value, list) else value


def _lost(given: Any, kept: Any, path: str = "") -> list[str]:
    """Returns the fields that the SDK's types do not have."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [
            lost
            for name, value in given.items()
            if name != "input_schema"  # Any JSON Schema.
            for lost in (
                _lost(value, kept[name], f"{path}.{name}") if name in kept else [f"{path}.{name}"]
            )
        ]
    if isinstance(given, list) and isinstance(kept, list):
        assert len(given) == len(kept), path
        pairs = enumerate(zip(given, kept, strict=True))
        return [lost for i, (g, k) in pairs for lost in _lost(g, k, f"{path}[{i}]")]
    return []
