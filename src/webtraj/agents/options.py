"""The options of a model agent, as on the command line."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any

import pydantic

from webtraj import errors
from webtraj.agents import contexts as contexts_lib
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.base import Provider, Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webtraj.agents.models.base import ModelClient

__all__ = ["ModelOptions", "read_options"]

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_DIALECTS = {"text": "webtraj", "aria": "webtraj", "marks": "webgym_marks", "coordinates": "webgym"}
_PROMPTS = {
    "webgym": "webgym_vanilla",
    "webgym_marks": "webgym_vanilla",
    "anthropic": "bare",
    "openai": "bare",
}


_PREFIXES = ("openai", "responses", "anthropic", "azure", "bedrock", "vertex")
_CLIENTS = {
    "responses": "ResponsesClient",
    "anthropic": "AnthropicClient",
    "azure": "AzureOpenAIClient",
    "bedrock": "BedrockClient",
    "vertex": "VertexClient",
}
"""The clients of providers other than OpenAI's chat completions."""
_TOOL_PROVIDERS = {"anthropic": ("anthropic", "bedrock", "vertex"), "openai": ("responses",)}
"""The providers that have a dialect's tool."""


class ModelOptions(pydantic.BaseModel):
    """The options of the agent `model`. None uses the default of the agent, client or server."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str
    """The model's name on the server. The provider may precede it, as in `azure:DEPLOYMENT`,
    `bedrock:MODEL` or `vertex:MODEL`."""
    base_url: str | list[str] | None = None
    """The server's URL, with `/v1`; several servers with OpenAI's API share the load."""
    provider: Provider = "auto"
    """The API: OpenAI's chat completions (`auto` detects vLLM) or Responses, Anthropic's messages,
    or a cloud vendor's gateway to one of them."""
    api_key_variable: str | None = None
    """The environment variable with the API key."""
    max_concurrency: int | None = None
    """The most requests in flight at once."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float | None = None
    """Seconds for one call, including retries."""

    mode: contexts_lib.Mode = "text"
    """The form of the context; see `ContextSettings`, also for the next eleven."""
    images: bool | None = None
    full_rounds: int | None = None
    slide: int | None = None
    older_lines: int | None = None
    screenshots: int | None = None
    page_tokens: int | None = None
    old_page_tokens: int | None = None
    changes: bool | None = None
    text_tokens: int | None = None
    memory: bool | None = None
    keep_thinking: bool | None = None
    cut_harder: int | None = None
    dialect: str | None = None
    """The dialect of actions. Default: the one that fits the mode."""
    tools: bool | None = None
    """Whether the model acts by calling tools; see `ModelAgent`. Default: only with the dialects
    `anthropic` and `openai`, if the provider has their tool."""
    acknowledge_safety_checks: bool = False
    """See `ModelAgent`."""
    prompt: str | None = None
    """A prompt's name, or a file. Default: the one that fits the dialect."""

    temperature: float | None = None
    """Sampling; see `Sampling`, also for the next five."""
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = pydantic.Field(default=(), strict=False)
    seed: int | None = None
    """See `ModelAgent`, also for the next three."""
    enforce_actions: bool = False
    max_invalid_actions: int = 5
    viewport: tuple[int, int] | None = pydantic.Field(default=None, strict=False)

    def make(self) -> ModelAgent:
        """Return the agent, with its own client.

        Raises:
            InvalidInputError: A value is invalid.
        """
        dialect = self.dialect_or_usual
        tools = self.tools
        if tools is None:
            tools = self._provider_and_model()[0] in _TOOL_PROVIDERS.get(_base(dialect), ())
        return ModelAgent(
            client=self.make_client(),
            dialect=dialect,
            context=self.make_context(),
            prompt=(self.prompt or "tools") if tools else self.prompt_or_usual,
            tools=tools,
            acknowledge_safety_checks=self.acknowledge_safety_checks,
            sampling=Sampling(**self._collect_given(_SAMPLING)),
            seed=self.seed,
            enforce_actions=self.enforce_actions,
            max_invalid_actions=self.max_invalid_actions,
            timeout=self.timeout,
            viewport=self.viewport,
        )

    @property
    def dialect_or_usual(self) -> str:
        """The dialect; by default that of the mode."""
        return self.dialect or _DIALECTS[self.mode]

    @property
    def prompt_or_usual(self) -> str:
        """The prompt of an agent without tools. Default: the dialect's."""
        return self.prompt or _PROMPTS.get(_base(self.dialect_or_usual), "plain")

    def make_context(self) -> contexts_lib.ContextSettings:
        """Return the settings of the context.

        Raises:
            InvalidInputError: A value is invalid.
        """
        return contexts_lib.ContextSettings(mode=self.mode, **self._collect_given(_CONTEXT))

    def make_client(self) -> ModelClient:
        """Return a new client, which the caller must close.

        Raises:
            InvalidInputError: A value is invalid.
        """
        options = {**self._collect_given(_LIMITS), "api_key_variable": self.api_key_variable}
        variable = self.api_key_variable
        if variable and not os.environ.get(variable):
            # Quoted only if it looks like a variable's name: it may be the key itself.
            named = f"{variable} " if _VARIABLE.fullmatch(variable) else ""
            raise errors.InvalidInputError(
                f"The environment variable {named}for the API key of the model "
                f"{self.model!r:.100} is not set (api_key_variable). Set it, or name another one."
            )
        from webtraj.agents import models

        provider, model = self._provider_and_model()
        if isinstance(self.base_url, list):
            if provider in _CLIENTS:
                raise errors.InvalidInputError(
                    f"The provider {provider!r} takes one base_url; only servers with OpenAI's "
                    "chat completions can share the load."
                )
            options["kind"] = provider
            return models.BalancedClient.to(model, self.base_url, client_options=options)
        if self.base_url is not None:
            options["base_url"] = self.base_url
        if provider in _CLIENTS:
            client: ModelClient = getattr(models, _CLIENTS[provider])(model, **options)
            return client
        return models.OpenAICompatibleClient(model, kind=provider, **options)  # type: ignore[arg-type]

    def _provider_and_model(self) -> tuple[str, str]:
        prefix, _, rest = self.model.partition(":")
        if self.provider == "auto" and rest and prefix in _PREFIXES:
            return prefix, rest
        return self.provider, self.model

    def _collect_given(self, names: tuple[str, ...]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def _base(dialect: str) -> str:
    """Return a dialect's name without the version of its tool."""
    return dialect.partition(":")[0]


_LIMITS = ("max_concurrency", "requests_per_minute", "tokens_per_minute")
_CONTEXT = tuple(
    field.name for field in dataclasses.fields(contexts_lib.ContextSettings) if field.name != "mode"
)
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "stop")


