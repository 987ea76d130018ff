"""Blobs that stand in the file that refers to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from webtraj import errors
from webtraj.store.blobs import Blob

__all__ = ["MIME_TYPES", "InlineBlobs"]

MIME_TYPES = {
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "pdf": "application/pdf",
    "txt": "text/plain",
}
"""What the content of a blob is, by its extension; all others are plain bytes."""


class InlineBlobs:
    """The blobs of one file, found by their content. A `BlobSource`."""

    def __init__(self, contents: Iterable[bytes], where: str) -> None:
        """Initializes the source. `where` names the file in errors."""
        self._contents = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self._texts: dict[str, str] = {}
        self._where = where

    def read(self, blob: Blob) -> bytes:
        """Returns a blob's bytes.

        Raises:
            CorruptDataError: The file does not hold them.
        """
        content = self._contents.get(blob.sha256)
        if content is None or len(content) != blob.size:
            raise errors.CorruptDataError(
                f"{self._where!r} does not hold the {blob.size} bytes of the blob "
                f"{blob.sha256!r:.100} that it refers to: it was changed or damaged after it was "
                "written."
            )
        return content

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Returns a blob's bytes, or its text.

        Raises:
            CorruptDataError: The file does not hold it, or it is no text.
        """
        content = self.read(blob)
        if not text:
            return content
        # One string however often it is referred to: no small file takes much memory.
        if blob.sha256 not in self._texts:
            try:
                self._texts[blob.sha256] = content.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise errors.CorruptDataError(
                    f"In {self._where!r} the blob {blob.sha256!r} is referred to as text, and is "
                    f"none: {error}."
                ) from error
        return self._texts[blob.sha256]
