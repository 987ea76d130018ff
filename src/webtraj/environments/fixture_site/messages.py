"""What the site's handlers are asked and what they answer."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from email import message_from_bytes, policy
from http import cookies
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

__all__ = ["Request", "Response", "UploadedFile", "found", "json_answer", "see_other"]


@dataclasses.dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file in a form."""

    name: str
    content: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request, with everything decoded that handlers ask for."""

    method: str
    path: str
    query: Mapping[str, str]
    """The first value of each parameter."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""

    @classmethod
    def parse(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """Returns the request that came as these parts of HTTP."""
        parts = urlsplit(target)
        return cls(method, parts.path, _first_values(parts.query), headers, body)

    @property
    def cookies(self) -> dict[str, str]:
        """Its cookies; none where the header cannot be read."""
        jar = cookies.SimpleCookie()
        try:
            jar.load(self.headers.get("cookie", ""))
        except cookies.CookieError:
            return {}
        return {name: morsel.value for name, morsel in jar.items()}

    @property
    def form(self) -> dict[str, str]:
        """The first value of each field of an urlencoded form."""
        return _first_values(self.body.decode("utf-8", "replace"))

    @property
    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.body)

    @property
    def files(self) -> list[UploadedFile]:
        """The files of a multipart form."""
        head = f"Content-Type: {self.headers.get('content-type', '')}\r\n\r\n".encode()
        message = message_from_bytes(head + self.body, policy=policy.HTTP)
        files = []
        for part in message.iter_parts():
            name, content = part.get_filename(), part.get_payload(decode=True)
            if name and isinstance(content, bytes):
                files.append(UploadedFile(name, content))
        return files


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer, and how well it is given."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    headers: Sequence[tuple[str, str]] = ()
    cache: str = "no-store"
    """The header `Cache-Control`."""
    delay: float = 0.0
    """Seconds that the answer is held back."""
    fault: Literal["", "cut", "hang"] = ""
    """`cut` breaks the connection in the middle of the body; `hang` never answers."""


def see_other(location: str, *headers: tuple[str, str]) -> Response:
    """Returns the answer to a form: go and look there."""
    return Response(status=303, headers=(("location", location), *headers))


def found(location: str) -> Response:
    """Returns a plain redirect."""
    return Response(status=302, headers=(("location", location),))


def json_answer(value: Any) -> Response:
    """Returns a value as JSON."""
    return Response(body=json.dumps(value).encode(), content_type="application/json")


def _first_values(query: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
