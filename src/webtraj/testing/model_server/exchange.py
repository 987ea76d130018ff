"""What goes in and out of the fake model server."""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal, Self

import orjson

__all__ = ["ModelRequest", "Reply"]


@dataclasses.dataclass(frozen=True)
class ModelRequest:
    """A request as the server got it."""

    method: str
    path: str
    """Without the query."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    query: str = ""
    """What follows the path's `?`."""

    @functools.cached_property
    def json(self) -> Any:
        """The body as JSON data."""
        return orjson.loads(self.body)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self.json.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, in the provider's shape."""
        messages: list[dict[str, Any]] = self.json["messages"]
        return messages

    @property
    def text(self) -> str:
        """The text of the last message."""
        return "\n".join(part["text"] for part in self.parts(-1) if part["type"] == "text")

    @property
    def images(self) -> list[bytes]:
        """All pictures of the conversation, in order."""
        return [
            _picture(part)
            for index in range(len(self.messages))
            for part in self.parts(index)
            if part["type"] in ("image", "image_url")
        ]

    def parts(self, index: int) -> list[dict[str, Any]]:
        """Returns the parts of a message, as a list even if it is one text."""
        content = self.messages[index].get("content") or []
        return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _picture(part: Mapping[str, Any]) -> bytes:
    if part["type"] == "image":
        return base64.b64decode(part["source"]["data"])
    return base64.b64decode(part["image_url"]["url"].partition(",")[2])


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """What the server is to answer."""

    text: str = ""
    """What the model says. It is cut off at the request's limit of tokens, each character being
    one."""
    _: dataclasses.KW_ONLY
    reasoning: str = ""
    """What it thought before, where the server tells that apart."""
    finish_reason: str = ""
    """By default what follows from the text's length."""
    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """More headers."""
    body: bytes | None = None
    """The whole body instead, whatever it is."""
    failure: Mapping[str, Any] | None = None
    """The fields of an error instead: `message`, `type`, `code`, `param`."""
    delay: float = 0.0
    """Seconds until the answer; infinity has the client wait until it goes away."""
    cut: Literal["", "before", "within"] = ""
    """Whether the connection is cut before the answer, or half way through it."""

    @classmethod
    def error(
        cls,
        status: int,
        message: str = "Out of order.",
        *,
        type: str = "",  # noqa: A002
        code: str | int | None = None,
        param: str | None = None,
        retry_after: float | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Makes an error, in the shape that errors have at the server.

        >>> Reply.error(429, retry_after=2).headers
        {'retry-after': '2'}
        """
        more = {} if retry_after is None else {"retry-after": str(retry_after)}
        fields = {"message": message, "type": type, "code": code, "param": param}
        return cls(status=status, headers={**(headers or {}), **more}, failure=fields)
