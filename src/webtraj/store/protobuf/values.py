"""Values as messages: `store.values` in the form of `webtraj.v1.Value`, and back.

A value is written as the text that it has in the JSON format. Input is not trusted: anything that
does not follow the schema is an error that names the file.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Never

import orjson

from webtraj import errors
from webtraj.store.blobs import Blob, blobs_of
from webtraj.store.layout import unreadable
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.values import TAG

__all__ = ["ValueReader", "ValueWriter", "blob_of", "double", "inline_bytes"]


_SHA256 = re.compile(r"[0-9a-f]{64}")


class ValueWriter:
    """Writes values, and collects the blobs they refer to."""

    def __init__(self) -> None:
        self.blobs: dict[Blob, None] = {}
        """The blobs; those of one value sorted by name, to make files reproducible."""

    def put(self, message: pb.Value, data: Any) -> None:
        """Encode a value in an empty message.

        Raises:
            TypeError: It is not JSON data.
        """
        text = orjson.dumps(data)
        message.json_value = text
        if b'"$"' in text:
            found = sorted(blobs_of(data), key=lambda blob: (blob.sha256, blob.ext, blob.size))
            self.blobs.update(dict.fromkeys(found))


def inline_bytes(data: dict[str, Any]) -> bytes | None:
    """Return the bytes in JSON data; None if they are not exactly in webtraj's form."""
    if tuple(data) != (TAG, "v") or data[TAG] != "bytes" or type(data["v"]) is not str:
        return None
    try:
        content = base64.b64decode(data["v"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if base64.b64encode(content).decode() == data["v"] else None


def blob_of(data: dict[str, Any]) -> Blob | None:
    """Return the blob that JSON data refers to; None if it is not exactly in webtraj's form."""
    if tuple(data) != (TAG, "sha256", "ext", "size") or data[TAG] not in ("blob", "text"):
        return None
    blob = Blob(data["sha256"], data["ext"], data["size"])
    sound = (
        type(blob.sha256) is str
        and _SHA256.fullmatch(blob.sha256)
        and type(blob.ext) is str
        and type(blob.size) is int
        and 0 <= blob.size < 2**64
    )
    return blob if sound else None


# Reading.


class ValueReader:
    """Reads values, and collects the blobs they refer to. `where` is the file's name in errors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.blobs: set[Blob] = set()

    def get(self, message: pb.Value) -> Any:
        """Decode a message to JSON data.

        Raises:
            CorruptDataError: It does not follow the schema.
        """
        content = message.json_value  # Empty if the value is of another kind.
        if not content:
            self.corrupt("a value is empty or of a wrong kind")
        return self.get_json(content)

    def corrupt(self, why: str) -> Never:
        """Raise the error for a file that does not follow the schema."""
        raise unreadable(self.where, ValueError(why))

    def newer(self, what: str, number: int) -> Never:
        """Raise the error for an enum number that this version does not know."""
        raise errors.UnsupportedSchemaError(
            f"{self.where!r} has the unknown {what} {number}: it was written by a newer webtraj, "
            "or changed or damaged after it was written. Install a newer webtraj."
        )

    def get_json(self, content: bytes) -> Any:
        """Decode JSON text."""
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable(self.where, error) from error
        if b"$" in content:
            self.blobs |= blobs_of(data)
        return data

    def get_map(self, message: pb.ExtraFields) -> dict[str, Any]:
        """Return an object."""
        values = map(self.get, message.values)
        return self.pairs(list(message.keys), list(values))

    def pairs(self, keys: list[str], values: list[Any]) -> dict[str, Any]:
        """Return an object from its keys and values."""
        data = dict(zip(keys, values, strict=False))
        if not len(keys) == len(values) == len(data):
            self.corrupt("an object does not have one key for each value")
        return data


def double(value: float) -> Any:
    """Return a float as JSON data."""
    return value if math.isfinite(value) else {TAG: "float", "v": repr(value)}
