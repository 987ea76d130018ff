"""Models behind a cloud vendor's gateway: Azure OpenAI, AWS Bedrock, Google Vertex.

The vendor's SDK knows where to send a request and how to sign it, and does nothing else: retries,
limits, deadlines and records are those of every other client, and the SDK's own retries are off.
SDKs are imported when a client is made; the extras `openai` and `anthropic` install them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Unpack

import orjson

from webtraj import errors
from webtraj.agents.models import limits, replies
from webtraj.agents.models.anthropic import AnthropicClient
from webtraj.agents.models.client import ClientOptions
from webtraj.agents.models.endpoint import CLOSED, ApiKey
from webtraj.agents.models.limits import SYSTEM_CLOCK, Clock
from webtraj.agents.models.openai import OpenAICompatibleClient

__all__ = ["AzureOpenAIClient", "BedrockClient", "SdkTransport", "VertexClient"]


class SdkTransport:
    """Sends requests through a vendor's SDK. A `Transport`.

    Args:
        sdk: The SDK's asynchronous client.
        package: The SDK's module, which has its exceptions.
        keys: The keys that it uses, to be removed from errors.
        clock: The clock.
        prefix: The prefix to put before the client's paths.
        headers: More headers for every request.
    """

    def __init__(
        self,
        sdk: Any,
        package: ModuleType,
        keys: tuple[ApiKey, ...],
        clock: Clock,
        *,
        prefix: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._sdk = sdk.with_options(max_retries=0, timeout=None)
        self._package = package
        self._keys = keys
        self._clock = clock
        self._prefix = prefix
        self._headers = dict(headers or {})
        self._closed = False

    @property
    def url(self) -> str:
        """See `Transport.url`."""
        return str(self._sdk.base_url).rstrip("/")

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Any:
        """See `Transport.post`."""
        options = {"headers": {**self._headers, **(headers or {})}}
        return await self._request("post", path, options, body=orjson.loads(body))

    async def get(self, path: str, *, from_root: bool = False) -> Any:
        """See `Transport.get`."""
        del from_root  # A gateway has no paths of its own.
        return await self._request("get", path, {"headers": self._headers})

    async def status(self, path: str, *, from_root: bool = False) -> int:
        """See `Transport.status`."""
        del from_root
        if self._closed:
            raise replies.AttemptError(CLOSED, error_class=errors.ModelRefusedError)
        try:
            await self._sdk.get(self._prefix + path, cast_to=object)
        except self._package.APIStatusError as error:
            return int(error.status_code)
        except Exception as error:
            raise self._failure(error) from error
        return 200

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        if not self._closed:
            self._closed = True
            await self._sdk.close()

    async def _request(self, method: str, path: str, options: Any, **body: Any) -> Any:
        if self._closed:
            raise replies.AttemptError(CLOSED, error_class=errors.ModelRefusedError)
        send = getattr(self._sdk, method)
        try:
            answer = replies.sound_json(
                await send(self._prefix + path, cast_to=object, options=options, **body)
            )
        except Exception as error:  # Credentials fail with the exceptions of other packages.
            raise self._failure(error) from error
        if isinstance(answer, str):
            raise replies.AttemptError(
                f"{self.url} did not answer with JSON: {self._redact(answer)[:200]!r}.",
                kind="reply",
                response=self._redact(answer),
            )
        failure = replies.failure_of(
            200, {}, answer, url=self.url, key_hint=_HINT, retry_after=None
        )
        if failure is not None:
            raise failure
        return answer

    def _failure(self, error: Exception) -> replies.AttemptError:
        if isinstance(error, self._package.APIStatusError):
            headers = error.response.headers
            content = replies.parse_json(self._redact(error.response.text).encode())
            if isinstance(content, Mapping) and "error" not in content:
                # AWS has the message alone, and the kind of error in a header.
                message = content.get("message") or content.get("Message") or str(content)
                kind = headers.get("x-amzn-errortype", "").partition(":")[0]
                content = {**content, "error": {"message": message, "type": kind}}
            failure = replies.failure_of(
                error.status_code,
                headers,
                content,
                url=str(error.request.url.copy_with(query=None)),
                key_hint=_HINT,
                retry_after=limits.retry_after(headers, self._clock),
            )
            assert failure is not None
            return failure
        shown = self._redact(f"{type(error).__name__} {error}".rstrip())
        if isinstance(error, self._package.APIConnectionError):
            return replies.AttemptError(f"No answer from {self.url}: {shown}.", kind="connection")
        return replies.AttemptError(
            f"The package {self._package.__name__!r} did not make the request to {self.url}: "
            f"{shown}. Check the credentials in the environment.",
            error_class=errors.ModelRefusedError,
        )

    def _redact(self, text: str) -> str:
        for key in self._keys:
            text = key.redact(text)
        return text


_HINT = "in the environment, as the vendor's SDK reads it"


class AzureOpenAIClient(OpenAICompatibleClient):
    """Calls a deployment of Azure OpenAI. Needs the extra `openai`.

    Args:
        model: The deployment's name.
        base_url: The resource's endpoint, such as `https://NAME.openai.azure.com`. Default: the
            environment variable `AZURE_OPENAI_ENDPOINT`.
        api_key: The API key. Default: the environment variable `AZURE_OPENAI_API_KEY`, or a token
            of Entra ID in `AZURE_OPENAI_AD_TOKEN`.
        api_key_variable: The environment variable with the API key.
        api_version: The version of the API. Default: the environment variable `OPENAI_API_VERSION`.
        sdk: An `openai.AsyncAzureOpenAI`, for other credentials. The client closes it.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument or environment variable is missing or invalid.
        MissingDependencyError: The package `openai` is not installed.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        api_version: str | None = None,
        sdk: Any = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        key = ApiKey.find(api_key, api_key_variable or "AZURE_OPENAI_API_KEY")
        transport = _transport(
            "Azure OpenAI",
            "openai.AsyncAzureOpenAI",
            sdk,
            (key, ApiKey.find(None, "AZURE_OPENAI_AD_TOKEN")),
            options,
            azure_endpoint=base_url or os.environ.get("AZURE_OPENAI_ENDPOINT"),
            api_key=key.reveal() or None,
            api_version=api_version,
        )
        options.setdefault("name", f"azure/{model}")
        super().__init__(
            model, transport.url, api_key="", kind="openai", transport=transport, **options
        )
        self._is_openai = True


