"""OpenAI's Responses API, which has the computer tool."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from webtraj import errors
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models import replies
from webtraj.agents.models.base import Message, Sampling
from webtraj.agents.models.client import (
    ClientOptions,
    HttpModelClient,
    Prepared,
    bearer,
    merge_extra,
)
from webtraj.agents.models.endpoint import ApiKey, Transport
from webtraj.agents.models.openai import OPENAI_URL
from webtraj.agents.models.replies import AttemptError

__all__ = ["ResponsesClient"]

_CANNOT = ("top_k", "min_p", "seed", "stop")
_ENCRYPTED = ["reasoning.encrypted_content"]
"""Asks for the reasoning, to send it back. Models that do not reason refuse requests with it."""


class ResponsesClient(HttpModelClient):
    """Calls a model through `POST /v1/responses`.

    Each request carries the whole conversation as input items, including the model's encrypted
    reasoning, and the server stores nothing (`store: false`). So an episode does not depend on the
    server's memory, and the context's limits apply.

    Args:
        model: The model's name.
        base_url: The server's URL, including `/v1`.
        api_key: The API key. Default: the environment variable `OPENAI_API_KEY` for OpenAI's own
            server, and `api_key_variable` for others, which never get the former.
        api_key_variable: The environment variable with the API key.
        transport: See `HttpModelClient`.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    _path = "/responses"
    _read = staticmethod(replies.read_responses)

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI_URL,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        transport: Transport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if api_key_variable is None:
            is_openai = base_url.startswith("https://api.openai.com/")
            api_key_variable = "OPENAI_API_KEY" if is_openai else ""
        key = ApiKey.find(api_key, api_key_variable)
        super().__init__(model, base_url, key, "responses", bearer(key), options, transport)
        self._reasons: bool | None = None
        """Whether the model reasons; None before the first reply."""

    def _prepare(
        self, messages: Sequence[Message], sampling: Sampling, policy_version: str
    ) -> Prepared:
        sent, recorded = messages_lib.to_responses(messages, self._pictures)
        parameters, refusal = _parameters(sampling, reasons=self._reasons is not False)
        call = self._call("responses", policy_version, recorded, parameters)
        return Prepared({"model": self.model, "input": sent, **parameters}, call, refusal)

    async def _post(self, prepared: Prepared) -> tuple[Prepared, Any]:
        try:
            answered = await super()._post(prepared)
        except AttemptError as failure:
            refused = failure.error_class is errors.ModelRefusedError
            if self._reasons is not None or not refused:
                raise
            try:
                answered = await super()._post(_without_reasoning(prepared))
            except AttemptError:
                raise failure from None  # It was refused for another reason.
            self._reasons = False
        if self._reasons is None:
            self._reasons = True
        return answered


def _without_reasoning(prepared: Prepared) -> Prepared:
    body = {name: value for name, value in prepared.body.items() if name != "include"}
    sampling = {name: value for name, value in prepared.call.sampling.items() if name != "include"}
    call = dataclasses.replace(prepared.call, sampling=sampling)
    return dataclasses.replace(prepared, body=body, call=call)


def _parameters(sampling: Sampling, *, reasons: bool) -> tuple[dict[str, Any], str]:
    """Return the body's other fields, and a reason if the server cannot serve the request."""
    cannot = [name for name in _CANNOT if getattr(sampling, name) not in (None, ())]
    parameters: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_output_tokens": sampling.max_tokens,
        "store": False,
        "include": _ENCRYPTED if reasons else None,
        **{name: getattr(sampling, name) for name in cannot},
    }
    if sampling.tools:
        parameters["tools"] = [_tool(tool) for tool in sampling.tools]
        parameters["parallel_tool_calls"] = False
        if any(tool.get("type") == "computer_use_preview" for tool in sampling.tools):
            parameters["truncation"] = "auto"  # The preview's models refuse requests without it.
    structure = sampling.structure
    if structure is not None and structure.kind == "json":
        schema = {"type": "json_schema", "name": "reply", "schema": structure.value, "strict": True}
        parameters["text"] = {"format": schema}
    elif structure is not None:
        cannot.append(f"a structure of kind {structure.kind!r}")
        parameters["structure"] = {structure.kind: structure.value}
    refusal = ""
    if cannot:
        refusal = (
            f"OpenAI's Responses API does not support {' or '.join(cannot)}. Leave it out, or use "
            "the chat completions."
        )
    return merge_extra(parameters, sampling), refusal


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return tool if "type" in tool else {"type": "function", "strict": False, **tool}
