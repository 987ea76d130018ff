"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models import replies
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.models.client import ClientOptions, HttpModelClient, Prepared
from webtraj.agents.models.endpoint import ApiKey
from webtraj.agents.models.replies import AttemptError

__all__ = ["ANTHROPIC_URL", "DEFAULT_MAX_TOKENS", "AnthropicClient"]

ANTHROPIC_URL = "https://api.anthropic.com/v1"
DEFAULT_MAX_TOKENS = 4096
"""The default for `max_tokens`, which the server requires."""

_API_VERSION = "2023-06-01"


class AnthropicClient(HttpModelClient):
    """Calls a model through `POST /v1/messages`.

    Records have the system prompt as their first message, although it is sent separately. Pass the
    API's other options through `Sampling.extra`: `cache_control`, `thinking`, `tools`, ...

    Args:
        model: The model's name.
        base_url: The server's URL, including `/v1`.
        api_key: The API key. Default: the environment variable `ANTHROPIC_API_KEY` for Anthropic's
            own server, and `api_key_variable` for others, which never get the former.
        api_key_variable: The environment variable with the API key.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    _path = "/messages"

    def __init__(
        self,
        model: str,
        base_url: str = ANTHROPIC_URL,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if api_key_variable is None:
            is_anthropic = base_url.startswith("https://api.anthropic.com/")
            api_key_variable = "ANTHROPIC_API_KEY" if is_anthropic else ""
        key = ApiKey.find(api_key, api_key_variable)
        headers = {"content-type": "application/json", "anthropic-version": _API_VERSION}
        if key:
            headers["x-api-key"] = key.reveal()
        super().__init__(model, base_url, key, "anthropic", headers, options)

    async def probe(self) -> bool:
        """Return whether the server answers now."""
        try:
            return await self._endpoint.status("/models") < 500
        except AttemptError:
            return False

    def _prepare(
        self, messages: Sequence[Message], sampling: Sampling, policy_version: str
    ) -> Prepared:
        system, sent, recorded = messages_lib.to_anthropic(messages, self._pictures)
        parameters, refusal = _parameters(sampling)
        body: dict[str, Any] = {"model": self.model, "messages": sent, **parameters}
        if system:
            body["system"] = system
            recorded.insert(0, {"role": "system", "content": system})
        call = trajectory_lib.ModelCall(
            model=self.model,
            provider="anthropic",
            policy_version=policy_version,
            messages=tuple(recorded),
            sampling=parameters,
        )
        return Prepared(body, call, refusal)

    def _read(self, answer: Any) -> replies.Reply:
        return replies.read_anthropic(answer)


def _parameters(sampling: Sampling) -> tuple[dict[str, Any], str]:
    """Return the body's other fields, and why the server cannot do this, if it cannot."""
    parameters: dict[str, Any] = {
        "max_tokens": sampling.max_tokens or DEFAULT_MAX_TOKENS,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "stop_sequences": list(sampling.stop) or None,
    }
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
    given = {name: value for name, value in parameters.items() if value is not None}
    return {**given, **sampling.extra}, refusal