class BedrockClient(AnthropicClient):
    """Calls Anthropic's models on AWS Bedrock. Needs the extra `anthropic`.

    AWS's own settings apply: `AWS_REGION`, `AWS_PROFILE`, `AWS_ACCESS_KEY_ID`, ..., or the API key
    in `AWS_BEARER_TOKEN_BEDROCK`.

    Args:
        model: The model's id, such as `anthropic.claude-...-v1:0`, or an inference profile's.
        base_url: An address to use instead of AWS's for the region.
        api_key: Bedrock's API key, in place of AWS credentials.
        api_key_variable: The environment variable with Bedrock's API key.
        sdk: An `anthropic.AsyncAnthropicBedrock`, for other credentials. The client closes it.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument or environment variable is missing or invalid.
        MissingDependencyError: The package `anthropic` is not installed.
    """

    _version_in_body = "bedrock-2023-05-31"

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        sdk: Any = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        key = ApiKey.find(api_key, api_key_variable or "AWS_BEARER_TOKEN_BEDROCK")
        secrets = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        transport = _transport(
            "AWS Bedrock",
            "anthropic.AsyncAnthropicBedrock",
            sdk,
            (key, *(ApiKey.find(None, variable) for variable in secrets)),
            options,
            base_url=base_url,
            api_key=key.reveal() or None,
        )
        options.setdefault("name", f"bedrock/{model}")
        super().__init__(model, transport.url, api_key="", transport=transport, **options)


class VertexClient(AnthropicClient):
    """Calls Anthropic's models on Google Vertex AI. Needs the extra `anthropic`.

    Google's application default credentials apply, with the region in `CLOUD_ML_REGION` and the
    project in `ANTHROPIC_VERTEX_PROJECT_ID`.

    Args:
        model: The model's name, such as `claude-...@20250929`.
        base_url: An address to use instead of Google's for the region.
        api_key: An access token, in place of the default credentials.
        api_key_variable: The environment variable with an access token.
        sdk: An `anthropic.AsyncAnthropicVertex`, for other credentials. The client closes it.
        options: See `ClientOptions`.

    Raises:
        InvalidInputError: An argument or environment variable is missing or invalid.
        MissingDependencyError: The package `anthropic` is not installed.
    """

    _version_in_body = "vertex-2023-10-16"

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_variable: str | None = None,
        sdk: Any = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        key = ApiKey.find(api_key, api_key_variable or "")
        transport = _transport(
            "Google Vertex",
            "anthropic.AsyncAnthropicVertex",
            sdk,
            (key,),
            options,
            base_url=base_url,
            access_token=key.reveal() or None,
        )
        options.setdefault("name", f"vertex/{model}")
        super().__init__(model, transport.url, api_key="", transport=transport, **options)


def _transport(
    vendor: str,
    maker: str,
    sdk: Any,
    keys: tuple[ApiKey, ...],
    options: ClientOptions,
    **arguments: Any,
) -> SdkTransport:
    """Return the transport of a vendor.

    Args:
        vendor: The vendor's name, for messages.
        maker: The package and the class of the vendor's SDK.
        sdk: The user's own client; None creates one.
        keys: See `SdkTransport`.
        options: The options of the model client.
        **arguments: Arguments of the class; None leaves the value to the SDK.
    """
    name, _, made_class = maker.partition(".")
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise errors.missing_dependency(f"{vendor} needs the package {name!r}", name) from error
    if sdk is None:
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            sdk = getattr(package, made_class)(**given)
        except Exception as error:  # Each SDK has its own for settings that are missing.
            raise errors.InvalidInputError(
                f"Cannot make the client of {vendor}: {error} Pass base_url or an `sdk`, or set "
                "the environment variables that it names."
            ) from error
    return SdkTransport(
        sdk,
        package,
        keys,
        options.get("clock", SYSTEM_CLOCK),
        prefix="/v1" if name == "anthropic" else "",
        headers=options.get("headers"),
    )
