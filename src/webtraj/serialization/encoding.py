"""Values to JSON data. The format is described in `webtraj.serialization.values`."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from webtraj.serialization import dtypes, record_types, stack
from webtraj.serialization.blobs import Blob, BlobSink

__all__ = ["TAG", "Encoder", "dumps"]

TAG = "$"
BYTES_INLINE = 1024
"""Bytes longer than this many go to the blob sink, if there is one."""
TEXT_INLINE = 4096
"""Text longer than this many characters goes to the blob sink, if there is one."""
_CHUNK_DEPTH = 60
"""Levels of nesting per JSON text; JSON parsers stop at a few hundred."""
_MAX_DEPTH = 240
_REPR_CHARS = 1000
_MANY = 32
"""Items from which it pays to look whether all are token ids, or the like."""


def _all_plain_ints(values: Sequence[Any]) -> bool:
    return set(map(type, values)) == {int} and min(values) >= -(2**63) and max(values) < 2**64


def _all_plain_numbers(values: Sequence[Any]) -> bool:
    """Returns whether all are numbers that JSON has; a few that are may be missed."""
    types = set(map(type, values))
    if types == {int}:
        return bool(min(values) >= -(2**63) and max(values) < 2**64)
    return types == {float} and math.isfinite(sum(values))


class Encoder:
    """Turns values into JSON data. One for each record, since it notes what it could not write.

    Attributes:
        unwritable: Where and what could not be kept, as `path: type`, in order.
    """

    def __init__(self, blobs: BlobSink | None = None, *, check_text: bool = False) -> None:
        """Initializes the encoder.

        Args:
            blobs: Takes long bytes and text; without it all stands in the record.
            check_text: Whether to look for text that UTF-8 cannot hold. Costs time, and is needed
                only after orjson has refused the result: see `dumps`.
        """
        self._blobs = blobs
        self._check_text = check_text
        self._open: set[int] = set()
        self.unwritable: list[str] = []

    def encode(self, value: Any, path: str = "") -> Any:
        """Returns `value` as JSON data. `path` names it in `unwritable`."""
        return self._encode(value, path, 0)

    def _encode(self, value: Any, path: str, depth: int) -> Any:
        encode = _ENCODERS.get(type(value))
        if encode is None:
            return self._encode_foreign(value, path, depth)
        if encode not in _NESTING:
            return encode(self, value, path, depth)
        return self._encode_nest(encode, value, path, depth)

    def _encode_foreign(self, value: Any, path: str, depth: int) -> Any:
        """Encodes a value of a class that is not known here, and may raise when it is looked at."""
        num_unwritable = len(self.unwritable)
        try:
            encode = _encoder_by_protocol(value)
            if encode not in _NESTING:
                return encode(self, value, path, depth)
            return self._encode_nest(encode, value, path, depth)
        except (OSError, orjson.JSONEncodeError, RecursionError):
            raise  # The blob sink's, or text that is not UTF-8: not the value's fault.
        except Exception as error:
            del self.unwritable[num_unwritable:]
            return self._refuse(value, path, f"which raised {type(error).__name__}")

    def _encode_nest(self, encode: _EncodeMethod, value: Any, path: str, depth: int) -> Any:
        identity = id(value)
        if identity in self._open:
            return self._refuse(value, path, "contains itself")
        if depth >= _MAX_DEPTH:
            return self._refuse(value, path, f"nested more than {_MAX_DEPTH} levels deep")
        self._open.add(identity)
        try:
            if depth and depth % _CHUNK_DEPTH == 0:
                inner = stack.call_on_fresh_stack(encode, self, value, path, depth + 1)
                return {TAG: "nested", "v": orjson.dumps(inner).decode()}
            return encode(self, value, path, depth)
        finally:
            self._open.discard(identity)

    def _refuse(self, value: Any, path: str, why: str = "") -> Any:
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        self.unwritable.append(f"{path or 'value'}: {name}{why and ', ' + why}")
        return {TAG: "unwritable", "type": name, "repr": _safe_repr(value)}

    def _plain(self, value: Any, path: str, depth: int) -> Any:
        return value

    def _int(self, value: int, path: str, depth: int) -> Any:
        if -(2**63) <= value < 2**64:
            return int(value)
        return {TAG: "int", "v": hex(value)}

    def _float(self, value: float, path: str, depth: int) -> Any:
        if value - value == 0.0:  # Neither NaN nor an infinity.
            return float(value)
        return {TAG: "float", "v": repr(float(value))}

    def _complex(self, value: complex, path: str, depth: int) -> Any:
        return {
            TAG: "complex",
            "v": [self._float(value.real, "", 0), self._float(value.imag, "", 0)],
        }

    def _str(self, value: str, path: str, depth: int) -> Any:
        if len(value) > TEXT_INLINE and self._blobs is not None:
            data = value.encode("utf-8", "surrogatepass")
            return _blob_tag("text", self._blobs.put(data, "txt"))
        if self._check_text and not _is_utf8(value):
            data = value.encode("utf-8", "surrogatepass")
            return {TAG: "str", "v": base64.b64encode(data).decode()}
        return str.__str__(value)

    def _bytes(self, value: bytes | bytearray | memoryview, path: str, depth: int) -> Any:
        data = bytes(value)
        if len(data) > BYTES_INLINE and self._blobs is not None:
            return _blob_tag("blob", self._blobs.put(data, _extension(data)))
        return {TAG: "bytes", "v": base64.b64encode(data).decode()}

    def _items(self, values: Sequence[Any], path: str, depth: int) -> list[Any]:
        if len(values) > _MANY and _all_plain_numbers(values):
            return list(values)
        depth += 1
        return [self._encode(item, f"{path}[{i}]", depth) for i, item in enumerate(values)]

    def _list(self, value: Sequence[Any], path: str, depth: int) -> Any:
        return self._items(value, path, depth)

    def _tuple(self, value: tuple[Any, ...], path: str, depth: int) -> Any:
        return {TAG: "tuple", "v": self._items(value, path, depth)}

    def _set(self, value: set[Any] | frozenset[Any], path: str, depth: int) -> Any:
        kind = "frozenset" if isinstance(value, frozenset) else "set"
        return {TAG: kind, "v": self._items(sorted(value, key=_safe_repr), path, depth)}

    def _dict(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        if TAG not in value and all(type(key) is str for key in value):
            if self._check_text and not all(map(_is_utf8, value)):
                return self._pairs(value, path, depth)
            inner = depth + 1
            return {k: self._encode(v, f"{path}.{k}", inner) for k, v in value.items()}
        return self._pairs(value, path, depth)

    def _pairs(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        inner = depth + 1
        pairs = [
            [
                self._encode(k, f"{path}.key", inner),
                self._encode(v, f"{path}[{_safe_repr(k)[:40]}]", inner),
            ]
            for k, v in value.items()
        ]
        return {TAG: "dict", "v": pairs}

    def _ndarray(self, value: np.ndarray[Any, Any], path: str, depth: int) -> Any:
        if type(value) is not np.ndarray and np.ma.isMaskedArray(value):
            return self._refuse(value, path, "whose mask would be lost")
        tag = {TAG: "ndarray", "shape": list(value.shape)}
        if value.dtype == object:
            return {**tag, "dtype": "object", "v": self._items(value.ravel().tolist(), path, depth)}
        dtype = self._dtype(value.dtype)
        if dtype is None:
            return self._refuse(value, path, f"dtype {value.dtype}")
        return {**tag, "dtype": dtype, "v": self._bytes(value.tobytes(), path, depth)}

    def _scalar(self, value: np.generic, path: str, depth: int) -> Any:
        dtype = self._dtype(value.dtype)
        if dtype is None:
            return self._refuse(value, path, f"dtype {value.dtype}")
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            item = self._encode(value.item(), path, depth)
        elif isinstance(value, np.str_):
            item = self._bytes(value.encode("utf-32-le", "surrogatepass"), path, depth)
        else:
            # A np.bytes_ may end with zero bytes, which its buffer leaves out.
            data = bytes(value) if isinstance(value, np.bytes_) else value.tobytes()
            item = self._bytes(data, path, depth)
        return {TAG: "scalar", "dtype": dtype, "v": item}

    def _dtype(self, dtype: np.dtype[Any]) -> Any:
        """Returns a dtype as JSON data; None if it cannot be kept."""
        description = _described(dtype)
        return self._encode(description, "", 0) if isinstance(description, dict) else description

    def _datetime(self, value: datetime.datetime, path: str, depth: int) -> Any:
        return {TAG: "datetime", "v": value.isoformat()}

    def _enum(self, value: enum.Enum, path: str, depth: int) -> Any:
        name = record_types.name_of(type(value))
        inner = self._encode(value.value, path, depth + 1)
        return {TAG: "enum", "type": name, "member": value.name, "v": inner}

    def _record(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, record_types.OpaqueRecord):
            name, fields = value.type_name, value.fields
        else:
            name = record_types.name_of(type(value))
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {TAG: "record", "type": name, "fields": self._dict(fields, path, depth)}

    def _namedtuple(self, value: Any, path: str, depth: int) -> Any:
        fields = self._dict(dict(zip(value._fields, value, strict=True)), path, depth)
        return {TAG: "namedtuple", "type": type(value).__name__, "fields": fields}

    def _unknown(self, value: Any, path: str, depth: int) -> Any:
        return self._refuse(value, path)


_EncodeMethod = Callable[[Encoder, Any, str, int], Any]

_ENCODERS: dict[type, _EncodeMethod] = {
    type(None): Encoder._plain,
    bool: Encoder._plain,
    int: Encoder._int,
    float: Encoder._float,
    complex: Encoder._complex,
    str: Encoder._str,
    bytes: Encoder._bytes,
    bytearray: Encoder._bytes,
    memoryview: Encoder._bytes,
    list: Encoder._list,
    tuple: Encoder._tuple,
    set: Encoder._set,
    frozenset: Encoder._set,
    dict: Encoder._dict,
    np.ndarray: Encoder._ndarray,
    datetime.datetime: Encoder._datetime,
}
_NESTING = {
    Encoder._list, Encoder._tuple, Encoder._set, Encoder._dict, Encoder._ndarray,
    Encoder._record, Encoder._namedtuple, Encoder._enum,
}  # fmt: skip


def _encoder_by_protocol(value: Any) -> _EncodeMethod:
    """Returns the method for a value whose exact type has none."""
    if isinstance(value, np.generic):
        return Encoder._scalar
    if isinstance(value, enum.Enum):
        return Encoder._enum
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Encoder._record
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Encoder._namedtuple
    for base, method in _ENCODERS.items():
        if isinstance(value, base):
            return method
    if isinstance(value, Mapping):
        return Encoder._dict
    return Encoder._unknown


def dumps(value: Any, blobs: BlobSink | None = None) -> tuple[bytes, list[str]]:
    """Returns `value` as JSON bytes, and what of it could not be kept (see `Encoder`)."""
    encoder = Encoder(blobs)
    try:
        return orjson.dumps(encoder.encode(value)), encoder.unwritable
    except orjson.JSONEncodeError:  # Text with lone surrogates: find it.
        encoder = Encoder(blobs, check_text=True)
        return orjson.dumps(encoder.encode(value)), encoder.unwritable


_described = functools.lru_cache(maxsize=256)(dtypes.describe)


def _blob_tag(kind: str, blob: Blob) -> dict[str, Any]:
    return {TAG: kind, "sha256": blob.sha256, "ext": blob.ext, "size": blob.size}


def _extension(data: bytes) -> str:
    for magic, ext in _MAGIC.items():
        if data.startswith(magic):
            return ext
    return "bin"


_MAGIC = {
    b"\xff\xd8\xff": "jpg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"RIFF": "webp",
    b"GIF8": "gif",
    b"%PDF-": "pdf",
}


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _safe_repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # A broken repr must not cost the rest of the record.
        text = f"<repr failed: {type(error).__name__}>"
    return text[:_REPR_CHARS].encode("utf-8", "replace").decode()
