"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models import replies
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.models.client import ClientOptions, HttpModelClient, Prepared, merge_extra
from webtraj.agents.models.endpoint import ApiKey, Transport

__all__ = ["ANTHROPIC_URL", "DEFAULT_MAX_TOKENS", "AnthropicClient"]

ANTHROPIC_URL = "https://api.anthropic.com/v1"
DEFAULT_MAX_TOKENS = 4096
"""The default for `max_tokens`, which the server requires."""

_VERSION = "anthropic-version"
_NEWEST = "2026-10-21"
_OLDER = "2023-06-01"
_SAMPLED = ("temperature", "top_p", "top_k")
"""The settings that the API refuses since its newest version."""
_BETA = "anthropic-beta"
_BETAS = {
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
}
"""The value of the header `anthropic-beta` that a tool needs, by the tool's type."""


class AnthropicClient(HttpModelClient):
    """Calls a model through `POST /v1/messages`.

    Records have the system prompt as their first message, although it is sent separately. Pass the
    API's other options through `Sampling.extra`: `cache_control`, `thinking`, ... The header that a
    version of the computer tool needs is sent with it.

    Calls to Anthropic's own server use the newest version of its API. Calls with `temperature`,
    `top_p` or `top_k`, and calls to other servers, use the last version that takes those. The
    option `headers` can set another `anthropic-version`.

    Args:
        model: The model's name.
        base_url: The server's URL, including `/v1`.
        api_key: The API key. Default: the environment variable `ANTHROPIC_API_KEY` for Anthropic's
            own server, and `api_key_variable` for others, which never get the former.
        api_key_variable: The environment variable with the API key.
        transport: See `HttpModelClient`.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    _path = "/messages"
    _read = staticmethod(replies.read_anthropic)
    _version_in_body = ""
    """The version for calls with sampling settings, for gateways that take it in the body."""

    def __init__(
        self,
        model: str,
        base_url: str = ANTHROPIC_URL,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        transport: Transport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._is_anthropic = base_url.startswith("https://api.anthropic.com/")
        if api_key_variable is None:
            api_key_variable = "ANTHROPIC_API_KEY" if self._is_anthropic else ""
        key = ApiKey.find(api_key, api_key_variable)
        headers = {"content-type": "application/json"}
        if key:
            headers["x-api-key"] = key.reveal()
        own = {name.lower(): value for name, value in options.get("headers", {}).items()}
        self._betas = tuple(filter(None, own.get(_BETA, "").split(",")))
        self._version = own.get(_VERSION, "")
        super().__init__(model, base_url, key, "anthropic", headers, options, transport)

    def _prepare(
        self, messages: Sequence[Message], sampling: Sampling, policy_version: str
    ) -> Prepared:
        system, sent, recorded = messages_lib.to_anthropic(messages, self._pictures)
        parameters, refusal = _parameters(sampling)
        body: dict[str, Any] = {"model": self.model, "messages": sent, **parameters}
        if system:
            body["system"] = system
            recorded.insert(0, {"role": "system", "content": system})
        call = self._call("anthropic", policy_version, recorded, parameters)
        betas = [_BETAS[kind] for tool in sampling.tools if (kind := tool.get("type")) in _BETAS]
        more = {_BETA: ",".join(dict.fromkeys((*self._betas, *betas)))} if betas else {}
        sampled = any(name in parameters for name in _SAMPLED)
        if not self._version_in_body:
            newest = self._is_anthropic and not sampled
            more[_VERSION] = self._version or (_NEWEST if newest else _OLDER)
        elif sampled:
            body["anthropic_version"] = self._version_in_body
        return Prepared(body, call, refusal, more)


def _parameters(sampling: Sampling) -> tuple[dict[str, Any], str]:
    """Return the body's other fields, and a reason if the server cannot serve the request."""
    parameters: dict[str, Any] = {
        "max_tokens": sampling.max_tokens or DEFAULT_MAX_TOKENS,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "stop_sequences": list(sampling.stop) or None,
    }
    if sampling.tools:
        parameters["tools"] = [_tool(tool) for tool in sampling.tools]
        parameters["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    cannot = [name for name in ("min_p", "seed") if parameters[name] is not None]
    structure = sampling.structure
    if structure is not None and structure.kind == "json":
        schema = {"type": "json_schema", "schema": structure.value}
        parameters["output_config"] = {"format": schema}
    elif structure is not None:
        cannot.append(f"a structure of kind {structure.kind!r}")
        parameters["structure"] = {structure.kind: structure.value}
    refusal = ""
    if cannot:
        refusal = (
            f"Anthropic's API does not support {' or '.join(cannot)}. Leave it out, or use another "
            "server, such as vLLM."
        )
    return merge_extra(parameters, sampling), refusal


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if "type" in tool:
        return tool
    return {
        "name": tool["name"],
        "description": tool.get("description", ""),
        "input_schema": tool["parameters"],
    }
