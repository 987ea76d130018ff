"""Servers with OpenAI's chat completions API: vLLM, OpenAI itself, and most others.

vLLM is also asked for the token ids of prompt and completion, their log-probabilities, and the
version of the weights. Other servers would reject unknown fields, so they get only those of
OpenAI's own API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from webtraj import errors
from webtraj.agents.models import messages as messages_lib
from webtraj.agents.models import replies
from webtraj.agents.models.base import Message, Sampling, Structure
from webtraj.agents.models.client import (
    ClientOptions,
    HttpModelClient,
    Prepared,
    bearer,
    merge_extra,
)
from webtraj.agents.models.endpoint import ApiKey, Transport
from webtraj.agents.models.replies import AttemptError

__all__ = ["OPENAI_URL", "Kind", "OpenAICompatibleClient"]

OPENAI_URL = "https://api.openai.com/v1"

Kind = Literal["auto", "vllm", "openai"]


class OpenAICompatibleClient(HttpModelClient):
    """Calls a model through `POST /v1/chat/completions`.

    Use one client per server on a host: limits and connections belong to a client. A LoRA adapter
    is a model: pass its name as `model`.

    Args:
        model: The model's name on the server. The folder of a local model is looked up in the
            server's list of models, whatever path it was served from.
        base_url: The server's URL, such as `http://127.0.0.1:8000/v1`.
        api_key: The API key. Default: the environment variable `OPENAI_API_KEY` for OpenAI's own
            server, and `api_key_variable` for others, which never get the former.
        api_key_variable: The environment variable with the API key.
        kind: The kind of server. Default: detected in the first call; it is vLLM if its list of
            models says that they are owned by "vllm".
        token_ids: Whether to request token ids from vLLM.
        logprobs: Whether to request log-probabilities. Default: only from vLLM.
        salt_cache: Whether vLLM separates its prefix cache by the version of the weights, so that
            new weights never use the state of old ones.
        transport: See `HttpModelClient`.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    _path = "/chat/completions"
    _read = staticmethod(replies.read_openai)

    def __init__(
        self,
        model: str,
        base_url: str = OPENAI_URL,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        kind: Kind = "auto",
        token_ids: bool = True,
        logprobs: bool | None = None,
        salt_cache: bool = False,
        transport: Transport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if kind not in ("auto", "vllm", "openai"):
            raise errors.InvalidInputError(f"Unknown kind {kind!r}; expected auto, vllm or openai.")
        self._is_openai = base_url.startswith("https://api.openai.com/")
        if api_key_variable is None:
            api_key_variable = "OPENAI_API_KEY" if self._is_openai else ""
        key = ApiKey.find(api_key, api_key_variable)
        provider = "openai" if kind == "auto" else kind
        super().__init__(model, base_url, key, provider, bearer(key), options, transport)
        self._kind: Kind = kind
        self._asking = asyncio.Lock()
        self._sent_name = "" if Path(model).is_dir() else model
        self._token_ids = token_ids
        self._logprobs = logprobs
        self._salt_cache = salt_cache

    async def _status(self) -> int:
        # Servers without /health still answer.
        return await self._endpoint.status("/health", from_root=True)

    async def _learn(self) -> None:
        if self._kind != "auto" and self._sent_name:
            return
        async with self._asking:
            if self._kind != "auto" and self._sent_name:
                return
            models = await self._list_models()
            if self._kind == "auto":
                is_vllm = any(model.get("owned_by") == "vllm" for model in models)
                self._kind = "vllm" if is_vllm else "openai"
            self._sent_name = self._sent_name or _served_name(self.model, models)

    async def _list_models(self) -> list[Mapping[str, Any]]:
        try:
            answer = await self._endpoint.get("/models")
        except AttemptError as failure:
            if failure.may_heal:
                raise
            return []  # It does not list its models. The call will show whether it answers.
        models = answer.get("data") if isinstance(answer, Mapping) else None
        listed = models if isinstance(models, list) else []
        return [model for model in listed if isinstance(model, Mapping)]

    async def _read_version(self) -> str:
        if self._kind != "vllm":
            return ""
        answer = await self._endpoint.get("/weight_info", from_root=True)
        version = answer.get("weight_version") if isinstance(answer, Mapping) else None
        return "" if version is None else str(version)

    def _prepare(
        self, messages: Sequence[Message], sampling: Sampling, policy_version: str
    ) -> Prepared:
        is_vllm = self._kind == "vllm"
        sent, recorded = messages_lib.to_openai(messages, self._pictures, uuids=is_vllm)
        parameters, refusal = self._parameters(sampling)
        if is_vllm and self._salt_cache and policy_version:
            parameters.setdefault("cache_salt", policy_version)
        provider = "vllm" if is_vllm else "openai"
        call = self._call(provider, policy_version, recorded, parameters)
        return Prepared({"model": self._sent_name, "messages": sent, **parameters}, call, refusal)

    def _parameters(self, sampling: Sampling) -> tuple[dict[str, Any], str]:
        """Return the body's other fields, and a reason if the server cannot serve the request."""
        # OpenAI renamed this field; other servers did not.
        max_tokens = "max_completion_tokens" if self._is_openai else "max_tokens"
        parameters: dict[str, Any] = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            max_tokens: sampling.max_tokens,
            "stop": list(sampling.stop) or None,
            "seed": sampling.seed,
        }
        refusal = ""
        if sampling.tools:
            parameters["tools"] = [_tool(tool) for tool in sampling.tools]
            parameters["parallel_tool_calls"] = False
        if self._kind == "vllm":
            parameters["return_token_ids"] = self._token_ids or None
            parameters["logprobs"] = self._logprobs is not False or None
            if sampling.structure is not None:
                structure = sampling.structure
                parameters["structured_outputs"] = {structure.kind: _plain(structure)}
        else:
            parameters["logprobs"] = self._logprobs or None
            if sampling.structure is not None:
                parameters["response_format"], refusal = _response_format(sampling.structure)
        return merge_extra(parameters, sampling), refusal


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return tool if "type" in tool else {"type": "function", "function": tool}


def _served_name(folder: str, models: Sequence[Mapping[str, Any]]) -> str:
    """Return the server's name for the model in a folder; by default the folder itself."""
    if all(model.get("id") != folder for model in models):
        path = Path(folder).resolve()
        for model in models:
            # A relative path is relative to the server's working directory, which is unknown.
            for named in (model.get("id"), model.get("root")):
                if (
                    isinstance(named, str)
                    and named.startswith("/")
                    and Path(named).resolve() == path
                ):
                    return str(model.get("id"))
    return folder


def _plain(structure: Structure) -> Any:
    return list(structure.value) if structure.kind == "choice" else structure.value


def _response_format(structure: Structure) -> tuple[dict[str, Any], str]:
    """Return OpenAI's request fields for a structure, and a reason if it cannot be expressed."""
    if structure.kind != "json":
        return {structure.kind: _plain(structure)}, (
            f"Only vLLM can restrict replies to a {structure.kind}. Use a Structure of kind "
            "'json', or kind='vllm' if the server is vLLM."
        )
    schema = {"name": "reply", "schema": structure.value, "strict": True}
    return {"type": "json_schema", "json_schema": schema}, ""
