"""API keys: secrets that go into a request's header, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping

from webtraj import credentials, errors

__all__ = ["ApiKey"]

_REDACTED = f"<secret:{credentials.KEY_NAME}>"


class ApiKey:
    """A key that shows in no repr, log, record or error.

    Replies are handed on to the letter, since an agent acts on them. What leaves this process in
    records goes through `webtraj.environments.redaction.without_keys`. A dummy, such as vLLM's
    `EMPTY`, is no secret and is not replaced anywhere (`webtraj.credentials.looks_like_key`).

    Args:
        key: The key; empty if there is none.
        variable: The environment variable that it can be given by, for messages.
    """

    __slots__ = ("_is_secret", "_key", "variable")

    def __init__(self, key: str, variable: str = "") -> None:
        key = key.strip()
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise errors.InvalidInputError(
                f"The API key{f' in {variable}' if variable else ''} has characters that no HTTP "
                "header can carry; give visible ASCII characters without spaces."
            )
        self._key = key
        self._is_secret = credentials.looks_like_key(key)
        self.variable = variable
        credentials.use_key(key)

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

    def redact(self, text: str) -> str:
        """Return an error's text without the key: some servers quote it when they refuse."""
        if not self._is_secret:
            return text
        escaped = self._key.replace("/", "\\/")
        return text.replace(self._key, _REDACTED).replace(escaped, _REDACTED)

    def __reduce__(self) -> str:
        raise TypeError("An API key is not copied or pickled; make a client where it is needed.")
