"""Encoding of values and records as JSON data. `webtraj.store.values` describes the values."""

from __future__ import annotations

import base64
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import types
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

import numpy as np
import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import foreign, values
from webtraj.store.blobs import BlobSink
from webtraj.store.foreign import ReprOnly, bounded_repr, is_valid_text
from webtraj.store.values import TAG

__all__ = ["Encoder", "dumps", "dumps_fields", "encode_record", "wrong"]

BYTES_INLINE = 1024
"""Longer bytes go to the blob sink, if there is one."""
TEXT_INLINE = 4096
"""Longer text, in characters, goes to the blob sink, if there is one."""
_CHUNK_DEPTH = 60
"""Levels of nesting per JSON text; JSON parsers stop at a few hundred."""
_MANY = 32
"""The number of items from which checking for lists of plain numbers pays off."""
_CHARS_AN_ITEM = 64
"""The number of characters of text that count as another item."""
_BYTES_AN_ITEM = 256
"""The number of bytes that count as another item."""
_MOST_NAMED = 100
"""The most values kept as their repr that are reported to the caller."""


class _NotUtf8Error(Exception):
    """Text in a value has lone surrogates, for which orjson raises only a TypeError."""


class _TooLargeError(Exception):
    """A value exceeds its budget."""


def _all_plain_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers that JSON supports. May wrongly return False."""
    types = set(map(type, values))
    if types == {int}:
        return bool(min(values) >= -(2**63) and max(values) < 2**64)
    return types == {float} and math.isfinite(sum(values))


class Encoder:
    """Encodes the values of one record as JSON data, noting those kept as their repr.

    It never fails. A value that cannot be encoded is kept as its repr.

    Attributes:
        repr_only: The paths and types of values of which only the repr is kept, as `path: type`,
            in order; at most 100.
    """

    def __init__(self, blobs: BlobSink | None = None, *, careful: bool = False) -> None:
        """Initialize the encoder.

        Args:
            blobs: Takes long bytes and text; without it everything stays in the record.
            careful: Whether to look for text that is not valid UTF-8, and to treat a stack that
                gets too deep as a fault of the value. Slow, and needed only after a first attempt
                failed; see `_dumps`.
        """
        self._blobs = blobs
        self._careful = careful
        self._open: set[int] = set()
        self._left = values.MOST_ITEMS
        self._overruns = 0
        self._sink_error: Exception | None = None
        self.repr_only: list[str] = []

    def encode(self, value: Any, path: str = "") -> Any:
        """Encode `value` as JSON data. `path` names it in `repr_only`.

        Raises:
            OSError: The blob sink failed.
        """
        self._left = values.MOST_ITEMS
        return self._encode(value, path, 0)

    def _encode(self, value: Any, path: str, depth: int) -> Any:
        encode = _ENCODERS.get(type(value), Encoder._foreign)
        try:
            if encode not in _NESTING:
                return encode(self, value, path, depth)
            return self._encode_nest(encode, value, path, depth)
        except _NotUtf8Error:
            raise
        except _TooLargeError:
            if depth > 1:
                raise
            self._overruns += 1  # Its siblings are kept, with a smaller budget.
            self._left = values.MOST_ITEMS >> self._overruns
            return self._refuse(value, path, "too large", look=False)
        except RecursionError:
            if not self._careful:
                raise
            return self._refuse(value, path, "which raised RecursionError")
        except Exception as error:  # Inspecting a value may run any code.
            if error is self._sink_error:
                raise
            return self._refuse(value, path, f"which raised {type(error).__name__}")

    def _foreign(self, value: Any, path: str, depth: int) -> Any:
        """Encode a value whose exact type has no method."""
        if isinstance(value, np.generic):
            return self._scalar(value, path, depth)
        encode: _EncodeMethod | None = None
        if isinstance(value, enum.Enum):
            encode = Encoder._enum
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            encode = Encoder._record
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            encode = Encoder._namedtuple
        if encode is not None:
            return self._encode_nest(encode, value, path, depth)
        plain = foreign.to_plain(value)
        if type(plain) is ReprOnly:
            return self._write_repr(plain, path)
        encode = _ENCODERS.get(type(plain), Encoder._record)
        if encode not in _NESTING:
            return encode(self, plain, path, depth)
        return self._encode_nest(encode, plain, path, depth, of=value)

    def _encode_nest(
        self, encode: _EncodeMethod, value: Any, path: str, depth: int, of: Any = None
    ) -> Any:
        # A foreign value's plain form is made anew each time, so detect loops by the value itself.
        given = value if of is None else of
        identity = id(given)
        if identity in self._open:
            return self._refuse(given, path, "contains itself")
        if depth >= values.MAX_DEPTH:
            return self._refuse(given, path, f"nested more than {values.MAX_DEPTH} levels deep")
        self._open.add(identity)
        try:
            if depth and depth % _CHUNK_DEPTH == 0:
                inner = values.call_on_fresh_stack(encode, self, value, path, depth + 1)
                try:
                    return {TAG: "nested", "v": orjson.dumps(inner).decode()}
                except orjson.JSONEncodeError as error:
                    raise _NotUtf8Error from error
            return encode(self, value, path, depth)
        finally:
            self._open.discard(identity)

    def _spend(self, items: int) -> None:
        self._left -= items
        if self._left < 0:
            raise _TooLargeError

    def _refuse(self, value: Any, path: str, reason: str, *, look: bool = True) -> Any:
        return self._write_repr(foreign.repr_only(value, reason, look=look), path)

    def note(self, value: ReprOnly, path: str) -> None:
        """Note that only the repr of a value is kept."""
        if len(self.repr_only) < _MOST_NAMED:
            why = value.reason and ", " + value.reason
            self.repr_only.append(f"{path[:200] or 'value'}: {value.type_name}{why}")

    def _write_repr(self, value: ReprOnly, path: str) -> Any:
        self._spend(len(value.repr) // _CHARS_AN_ITEM)
        self.note(value, path)
        return self._repr_only(value, path, 0)

    def _repr_only(self, value: ReprOnly, path: str, depth: int) -> Any:
        tag = {TAG: "unwritable", "type": value.type_name, "repr": value.repr}
        if value.reason:
            tag["reason"] = value.reason
        return {key: self._str(text, path, depth) for key, text in tag.items()}

    def _put(self, kind: str, data: bytes, ext: str) -> Any:
        assert self._blobs is not None
        try:
            blob = self._blobs.put(data, ext)
        except Exception as error:  # The sink failed, not the value.
            self._sink_error = error
            raise
        return {TAG: kind, "sha256": blob.sha256, "ext": blob.ext, "size": blob.size}

    def _int(self, value: int, path: str, depth: int) -> Any:
        if -(2**63) <= value < 2**64:
            return value
        return {TAG: "int", "v": hex(value)}

    def _float(self, value: float, path: str, depth: int) -> Any:
        if value - value == 0.0:  # Neither NaN nor an infinity.
            return value
        return {TAG: "float", "v": repr(value)}

    def _str(self, value: str, path: str, depth: int) -> Any:
        size = len(value)
        if size > _CHARS_AN_ITEM:
            if size > TEXT_INLINE and self._blobs is not None:
                self._spend(size // _BYTES_AN_ITEM)
                return self._put("text", value.encode("utf-8", "surrogatepass"), "txt")
            self._spend(size // _CHARS_AN_ITEM)
        if self._careful and not is_valid_text(value):
            data = value.encode("utf-8", "surrogatepass")
            return {TAG: "str", "v": base64.b64encode(data).decode()}
        return value

    def _bytes(self, value: bytes | bytearray | memoryview, path: str, depth: int) -> Any:
        data = bytes(value)
        self._spend(len(data) // _BYTES_AN_ITEM)
        if len(data) > BYTES_INLINE and self._blobs is not None:
            ext = next((ext for magic, ext in _MAGIC.items() if data.startswith(magic)), "bin")
            return self._put("blob", data, ext)
        return {TAG: "bytes", "v": base64.b64encode(data).decode()}

    def _items(self, values: Sequence[Any], path: str, depth: int) -> list[Any]:
        self._spend(len(values))
        if len(values) > _MANY and _all_plain_numbers(values):
            return list(values)
        depth += 1
        return [self._encode(item, f"{path}[{i}]", depth) for i, item in enumerate(values)]

    def _tuple(self, value: tuple[Any, ...], path: str, depth: int) -> Any:
        return {TAG: "tuple", "v": self._items(value, path, depth)}

    def _set(self, value: set[Any] | frozenset[Any], path: str, depth: int) -> Any:
        kind = "frozenset" if isinstance(value, frozenset) else "set"
        return {TAG: kind, "v": self._items(sorted(value, key=bounded_repr), path, depth)}

    def _dict(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        self._spend(len(value))
        inner = depth + 1
        named = all(type(key) is str for key in value) and TAG not in value
        if named and not (self._careful and not all(map(is_valid_text, value))):
            return {k: self._encode(v, f"{path}.{k}", inner) for k, v in value.items()}
        pairs = [
            [
                self._encode(k, f"{path}.key", inner),
                self._encode(v, f"{path}[{bounded_repr(k)[:40]}]", inner),
            ]
            for k, v in value.items()
        ]
        return {TAG: "dict", "v": pairs}

    def _ndarray(self, value: np.ndarray[Any, Any], path: str, depth: int) -> Any:
        tag = {TAG: "ndarray", "shape": list(value.shape)}
        if value.dtype == object:
            return {**tag, "dtype": "object", "v": self._items(value.ravel().tolist(), path, depth)}
        dtype = self._dtype(value.dtype)
        if dtype is None:
            return self._refuse(value, path, f"dtype {value.dtype}")
        self._spend(value.nbytes // _BYTES_AN_ITEM)  # Before copying: it may be a broadcast view.
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
            # A np.bytes_ may end with zero bytes, which its buffer omits.
            data = bytes(value) if isinstance(value, np.bytes_) else value.tobytes()
            item = self._bytes(data, path, depth)
        return {TAG: "scalar", "dtype": dtype, "v": item}

    def _dtype(self, dtype: np.dtype[Any]) -> Any:
        """Encode a dtype as JSON data; None if that is impossible."""
        description = _described(dtype)
        return self._encode(description, "", 0) if isinstance(description, dict) else description

    def _plain(self, value: Any, path: str, depth: int) -> Any:
        return value

    def _complex(self, value: complex, path: str, depth: int) -> Any:
        return self._numbers("complex", value.real, value.imag)

    def _timedelta(self, value: datetime.timedelta, path: str, depth: int) -> Any:
        return self._numbers("timedelta", value.days, value.seconds, value.microseconds)

    def _range(self, value: range, path: str, depth: int) -> Any:
        return self._numbers("range", value.start, value.stop, value.step)

    def _numbers(self, kind: str, *numbers: float) -> Any:
        return {TAG: kind, "v": [self._encode(number, "", 0) for number in numbers]}

    def _text_of(self, value: decimal.Decimal | uuid.UUID, path: str, depth: int) -> Any:
        return {TAG: type(value).__name__.lower(), "v": str(value)}

    def _isoformat(self, value: datetime.date | datetime.time, path: str, depth: int) -> Any:
        return {TAG: type(value).__name__, "v": value.isoformat()}

    def _path(self, value: PurePath, path: str, depth: int) -> Any:
        flavour = "windows" if isinstance(value, PureWindowsPath) else "posix"
        return {TAG: "path", "flavour": flavour, "v": self._str(str(value), path, depth)}

    def _enum(self, value: enum.Enum, path: str, depth: int) -> Any:
        name = foreign.valid_text(values.name_of(type(value)))
        member = None if value.name is None else foreign.valid_text(str(value.name))
        inner = self._encode(value.value, path, depth + 1)
        return {TAG: "enum", "type": name, "member": member, "v": inner}

    def _record(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, values.OpaqueRecord):
            name, fields = value.type_name, value.fields
        else:
            name = values.name_of(type(value))
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        name = foreign.valid_text(name)
        return {TAG: "record", "type": name, "fields": self._dict(dict(fields), path, depth)}

    def _namedtuple(self, value: Any, path: str, depth: int) -> Any:
        fields = self._dict(dict(zip(value._fields, value, strict=True)), path, depth)
        name = foreign.valid_text(type(value).__name__)
        return {TAG: "namedtuple", "type": name, "fields": fields}


_EncodeMethod = Callable[[Encoder, Any, str, int], Any]

_ENCODERS: dict[type, _EncodeMethod] = {
    **dict.fromkeys((type(None), bool), Encoder._plain),
    int: Encoder._int,
    float: Encoder._float,
    complex: Encoder._complex,
    str: Encoder._str,
    **dict.fromkeys((bytes, bytearray, memoryview), Encoder._bytes),
    list: Encoder._items,
    tuple: Encoder._tuple,
    **dict.fromkeys((set, frozenset), Encoder._set),
    dict: Encoder._dict,
    np.ndarray: Encoder._ndarray,
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time), Encoder._isoformat),
    datetime.timedelta: Encoder._timedelta,
    **dict.fromkeys((decimal.Decimal, uuid.UUID), Encoder._text_of),
    range: Encoder._range,
    **dict.fromkeys((PurePosixPath, PosixPath, PureWindowsPath, WindowsPath), Encoder._path),
    ReprOnly: Encoder._repr_only,
}
_NESTING = {
    Encoder._items, Encoder._tuple, Encoder._set, Encoder._dict, Encoder._ndarray,
    Encoder._record, Encoder._namedtuple, Encoder._enum,
}  # fmt: skip


def dumps(value: Any, blobs: BlobSink | None = None) -> tuple[bytes, list[str]]:
    """Return `value` as JSON bytes, and the values kept as their repr (see `Encoder`)."""
    return _dumps(lambda encoder: encoder.encode(value), blobs)


def _dumps(
    encode: Callable[[Encoder], Any], blobs: BlobSink | None = None
) -> tuple[bytes, list[str]]:
    """Return the result of `encode` as JSON bytes, and the values kept as their repr.

    Raises:
        OSError: The blob sink failed.
    """
    try:
        encoder = Encoder(blobs)
        return orjson.dumps(encode(encoder)), encoder.repr_only
    except (orjson.JSONEncodeError, _NotUtf8Error):  # Text with lone surrogates: find it.
        encoder = Encoder(blobs, careful=True)
        return orjson.dumps(encode(encoder)), encoder.repr_only
    except RecursionError:  # The caller has used up most of the stack.
        encoder = Encoder(blobs, careful=True)
        return orjson.dumps(values.call_on_fresh_stack(encode, encoder)), encoder.repr_only


_described = functools.lru_cache(maxsize=256)(values.dtype_to_data)


_MAGIC = {
    b"\xff\xd8\xff": "jpg",
    b"\x89PNG\r\n\x1a\n": "png",
    b"RIFF": "webp",
    b"GIF8": "gif",
    b"%PDF-": "pdf",
}


# The records of `webtraj.trajectory`: objects of their fields by name.
#
# Fields with their default value are omitted, so fields that an older writer did not know get their
# defaults. Enums are written by name, in lower case. Records have checked their numbers; text and
# metadata are converted here, since programs fill them with what they have: a `Path` as a task, a
# pydantic model as metadata. A value in place of a record or an enum is refused.

_ToJson = Callable[[Encoder, Any, str], Any]
_EMPTY = (str, tuple, dict, int, bool)


def encode_record(record: Any, encoder: Encoder, path: str = "") -> dict[str, Any]:
    """Encode one of the records of `webtraj.trajectory` as JSON data.

    Raises:
        InvalidInputError: A field that must be a record or an enum is something else.
    """
    data: dict[str, Any] = {}
    for name, default, to_json in _writers_of(type(record)):
        value = getattr(record, name)
        if value is default or (type(value) in _EMPTY and value == default):
            continue
        data[name] = to_json(encoder, value, f"{path}.{name}" if path else name)
    return data


def dumps_fields(
    fields: Mapping[str, Any], blobs: BlobSink | None = None
) -> tuple[bytes, list[str]]:
    """Return an object of records and values as JSON bytes, and the values kept as their repr.

    Args:
        fields: Records of `webtraj.trajectory` become objects of their fields; other values follow
            `webtraj.store.values`.
        blobs: Takes long bytes and text; without it everything stays in the result.

    Raises:
        InvalidInputError: A field of a record that must be a record or an enum is something else.
        OSError: The blob sink failed.
    """
    return _dumps(functools.partial(_encode_fields, fields), blobs)


def _encode_fields(fields: Mapping[str, Any], encoder: Encoder) -> dict[str, Any]:
    return {
        name: encode_record(value, encoder, name)
        if issubclass(type(value), _RECORDS)
        else encoder.encode(value, name)
        for name, value in fields.items()
    }


def _write_record(cls: type, encoder: Encoder, value: Any, path: str) -> Any:
    if value is None:
        return None
    if not issubclass(type(value), cls):
        raise wrong(path, value, f"one of webtraj's {cls.__name__}")
    return encode_record(value, encoder, path)


def _write_records(cls: type, encoder: Encoder, value: Any, path: str) -> Any:
    return [
        encode_record(_as_record(item, cls, f"{path}[{i}]"), encoder, f"{path}[{i}]")
        for i, item in enumerate(_as_list(value))
    ]


def _write_text(encoder: Encoder, value: Any, path: str) -> Any:
    return encoder.encode(value if type(value) is str else _as_text(value), path)


def _write_texts(encoder: Encoder, value: Any, path: str) -> Any:
    return encoder.encode(list(map(_as_text, _as_list(value))), path)


def _write_list(encoder: Encoder, value: Any, path: str) -> Any:
    return encoder.encode(_as_list(value), path)


def _write_mapping(encoder: Encoder, value: Any, path: str) -> Any:
    if value is None:
        return {}
    data = encoder.encode(value, path)
    is_mapping = type(data) is dict and data.get(values.TAG, "dict") == "dict"
    return data if is_mapping else {"value": data}


def _write_text_mapping(encoder: Encoder, value: Any, path: str) -> Any:
    plain = foreign.to_plain(value)
    if type(plain) is not dict:
        return encoder.encode({"value": _as_text(value)}, path)
    return encoder.encode({_as_text(key): _as_text(item) for key, item in plain.items()}, path)


def _write_enum(cls: type[enum.Enum], encoder: Encoder, value: Any, path: str) -> Any:
    if not isinstance(value, cls):
        raise wrong(path, value, f"a member of {cls.__name__}")
    return value.name.lower()


def wrong(path: str, value: Any, expected: str) -> errors.InvalidInputError:
    """Return the error for a value that a record's field cannot hold."""
    return errors.InvalidInputError(f"{path} is {bounded_repr(value)[:100]}; expected {expected}.")


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, (bytes, bytearray)):
            return value.decode("utf-8", "replace")
        text = str(value)
        return text if type(text) is str else str.__str__(text)
    except Exception:  # Converting a foreign object to text may run any code.
        return foreign.bounded_repr(value)


