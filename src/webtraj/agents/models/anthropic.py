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
"""Tokens of a reply whose sampling does not say: the server has no default of its own."""

_API_VERSION = "2023-06-01"


class AnthropicClient(HttpModelClient):
    """Asks a model behind `POST /v1/messages`.

    Records have the system prompt as the first of their messages, although it is sent apart from
    them. What else the API offers goes through `Sampling.extra`: `cache_control`, `thinking`,
    `tools`, ...

    Args:
        model: The model's name.
        base_url: Where the server is, `/v1` included.
        api_key: The key. By default it is looked for in the environment: as `ANTHROPIC_API_KEY` for
            Anthropic's own server, which alone is to see that; for others in `api_key_variable`.
        api_key_variable: The environment variable that has the key.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument makes no sense.
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
        """Return whether the server would answer now."""
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
    """Return the body's other fields, and why the server cannot do it, if it cannot."""
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
            f"Anthropic's API has no {' and no '.join(cannot)}. Leave it out, or ask a server that "
            "has it, such as vLLM."
        )
    given = {name: value for name, value in parameters.items() if value is not None}
    return {**given, **sampling.extra}, refusal