def read_options(options: Mapping[str, Any], *, who: str = "the agent 'model'") -> ModelOptions:
    """Validate the options that a user gave.

    Args:
        options: The options by name.
        who: Their owner, for error messages.

    Raises:
        InvalidInputError: An option is missing, unknown, or of the wrong type.
    """
    try:
        return ModelOptions.model_validate(dict(options))
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
        if [problem["type"] for problem in found] == ["missing"]:  # Only `model` is required.
            raise errors.InvalidInputError(
                f"{who[0].upper()}{who[1:]} needs a model: give --model NAME, or the option model. "
                "For a server of your own, also give --base-url URL, or the option base_url."
            ) from None
        problems = " ".join(map(_problem, found))
        raise errors.InvalidInputError(
            f"The options of {who} are wrong. {problems} It takes "
            f"{', '.join(ModelOptions.model_fields)}."
        ) from None


def _problem(problem: Any) -> str:
    from webtraj.settings.named import nearest

    name = ".".join(map(str, problem["loc"])) or "options"
    if problem["type"] == "missing":
        return f"The option {name!r} is missing."
    if problem["type"] == "extra_forbidden":
        return f"No option {name!r:.60}. {nearest(name, ModelOptions.model_fields)}".rstrip()
    return f"{name}: {problem['msg']}; got {problem['input']!r:.60}."
