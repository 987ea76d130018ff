"""Which blobs a record refers to, without decoding it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from webtraj.serialization.blobs import Blob
from webtraj.serialization.encoding import TAG

__all__ = ["blobs_in", "blobs_of"]


def blobs_in(lines: bytes) -> set[Blob]:
    """Returns the blobs that lines of JSON refer to; lines that are none are passed over."""
    found: set[Blob] = set()
    for line in lines.splitlines():
        try:
            found.update(blobs_of(orjson.loads(line)))
        except orjson.JSONDecodeError:
            continue
    return found


def blobs_of(data: Any) -> Iterator[Blob]:
    """Yields the blobs that parsed JSON refers to."""
    if isinstance(data, list):
        for item in data:
            yield from blobs_of(item)
    elif isinstance(data, dict):
        kind = data.get(TAG)
        if kind in ("blob", "text"):
            yield Blob(str(data.get("sha256")), str(data.get("ext")), int(data.get("size", -1)))
        elif kind == "nested":
            yield from blobs_of(orjson.loads(data["v"]))
        else:
            for value in data.values():
                yield from blobs_of(value)
