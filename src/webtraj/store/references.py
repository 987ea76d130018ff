"""Which blobs a record refers to, without decoding it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from webtraj import errors
from webtraj.store import stack
from webtraj.store.blob import Blob
from webtraj.store.encoding import TAG

__all__ = ["blobs_in", "blobs_of"]


def blobs_in(lines: bytes) -> set[Blob]:
    """Returns the blobs that lines of JSON refer to; lines that are none are passed over.

    Raises:
        CorruptDataError: A reference does not follow the format.
    """
    found: set[Blob] = set()
    for line in lines.splitlines():
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        found |= blobs_of(data)
    return found


def blobs_of(data: Any) -> set[Blob]:
    """Returns the blobs that parsed JSON refers to.

    Raises:
        CorruptDataError: A reference does not follow the format.
    """
    try:
        return set(_blobs_of(data))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise errors.CorruptDataError(
            f"A reference to a blob does not follow the format: {type(error).__name__}: {error}. "
            "Run `webtraj verify` on the dataset."
        ) from error


def _blobs_of(data: Any) -> Iterator[Blob]:
    if isinstance(data, list):
        for item in data:
            yield from _blobs_of(item)
    elif isinstance(data, dict):
        kind = data.get(TAG)
        if kind in ("blob", "text"):
            yield Blob(str(data["sha256"]), str(data["ext"]), int(data["size"]))
        elif kind == "nested":
            yield from stack.call_on_fresh_stack(blobs_of, orjson.loads(data["v"]))
        else:
            for value in data.values():
                yield from _blobs_of(value)
