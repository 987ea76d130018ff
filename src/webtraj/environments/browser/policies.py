"""What an agent may reach beyond the page it is given: which URLs, which files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

__all__ = ["AccessPolicy", "NoAccess", "WebAccess"]


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


@dataclasses.dataclass(frozen=True, slots=True)
class WebAccess:
    """The policy of a task on the web: any http page, and files from one folder."""

    uploads: Path | None = None
    """The folder that files may be uploaded from; None allows none."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        return url == "about:blank" or urlsplit(url).scheme in ("http", "https")

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. Links that lead out of the folder are followed and refused."""
        if self.uploads is None:
            return None
        file = (self.uploads / path).resolve()
        allowed = file.is_relative_to(self.uploads.resolve()) and file.is_file()
        return file if allowed else None
