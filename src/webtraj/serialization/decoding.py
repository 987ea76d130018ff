"""JSON data back to values. The format is described in `webtraj.serialization.values`.

Nothing in a file is trusted: no class that it names is imported, no constructor runs but those of
registered record types, and lengths are checked before anything is allocated.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import enum
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from webtraj import errors
from webtraj.serialization import dtypes, record_types, stack
from webtraj.serialization.blobs import Blob, BlobSource
from webtraj.serialization.encoding import TAG

__all__ = ["decode"]


def decode(data: Any, blobs: BlobSource | None = None) -> Any:
    """Returns the value that `data`, parsed JSON, stands for.

    Raises:
        CorruptDataError: It does not follow the format.
    """
    try:
        return _decode(data, blobs)
    except errors.WebtrajError:
        raise
    except _MALFORMED as error:
        raise errors.CorruptDataError(
            f"A stored value does not follow the format: {type(error).__name__}: {error}. "
            "Run `webtraj verify` on the dataset."
        ) from error


_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)  # What looking for a format in data that does not follow it can raise.


def _decode(data: Any, blobs: BlobSource | None) -> Any:
    if isinstance(data, dict):
        if TAG not in data:
            return {key: _decode(value, blobs) for key, value in data.items()}
        return _DECODERS[data[TAG]](data, blobs)
    if isinstance(data, list):
        return _decode_list(data, blobs)
    return data


def _decode_list(data: list[Any], blobs: BlobSource | None) -> list[Any]:
    if _CONTAINERS.isdisjoint(map(type, data)):  # Token ids, of which there are thousands.
        return data.copy()
    return [_decode(item, blobs) for item in data]


def _decode_items(data: dict[str, Any], blobs: BlobSource | None) -> list[Any]:
    return _decode_list(data["v"], blobs)


def _blob(data: dict[str, Any]) -> Blob:
    return Blob(data["sha256"], data["ext"], int(data["size"]))


def _source(data: dict[str, Any], blobs: BlobSource | None) -> BlobSource:
    if blobs is None:
        raise errors.CorruptDataError(
            f"The blob {data['sha256']!r} is referred to, but there is no blob store to read."
        )
    return blobs


def _decode_blob(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    return _source(data, blobs).load(_blob(data), text=data[TAG] == "text")


def _decode_bytes(data: dict[str, Any], blobs: BlobSource | None) -> bytes:
    if data[TAG] == "blob":
        return _source(data, blobs).read(_blob(data))
    return base64.b64decode(data["v"], validate=True)


def _decode_ndarray(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    shape = tuple(int(size) for size in data["shape"])
    if any(size < 0 for size in shape):
        raise errors.CorruptDataError(f"An array has the shape {shape}.")
    if data["dtype"] == "object":
        items = _decode_items(data, blobs)
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            flat[i] = item
        return flat.reshape(shape)
    dtype = dtypes.parse(_decode(data["dtype"], None))
    raw = _decode_bytes(data["v"], blobs)
    if dtype.itemsize == 0:
        return np.ndarray(shape, dtype, raw)
    return np.frombuffer(raw, dtype=dtype).reshape(shape).copy()


def _decode_scalar(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    dtype = dtypes.parse(_decode(data["dtype"], None))
    value = data["v"]
    if not isinstance(value, dict) or value[TAG] not in ("bytes", "blob"):
        with np.errstate(all="ignore"):
            return dtype.type(_decode(value, blobs))
    raw = _decode_bytes(value, blobs)
    if dtype.kind == "U":
        return np.str_(raw.decode("utf-32-le", "surrogatepass"))
    if dtype.kind == "S":
        return np.bytes_(raw)
    return np.ndarray((1,), dtype, raw).copy()[0]


def _decode_set(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    items = _decode_items(data, blobs)
    try:
        result = set(items) if data[TAG] == "set" else frozenset(items)
    except TypeError:
        result = set()
    # Items of classes that are not known here may be unhashable now, or equal.
    if len(result) < len(items):
        return record_types.OpaqueRecord(data[TAG], {"items": items})
    return result


def _decode_dict(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    pairs = [(_decode(key, blobs), _decode(value, blobs)) for key, value in data["v"]]
    try:
        result = dict(pairs)
    except TypeError:
        result = {}
    if len(result) < len(pairs):  # As in a set.
        return record_types.OpaqueRecord("dict", {"items": pairs})
    return result


def _decode_record(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    fields = _decode(data["fields"], blobs)
    cls = record_types.class_of(data["type"])
    if cls is None or not dataclasses.is_dataclass(cls):
        return record_types.OpaqueRecord(data["type"], fields)
    known = {field.name for field in dataclasses.fields(cls) if field.init}
    try:
        return cls(**{name: value for name, value in fields.items() if name in known})
    except Exception:  # The class has moved on since; its fields are still worth having.
        return record_types.OpaqueRecord(data["type"], fields)


def _decode_enum(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    cls = record_types.class_of(data["type"])
    value = _decode(data["v"], blobs)
    if cls is None or not issubclass(cls, enum.Enum):
        return value
    if data["member"] in cls.__members__:
        return cls[data["member"]]
    try:
        return cls(value)  # Flags that are set together have no member.
    except ValueError:
        return value


def _decode_namedtuple(data: dict[str, Any], blobs: BlobSource | None) -> Any:
    fields = _decode(data["fields"], blobs)
    return _namedtuple_class(str(data["type"]), tuple(fields))(*fields.values())


@functools.lru_cache(maxsize=256)
def _namedtuple_class(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    # Names that are no identifiers are replaced, as by whoever made the class.
    return collections.namedtuple(name, fields, rename=True)


_CONTAINERS = frozenset((dict, list))

_DECODERS: dict[str, Callable[[dict[str, Any], BlobSource | None], Any]] = {
    "float": lambda data, blobs: float(data["v"]),
    "int": lambda data, blobs: int(data["v"], 16),
    "complex": lambda data, blobs: complex(*_decode_items(data, blobs)),
    "str": lambda data, blobs: base64.b64decode(data["v"]).decode("utf-8", "surrogatepass"),
    "bytes": lambda data, blobs: base64.b64decode(data["v"], validate=True),
    "blob": _decode_blob,
    "text": _decode_blob,
    "tuple": lambda data, blobs: tuple(_decode_items(data, blobs)),
    "set": _decode_set,
    "frozenset": _decode_set,
    "dict": _decode_dict,
    "ndarray": _decode_ndarray,
    "scalar": _decode_scalar,
    "datetime": lambda data, blobs: datetime.datetime.fromisoformat(data["v"]),
    "enum": _decode_enum,
    "record": _decode_record,
    "namedtuple": _decode_namedtuple,
    "nested": lambda data, blobs: stack.call_on_fresh_stack(
        _decode, orjson.loads(data["v"]), blobs
    ),
    "unwritable": lambda data, blobs: record_types.OpaqueRecord(
        data["type"], {"repr": data["repr"]}
    ),
}
