"""The model client interface: messages and sampling parameters in, a `ModelCall` out.

A client is shared by all episodes of a rollout. It returns the record itself, complete enough to
train on, so there is no second type for replies. A failed call is recorded too: the error carries
its record.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from webtraj import trajectory as trajectory_lib

__all__ = [
    "Image",
    "Message",
    "ModelClient",
    "Part",
    "Provider",
    "Role",
    "Sampling",
    "Structure",
    "Text",
    "ToolCall",
    "check_keys",
]

Role = Literal["system", "user", "assistant", "tool"]

Provider = Literal["auto", "vllm", "openai", "responses", "anthropic", "azure", "bedrock", "vertex"]
"""The API of a model's server: OpenAI's chat completions (`auto`, `vllm`, `openai`), OpenAI's
Responses, Anthropic's messages, or a cloud vendor's gateway."""


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """Text in a message."""

    text: str


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture in a message."""

    data: bytes
    """The encoded picture: PNG, JPEG, WebP or GIF."""

    @functools.cached_property
    def uuid(self) -> str:
        """Identifies the picture by its content, so that servers can cache its encoding."""
        return hashlib.sha256(self.data).hexdigest()

    @classmethod
    def with_hash(cls, data: bytes, sha256: str) -> Image:
        """Return a picture whose SHA-256 is known already, such as a verified blob."""
        image = cls(data)
        image.__dict__["uuid"] = sha256
        return image


Part = Text | Image


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool in a model's reply."""

    id: str
    """The id that its result refers to."""
    name: str
    """The tool's name; `computer` for OpenAI's computer tool."""
    arguments: Any = None
    """The arguments: a dict, or JSON as the model wrote it."""
    item: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The call in the provider's own format."""

    def to_data(self) -> dict[str, Any]:
        """Return this in the format of OpenAI's chat completions."""
        text = self.arguments
        if not isinstance(text, str):
            text = json.dumps(text or {}, ensure_ascii=False)
        function = {"name": self.name, "arguments": text}
        return {"id": self.id, "type": "function", "function": function}


def _describe_image(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image.data}}


@dataclasses.dataclass(frozen=True, slots=True)
class Message(trajectory_lib.AsData):
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    """The assistant's tool calls. A message with the role `tool` has one: the call it answers."""
    items: tuple[Any, ...] = ()
    """The assistant's reply in the provider's own format, if it must be sent back unchanged:
    content blocks (Anthropic) or output items (OpenAI's Responses), with the reasoning among them.
    """
    failed: bool = False
    """Whether a tool's result is an error; it then has no pictures."""

    @classmethod
    def of(cls, role: Role, *parts: str | Part) -> Self:
        """Make a message; a string is a `Text`.

        >>> Message.of("user", "What is this?", Image(b"...")).parts
        (Text(text='What is this?'), Image(data=b'...'))
        """
        return cls(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))

    def to_data(self, picture: Callable[[Image], Any] = _describe_image) -> dict[str, Any]:
        """Return this in the format of OpenAI's chat completions.

        >>> Message.of("user", "Click it.").to_data()
        {'role': 'user', 'content': 'Click it.'}

        Args:
            picture: Returns the part for a picture. Default: the part that records have, with the
                bytes.
        """
        content: Any = [
            {"type": "text", "text": part.text} if isinstance(part, Text) else picture(part)
            for part in self.parts
        ]
        if len(self.parts) == 1 and isinstance(self.parts[0], Text):
            content = self.parts[0].text
        data = {"role": self.role, "content": content}
        if self.role == "tool":
            return {**data, "tool_call_id": self.calls[0].id}
        return (
            {**data, "tool_calls": [call.to_data() for call in self.calls]} if self.calls else data
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A required form of the reply. A server that cannot enforce it refuses the call."""

    kind: Literal["regex", "choice", "json", "grammar"]
    value: Any
    """A regular expression, a list of strings, a JSON Schema, or an EBNF grammar."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling settings. None uses the server's default."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    structure: Structure | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the model may call, one per reply: functions (`name`, `description`,
    `parameters`), or a provider's own tools in its format."""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """More fields of the request's body, in the server's format."""


class ModelClient(Protocol):
    """Calls a model. Safe to share between concurrent tasks."""

    @property
    def name(self) -> str:
        """The model's name in records, such as `vllm/Qwen3-VL-8B`."""

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        """Return the record of the model's reply to a conversation.

        If the call fails, the error's `call` is its record.

        Args:
            messages: The conversation so far, with the system message first if there is one.
            sampling: Overrides the client's own settings where it is not None.
            timeout: Seconds for the whole call, including retries and waiting for a turn.

        Raises:
            ContextOverflowError: The conversation is too long for the model.
            ModelRefusedError: The server rejects the request; retrying would not help.
            ModelUnavailableError: No reply in time, after all retries.
        """

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


def check_keys(user: object) -> None:
    """Check the API keys of a model client, agent, judge or proposer, without sending anything.

    Raises:
        MissingKeyError: One is missing; see `HttpModelClient.check_key`.
    """
    for judge in getattr(user, "judges", ()):
        check_keys(judge)
    routing = getattr(user, "routing", None)
    for client in getattr(routing, "clients", (getattr(user, "client", user),)):
        if (check := getattr(client, "check_key", None)) is not None:
            check()
