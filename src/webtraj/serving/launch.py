"""What to start: a command for a host and a port, and the name under which it serves its model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

__all__ = ["ServerLaunch"]


class ServerLaunch(Protocol):
    """A server with OpenAI's API, as `ModelServer` starts it.

    It answers `GET /health` with 200 when it can be used, and lists its model under
    `GET /v1/models`.
    """

    @property
    def served_name(self) -> str:
        """The model's name in requests."""

    def command(self, host: str, port: int) -> Sequence[str]:
        """Returns the program and its arguments.

        Raises:
            InvalidInputError: A setting is wrong.
            MissingDependencyError: What it needs is not installed.
        """

    def variables(self) -> Mapping[str, str]:
        """Returns environment variables to set beside our own."""

    def with_weights(self, path: str | os.PathLike[str], version: str) -> ServerLaunch:
        """Returns how to start a server of the same name with other weights.

        It is to answer `GET /weight_info` with that version from the first moment on.

        Args:
            path: The folder of a saved model.
            version: What its weights are called.
        """
