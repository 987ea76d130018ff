"""What an agent may reach beyond the page it is given: which URLs, which files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

__all__ = ["AccessPolicy", "NoAccess"]


class AccessPolicy(Protocol):
    """Says what may be opened and what may be uploaded."""

    def open(self, url: str) -> bool:
        """Whether a URL may be opened."""

    def travel(self) -> bool:
        """Whether the agent may go through the history, reload, and open and close tabs."""

    def upload(self, path: str) -> Path | None:
        """Returns the file that a path in an action names; None if it may not be uploaded."""


@dataclasses.dataclass(frozen=True, slots=True)
class NoAccess:
    """The policy of a task that lives in one page: nothing else may be opened or uploaded."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        return False

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return False

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`."""
        return None
