"""Bytes that lie beside what names them: each once, by its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

from webtraj import errors

__all__ = ["FilesBeside", "image_kind"]

_STARTS = {
    b"\x89PNG\r\n\x1a\n": ("png", "image/png"),
    b"\xff\xd8\xff": ("jpg", "image/jpeg"),
    b"GIF8": ("gif", "image/gif"),
}


def image_kind(data: bytes) -> tuple[str, str] | None:
    r"""Returns the extension and media type of a picture, by how it begins; None if it is none.

    >>> image_kind(b"\xff\xd8\xff..."), image_kind(b"%PDF")
    (('jpg', 'image/jpeg'), None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp", "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), None)


class FilesBeside:
    """Writes bytes below a folder, and checks that they are there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[str] = set()

    def put(self, data: bytes) -> str:
        """Writes bytes, unless they are there, and returns their path below the folder."""
        kind = image_kind(data)
        sub, ext = ("images", kind[0]) if kind else ("blobs", "bin")
        name = f"{sub}/{hashlib.sha256(data).hexdigest()}.{ext}"
        if name not in self._written:
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            if path.read_bytes() != data:
                raise errors.StorageError(f"{name!r} was written, and reads back otherwise.")
            self._written.add(name)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._written