def _as_list(value: Any) -> list[Any]:
    """Return a value's items for a tuple. An iterator counts as one item and is not consumed."""
    if type(value) in (list, tuple):
        return list(value)
    if value is None:
        return []
    plain = foreign.to_plain(value)
    if isinstance(plain, np.ndarray):
        plain = plain.tolist()
    return list(plain) if type(plain) in (list, tuple) else [value]


def _as_record(item: Any, cls: type, path: str) -> Any:
    """Convert an item to a record if possible: a reply to its call, for example."""
    if not issubclass(type(item), cls):
        field = _HOLDS_ANYTHING.get(cls)
        if field is None:
            raise wrong(path, item, f"one of webtraj's {cls.__name__}")
        return cls(**{field: item})
    return item


_HOLDS_ANYTHING = {
    trajectory_lib.ModelCall: "response",
    trajectory_lib.Derivation: "step",
}

_RECORDS: tuple[type, ...] = (
    trajectory_lib.Decision,
    trajectory_lib.Derivation,
    trajectory_lib.EpisodeEnd,
    trajectory_lib.EpisodeInfo,
    trajectory_lib.EpisodeTrajectory,
    trajectory_lib.ErrorInfo,
    trajectory_lib.FailedAttempt,
    trajectory_lib.Judgement,
    trajectory_lib.ModelCall,
    trajectory_lib.StepRecord,
)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is dict:
        return {}
    return field.default  # MISSING, unequal to any value, if there is none.


def _writer(hint: Any) -> _ToJson:
    """Return the writer of a field, by its annotation."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is collections.abc.Mapping:
        return _write_text_mapping if arguments[1] is str else _write_mapping
    if hint is str:
        return _write_text
    is_row = origin is tuple
    item = arguments[0] if is_row else hint
    if item in _RECORDS:
        return functools.partial(_write_records if is_row else _write_record, item)
    if isinstance(item, type) and issubclass(item, enum.Enum):
        return functools.partial(_write_enum, item)
    if is_row:
        return _write_texts if item is str else _write_list
    return Encoder.encode


_WRITERS: dict[type, tuple[tuple[str, Any, _ToJson], ...]] = {
    cls: tuple(
        (field.name, _default(field), _writer(hints[field.name]))
        for field in dataclasses.fields(cls)
    )
    for cls in _RECORDS
    for hints in [typing.get_type_hints(cls)]
}


def _writers_of(cls: type) -> tuple[tuple[str, Any, _ToJson], ...]:
    """Return the writers of a record's class, or of the class that it is derived from."""
    return _WRITERS.get(cls) or next(_WRITERS[base] for base in cls.__mro__ if base in _WRITERS)
