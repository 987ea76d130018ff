"""Files that pages offer: kept with the step in which they have arrived, up to a size."""

from __future__ import annotations

import asyncio
import dataclasses
import mimetypes
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Download, Page

__all__ = ["DownloadShelf", "DownloadedFile", "safe_name"]

_MAX_WAITING: Final = 100
"""How many files are kept until they are taken; a page may offer any number."""

_MAX_NAME: Final = 120
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"|?*\u202a-\u202e\u2066-\u2069]+')
_TOO_LARGE: Final = "larger than {limit} bytes"
_UNKNOWN_TYPE: Final = "application/octet-stream"


@dataclasses.dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A file that a page has offered."""

    name: str
    """A plain file name, whatever the page called it."""
    url: str
    mime_type: str
    """By the name's ending."""
    size: int
    """In bytes; 0 if it did not arrive."""
    content: bytes
    """Empty if it is not kept."""
    error: str
    """Why it is not kept; empty if it is."""


class DownloadShelf:
    """Collects the files that the pages of a session offer.

    Args:
        limit: The size in bytes of the largest file that is kept.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._files: list[DownloadedFile] = []
        self._arriving: set[asyncio.Task[None]] = set()

    def watch(self, page: Page) -> None:
        """Begins to collect what a page offers."""
        page.on("download", self._on_download)

    def take(self) -> list[DownloadedFile]:
        """Returns the files that have arrived, or failed to, since the last call."""
        taken, self._files = self._files, []
        return taken

    def _on_download(self, download: Download) -> None:
        arrival = asyncio.ensure_future(self._receive(download))
        self._arriving.add(arrival)
        arrival.add_done_callback(self._arriving.discard)

    async def _receive(self, download: Download) -> None:
        from playwright.async_api import Error as PlaywrightError

        size, content, error = 0, b"", ""
        try:
            with tempfile.TemporaryDirectory(prefix="webtraj-download-") as folder:
                # Not `path`, which a browser that runs elsewhere cannot give.
                file = Path(folder) / "file"
                await download.save_as(file)
                size = file.stat().st_size
                if size > self._limit:
                    error = _TOO_LARGE.format(limit=self._limit)
                else:
                    content = await asyncio.to_thread(file.read_bytes)
            await download.delete()
        except (PlaywrightError, OSError) as failure:
            error = error or str(failure).partition("\n")[0]
        if len(self._files) < _MAX_WAITING:
            name = safe_name(download.suggested_filename)
            mime_type = mimetypes.guess_type(name)[0] or _UNKNOWN_TYPE
            self._files.append(DownloadedFile(name, download.url, mime_type, size, content, error))


def safe_name(name: str) -> str:
    """Returns a name that is one on any file system, and leads to no other folder.

    >>> safe_name("../../etc/passwd")
    'passwd'
    >>> safe_name(".bashrc"), safe_name("..")
    ('bashrc', 'download')
    """
    plain = _UNSAFE.sub("_", PurePosixPath(name.replace("\\", "/")).name).strip(". ")
    # Well-formed UTF-8, so that the name can be written.
    plain = plain.encode("utf-8", "replace").decode()
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) < _MAX_NAME // 4:
        plain = f"{stem[: _MAX_NAME - len(ending) - 1]}.{ending}"
    return plain[:_MAX_NAME] or "download"
