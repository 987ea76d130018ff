"""What an agent on the fixture site may reach: the site, and the files of its task."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["SiteAccess"]


class SiteAccess:
    """The site's two origins, and the files of one folder."""

    def __init__(self) -> None:
        self.origins: tuple[str, ...] = ()
        """The site's origins; none before it runs."""
        self.folder: Path | None = None
        """Where files may be uploaded from."""

    def open(self, url: str) -> bool:
        """See `AccessPolicy.open`."""
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}" in self.origins

    def travel(self) -> bool:
        """See `AccessPolicy.travel`."""
        return True

    def upload(self, path: str) -> Path | None:
        """See `AccessPolicy.upload`. A path is a file's name, or its whole path in the folder."""
        if self.folder is None:
            return None
        folder = self.folder.resolve()
        file = (folder / path).resolve()
        return file if file.parent == folder and file.is_file() else None
