"""API keys: secrets that go into a request's header, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping

from webtraj import errors

__all__ = ["ApiKey"]

_REDACTED = "[api key]"


class ApiKey:
    """A key that shows in no repr, log, record or error.

    Args:
        key: The key; empty if there is none.
        variable: The environment variable that it can be given by, for messages.
    """

    __slots__ = ("_key", "variable")

    def __init__(self, key: str, variable: str = "") -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise errors.InvalidInputError(
                f"The API key{f' in {variable}' if variable else ''} has characters that no HTTP "
                "header can carry; give visible ASCII characters without spaces."
            )
        self._key = key
        self.variable = variable

    @classmethod
    def find(
        cls, key: str | None, variable: str, environment: Mapping[str, str] = os.environ
    ) -> ApiKey:
        """Returns the given key; else that of the environment variable; else an empty one."""
        if key is not None:
            return cls(key, variable)
        return cls(environment.get(variable, "") if variable else "", variable)

    def __bool__(self) -> bool:
        return bool(self._key)

    def __repr__(self) -> str:
        return f"<ApiKey: {'given' if self._key else 'none'}>"

    def reveal(self) -> str:
        """Returns the key itself, for the header."""
        return self._key

    def redact(self, data: bytes) -> bytes:
        """Returns what a server sent, without the key: some servers quote it when they refuse."""
        key = self._key.encode()
        return data.replace(key, _REDACTED.encode()) if key and key in data else data

    def redact_text(self, text: str) -> str:
        """Returns a message without the key."""
        return text.replace(self._key, _REDACTED) if self._key else text

    def __reduce__(self) -> str:
        raise TypeError("An API key is not copied or pickled; make a client where it is needed.")
