"""What stands for bytes that are too long for a record: the name of their content.

Who keeps the bytes themselves is a `BlobSink` and `BlobSource`, such as
`webtraj.store.blobs.BlobStore`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

__all__ = ["Blob", "BlobSink", "BlobSource"]


@dataclasses.dataclass(frozen=True, slots=True)
class Blob:
    """Names bytes that are kept beside the record, by their content."""

    sha256: str
    ext: str
    size: int


class BlobSink(Protocol):
    """Takes bytes that are too long to stand in a record."""

    def put(self, data: bytes, ext: str) -> Blob:
        """Keeps `data` and returns its name."""


class BlobSource(Protocol):
    """Gives blobs back."""

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Returns what stands for the blob: its bytes, its text, or something lazy."""

    def read(self, blob: Blob) -> bytes:
        """Returns the blob's bytes."""
