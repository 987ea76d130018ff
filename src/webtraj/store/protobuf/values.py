"""Values as messages: `store.values` in the form of `webtraj.v1.Value`, and back.

A message holds exactly what the JSON data says, its order of keys included. What is common has a
kind of its own; whatever has none is kept as the object that it is in JSON. Nothing that is read
is trusted: whatever does not follow the schema is an error that names the file.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Any, Never

import orjson

from webtraj import errors
from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.blobs import Blob, blobs_of
from webtraj.store.formats import unreadable
from webtraj.store.values import TAG

__all__ = ["ValueReader", "ValueWriter", "blob_of", "double", "inline_bytes"]


_MAX_DEPTH = 40
"""Levels of values in each other. Each is two messages, of which parsers take a hundred."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_FINITE = ("nan", "inf", "-inf")


class ValueWriter:
    """Writes values, and notes which blobs they refer to."""

    def __init__(self) -> None:
        self.blobs: dict[Blob, None] = {}
        """The blobs, in the order in which they were first met."""

    def put(self, message: pb.Value, data: Any, depth: int = 0) -> None:
        """Makes an empty message stand for a value.

        Raises:
            TypeError, ValueError: It is no JSON data.
        """
        put = _WRITERS.get(type(data))
        if put is None:
            raise TypeError(f"a {type(data).__name__} is no JSON data")
        if depth >= _MAX_DEPTH and data and type(data) in (dict, list):
            message.json_value = orjson.dumps(data)
            self.note(data)
        else:
            put(self, message, data, depth)

    def note(self, data: Any) -> None:
        """Notes the blobs that JSON data refers to."""
        self.blobs.update(dict.fromkeys(blobs_of(data)))

    def put_items(self, message: pb.ListValue, items: list[Any], depth: int) -> None:
        """Makes a list's message hold its items."""
        message.SetInParent()
        add = message.values.add
        for item in items:
            self.put(add(), item, depth)

    def put_tagged(self, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
        """Writes an object with a key `$` in its own kind, if it has one and is exactly of it."""
        tag = data[TAG]
        if tag == "nested" or tag in ("blob", "text"):
            self.note(data)
        put = _TAGGED.get(tag) if type(tag) is str else None
        return put is not None and put(self, message, data, depth)


def _put_none(writer: ValueWriter, message: pb.Value, data: None, depth: int) -> None:
    message.null_value = True


def _put_bool(writer: ValueWriter, message: pb.Value, data: bool, depth: int) -> None:
    message.bool_value = data


def _put_int(writer: ValueWriter, message: pb.Value, data: int, depth: int) -> None:
    if data < 2**63:
        message.int_value = data
    else:
        message.uint_value = data


def _put_float(writer: ValueWriter, message: pb.Value, data: float, depth: int) -> None:
    message.double_value = data


def _put_str(writer: ValueWriter, message: pb.Value, data: str, depth: int) -> None:
    message.string_value = data


def _put_list(writer: ValueWriter, message: pb.Value, data: list[Any], depth: int) -> None:
    writer.put_items(message.list_value, data, depth + 1)


def _put_dict(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> None:
    if TAG in data and writer.put_tagged(message, data, depth):
        return
    map_value = message.map_value
    map_value.SetInParent()
    map_value.keys.extend(data)
    add = map_value.values.add
    for item in data.values():
        writer.put(add(), item, depth + 1)


_WRITERS: dict[type, Callable[[ValueWriter, pb.Value, Any, int], None]] = {
    type(None): _put_none,
    bool: _put_bool,
    int: _put_int,
    float: _put_float,
    str: _put_str,
    list: _put_list,
    dict: _put_dict,
}


def _put_not_finite(
    writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int
) -> bool:
    if tuple(data) != (TAG, "v") or data["v"] not in _NOT_FINITE:
        return False
    message.double_value = float(data["v"])
    return True


def _put_bytes(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
    content = inline_bytes(data)
    if content is None:
        return False
    message.bytes_value = content
    return True


def _put_blob(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
    blob = blob_of(data)
    if blob is None:
        return False
    _refer(message.blob_value if data[TAG] == "blob" else message.text_value, blob)
    return True


def _put_tuple(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
    if tuple(data) != (TAG, "v") or type(data["v"]) is not list:
        return False
    writer.put_items(message.tuple_value, data["v"], depth + 1)
    return True


def _put_record(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
    if tuple(data) != (TAG, "type", "fields") or type(data["type"]) is not str:
        return False
    message.record_value.type = data["type"]
    writer.put(message.record_value.fields, data["fields"], depth + 1)
    return True


def _put_array(writer: ValueWriter, message: pb.Value, data: dict[str, Any], depth: int) -> bool:
    if tuple(data) != (TAG, "shape", "dtype", "v") or type(data["dtype"]) is not str:
        return False
    shape, items = data["shape"], data["v"]
    if type(shape) is not list or type(items) is not dict:
        return False
    if not all(type(size) is int and 0 <= size < 2**64 for size in shape):
        return False
    content, blob = inline_bytes(items), blob_of(items)
    array = message.array_value
    if content is not None:
        array.inline = content
    elif blob is not None and items[TAG] == "blob":
        writer.blobs[blob] = None
        _refer(array.blob, blob)
    else:
        return False
    array.dtype = data["dtype"]
    array.shape.extend(shape)
    return True


_TAGGED: dict[str, Callable[[ValueWriter, pb.Value, dict[str, Any], int], bool]] = {
    "float": _put_not_finite,
    "bytes": _put_bytes,
    "blob": _put_blob,
    "text": _put_blob,
    "tuple": _put_tuple,
    "record": _put_record,
    "ndarray": _put_array,
}


def inline_bytes(data: dict[str, Any]) -> bytes | None:
    """Returns the bytes that stand in JSON data; None if they do not, exactly as webtraj writes."""
    if tuple(data) != (TAG, "v") or data[TAG] != "bytes" or type(data["v"]) is not str:
        return None
    try:
        content = base64.b64decode(data["v"], validate=True)
    except (binascii.Error, ValueError):
        return None
    return content if base64.b64encode(content).decode() == data["v"] else None


def blob_of(data: dict[str, Any]) -> Blob | None:
    """Returns the blob that JSON data refers to; None if it does not, exactly as webtraj writes."""
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


def _refer(message: pb.BlobRef, blob: Blob) -> None:
    message.sha256 = bytes.fromhex(blob.sha256)
    message.ext = blob.ext
    message.size = blob.size


# Reading.


class ValueReader:
    """Reads values, and notes which blobs they refer to. `where` names the file in errors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.blobs: set[Blob] = set()

    def get(self, message: pb.Value) -> Any:
        """Returns the JSON data that a message stands for.

        Raises:
            CorruptDataError: It does not follow the schema.
        """
        kind = message.WhichOneof("kind")
        if kind is None or kind not in _READERS:
            self.corrupt("a value holds nothing, or what cannot stand there")
        return _READERS[kind](self, message)

    def corrupt(self, why: str) -> Never:
        """Raises the error for a file that does not follow the schema."""
        raise unreadable(self.where, ValueError(why))

    def newer(self, what: str, number: int) -> Never:
        """Raises the error for an enum's number that this version does not know."""
        raise errors.UnsupportedSchemaError(
            f"{self.where!r} has the {what} {number}, which this webtraj does not know: it was "
            "written by a newer one, or changed or damaged after it was written. Install a newer "
            "webtraj."
        )

    def get_json(self, content: bytes) -> Any:
        """Returns what JSON text stands for."""
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable(self.where, error) from error
        if b"$" in content:
            self.blobs |= blobs_of(data)
        return data

    def get_reference(self, message: pb.BlobRef, tag: str) -> dict[str, Any]:
        """Returns a reference to a blob."""
        if len(message.sha256) != 32:
            self.corrupt("the name of a blob has not 32 bytes")
        blob = Blob(message.sha256.hex(), message.ext, message.size)
        self.blobs.add(blob)
        return {TAG: tag, "sha256": blob.sha256, "ext": blob.ext, "size": blob.size}

    def get_map(self, message: pb.MapValue | pb.ExtraFields) -> dict[str, Any]:
        """Returns an object."""
        values = map(self.get, message.values)
        return self.pairs(list(message.keys), list(values))

    def pairs(self, keys: list[str], values: list[Any]) -> dict[str, Any]:
        """Returns an object of its keys and values."""
        data = dict(zip(keys, values, strict=False))
        if not len(keys) == len(values) == len(data):
            self.corrupt("the keys of an object are not one for each value")
        return data


def _get_double(reader: ValueReader, message: pb.Value) -> Any:
    return double(message.double_value)


def double(value: float) -> Any:
    """Returns a float as JSON data."""
    return value if math.isfinite(value) else {TAG: "float", "v": repr(value)}


def _get_bytes(reader: ValueReader, message: pb.Value) -> Any:
    return {TAG: "bytes", "v": base64.b64encode(message.bytes_value).decode()}


def _get_record(reader: ValueReader, message: pb.Value) -> Any:
    record = message.record_value
    return {TAG: "record", "type": record.type, "fields": reader.get(record.fields)}


def _get_array(reader: ValueReader, message: pb.Value) -> Any:
    array = message.array_value
    if array.WhichOneof("data") == "blob":
        items = reader.get_reference(array.blob, "blob")
    else:
        items = {TAG: "bytes", "v": base64.b64encode(array.inline).decode()}
    return {TAG: "ndarray", "shape": list(array.shape), "dtype": array.dtype, "v": items}


_READERS: dict[str, Callable[[ValueReader, pb.Value], Any]] = {
    "null_value": lambda reader, message: None,
    "bool_value": lambda reader, message: message.bool_value,
    "int_value": lambda reader, message: message.int_value,
    "uint_value": lambda reader, message: message.uint_value,
    "double_value": _get_double,
    "string_value": lambda reader, message: message.string_value,
    "bytes_value": _get_bytes,
    "list_value": lambda reader, message: list(map(reader.get, message.list_value.values)),
    "map_value": lambda reader, message: reader.get_map(message.map_value),
    "tuple_value": lambda reader, message: {
        TAG: "tuple",
        "v": list(map(reader.get, message.tuple_value.values)),
    },
    "record_value": _get_record,
    "array_value": _get_array,
    "blob_value": lambda reader, message: reader.get_reference(message.blob_value, "blob"),
    "text_value": lambda reader, message: reader.get_reference(message.text_value, "text"),
    "json_value": lambda reader, message: reader.get_json(message.json_value),
}
