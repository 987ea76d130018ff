"""Model clients, with which agents call models. `base` has the protocol and its messages.

Submodules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.agents.models.anthropic import AnthropicClient as AnthropicClient
    from webtraj.agents.models.balanced import BalancedClient as BalancedClient
    from webtraj.agents.models.base import Image as Image
    from webtraj.agents.models.base import Message as Message
    from webtraj.agents.models.base import ModelClient as ModelClient
    from webtraj.agents.models.base import Sampling as Sampling
    from webtraj.agents.models.base import Structure as Structure
    from webtraj.agents.models.base import Text as Text
    from webtraj.agents.models.base import ToolCall as ToolCall
    from webtraj.agents.models.limits import RetryPolicy as RetryPolicy
    from webtraj.agents.models.openai import OpenAICompatibleClient as OpenAICompatibleClient
    from webtraj.agents.models.responses import ResponsesClient as ResponsesClient
    from webtraj.agents.models.vendors import AzureOpenAIClient as AzureOpenAIClient
    from webtraj.agents.models.vendors import BedrockClient as BedrockClient
    from webtraj.agents.models.vendors import VertexClient as VertexClient

_HOMES = {
    "AnthropicClient": "anthropic",
    "AzureOpenAIClient": "vendors",
    "BalancedClient": "balanced",
    "BedrockClient": "vendors",
    "Image": "base",
    "Message": "base",
    "ModelClient": "base",
    "OpenAICompatibleClient": "openai",
    "ResponsesClient": "responses",
    "RetryPolicy": "limits",
    "Sampling": "base",
    "Structure": "base",
    "Text": "base",
    "ToolCall": "base",
    "VertexClient": "vendors",
}

__all__ = [*sorted(_HOMES)]

__getattr__, __dir__ = _homes.face(__name__, _HOMES)
