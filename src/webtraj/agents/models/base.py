"""What a model client is: messages and sampling parameters go in, a `ModelCall` comes out.

A client is shared by all episodes of a rollout. What it returns is the record itself, complete
enough to train on; so there is no second, poorer type for a reply. A call that fails is a record
too: the error that is raised carries it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from webtraj import trajectory as trajectory_lib

__all__ = ["Image", "Message", "ModelClient", "Part", "Role", "Sampling", "Structure", "Text"]

Role = Literal["system", "user", "assistant"]


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
        """Names the picture by its content, so that a server may keep what it made of it."""
        return hashlib.sha256(self.data).hexdigest()


Part = Text | Image


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, role: Role, *parts: str | Part) -> Self:
        """Makes a message; a string is a `Text`.

        >>> Message.of("user", "What is this?", Image(b"..."))
        Message(role='user', parts=(Text(text='What is this?'), Image(data=b'...')))
        """
        return cls(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))

    def to_data(self) -> dict[str, Any]:
        """Return it as records keep it: in the shape of OpenAI's chat completions, images as bytes.

        >>> Message.of("user", "Click it.").to_data()
        {'role': 'user', 'content': 'Click it.'}
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], Text):
            return {"role": self.role, "content": self.parts[0].text}
        content = [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "image_url", "image_url": {"url": part.data}}
            for part in self.parts
        ]
        return {"role": self.role, "content": content}


@dataclasses.dataclass(frozen=True, slots=True)
class Structure:
    """A form that the reply must have. A server that cannot see to it refuses the call."""

    kind: Literal["regex", "choice", "json", "grammar"]
    value: Any
    """A regular expression, a list of strings, a JSON Schema, or an EBNF grammar."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample a reply. What is None is left to the server."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    structure: Structure | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """More fields of the request's body, as the server knows them."""


class ModelClient(Protocol):
    """Asks a model. Shared by tasks that run at the same time."""

    @property
    def name(self) -> str:
        """What records call the model: `vllm/Qwen3-VL-8B`, for example."""

    async def complete(
        self,
        messages: Sequence[Message],
        sampling: Sampling | None = None,
        *,
        timeout: float | None = None,
    ) -> trajectory_lib.ModelCall:
        """Returns the model's reply to a conversation, on record.

        An error has the failed call as its `call`.

        Args:
            messages: The conversation so far, system message first if there is one.
            sampling: Overrides the client's own parameters where it is not None.
            timeout: Seconds that all of it may take, retries and waiting for a turn included.

        Raises:
            ContextOverflowError: The conversation is too long for the model.
            ModelRefusedError: The server will not answer such a request, however often it is asked.
            ModelUnavailableError: There was no answer in time, after all retries.
        """

    async def aclose(self) -> None:
        """Lets go of all connections. Idempotent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
