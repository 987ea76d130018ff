"""JSON data back to values. The format is described in `webtraj.store.values`.

Nothing in a file is trusted: no class that it names is imported, only constructors of registered
record types run, and memory is taken from its `Budget` before it is allocated. `_DECODERS` is the
complete list of tags.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import uuid
from collections.abc import Callable, Iterable
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import orjson

from webtraj import errors
from webtraj.store import values
from webtraj.store.blobs import Blob, BlobSource
from webtraj.store.foreign import ReprOnly
from webtraj.store.values import TAG

__all__ = [
    "ATOMS",
    "Budget",
    "CEILING",
    "FLOOR",
    "MALFORMED",
    "RATIO",
    "Reading",
    "check_hashes",
    "check_text",
    "decode",
    "decode_value",
]

# The memory limit for reading one file.
#
# A small file can ask for a lot of memory: an array of a huge shape, a string referred to a million
# times, a pickle of empty sets. The reader of a file makes one `Budget` from its size and passes it
# to everything that reads a part of it; each part takes what it needs before allocating.

RATIO = 64
"""Bytes of memory allowed for each byte of a file."""
FLOOR = 256 << 20
"""Bytes of memory always allowed."""
CEILING = 16 << 30
"""The most bytes of memory allowed; for a larger file, four times its size."""


class Budget:
    """The memory that reading one file may still use."""

    __slots__ = ("_left", "limit", "where")

    def __init__(self, where: str, size: int, *, limit: int | None = None) -> None:
        """Initialize the budget.

        Args:
            where: The file's name in errors.
            size: The bytes of the stored file and of the blobs that it refers to.
            limit: The memory in bytes. Default: in proportion to the size.
        """
        self.where = where
        self.limit = max(FLOOR, min(RATIO * size, CEILING), 4 * size) if limit is None else limit
        self._left = self.limit

    def allows(self, size: int) -> bool:
        """Take memory if it is available; return whether it was."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def take(self, size: int) -> None:
        """Take memory that is about to be allocated.

        Raises:
            CorruptDataError: The file exceeds its limit.
        """
        self._left -= size
        if self._left < 0:
            raise errors.CorruptDataError(
                f"{self.where!r} needs more than {self.limit:,} bytes of memory, the limit for a "
                "file of its size. It was refused before allocating them: the file is damaged, or "
                "was made to exhaust memory."
            )


class Reading:
    """The state of reading one file: its blobs, and its memory budget.

    Each blob is loaded once, however often the file refers to it.
    """

    __slots__ = ("_arrays", "_blobs", "_loaded", "_read", "budget")

    def __init__(self, blobs: BlobSource | None = None, budget: Budget | None = None) -> None:
        """Initialize the reading.

        Args:
            blobs: The source of the blobs that the file refers to.
            budget: The file's memory budget. Default: the budget of a small file.
        """
        self._blobs = blobs
        self.budget = budget or Budget("a stored value", 0)
        self._loaded: dict[tuple[Blob, bool], Any] = {}
        self._read: set[Blob] = set()
        self._arrays: dict[Blob, bytes] = {}

    def load(self, blob: Blob, *, text: bool) -> Any:
        """Return a blob's bytes or text, or an object that loads them lazily."""
        key = (blob, text)
        if key not in self._loaded:
            self._loaded[key] = self._source(blob).load(blob, text=text)
        return self._loaded[key]

    def read(self, blob: Blob) -> tuple[bytes, bool]:
        """Return a blob's bytes, and whether the file has requested them before."""
        if blob not in self._read:
            self._read.add(blob)
            return self._source(blob).read(blob), False
        if blob not in self._arrays:
            self._arrays[blob] = self._source(blob).read(blob)
        return self._arrays[blob], True

    def _source(self, blob: Blob) -> BlobSource:
        if self._blobs is None:
            raise errors.CorruptDataError(
                f"No blob store to read the blob {blob.sha256!r:.100} from, which is referred to."
            )
        return self._blobs


def decode(data: Any, blobs: BlobSource | None = None, budget: Budget | None = None) -> Any:
    """Decode `data`, parsed JSON, to the value that it encodes.

    Args:
        data: The parsed JSON.
        blobs: The source of the blobs that it refers to.
        budget: The memory budget. Default: the budget of a small file.

    Raises:
        CorruptDataError: It does not follow the format, or needs too much memory.
    """
    try:
        return decode_value(data, Reading(blobs, budget))
    except errors.WebtrajError:
        raise
    except MALFORMED as error:
        raise errors.CorruptDataError(
            f"A stored value does not follow the format: {type(error).__name__}: {error}. "
            "Run `webtraj verify` on the dataset."
        ) from error


MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    SystemError,
)
"""The exceptions that decoding malformed data can raise."""


def decode_value(data: Any, reading: Reading) -> Any:
    """Decode parsed JSON; malformed data raises one of `MALFORMED`."""
    kind = type(data)
    if kind is dict:
        if TAG not in data:
            if _CONTAINERS.isdisjoint(map(type, data.values())):
                return data.copy()
            return {
                key: value if type(value) in ATOMS else decode_value(value, reading)
                for key, value in data.items()
            }
        return _DECODERS[data[TAG]](data, reading)
    if kind is list:
        return _decode_list(data, reading)
    return data


ATOMS: frozenset[type] = frozenset((str, int, float, bool, type(None)))
"""The types of JSON values that stand for themselves."""


def _decode_list(data: list[Any], reading: Reading) -> list[Any]:
    if _CONTAINERS.isdisjoint(map(type, data)):  # Fast path for thousands of token ids.
        return data.copy()
    return [decode_value(item, reading) for item in data]


def _decode_items(data: dict[str, Any], reading: Reading) -> list[Any]:
    return _decode_list(data["v"], reading)


def _blob(data: dict[str, Any]) -> Blob:
    return Blob(data["sha256"], data["ext"], int(data["size"]))


def _decode_blob(data: dict[str, Any], reading: Reading) -> Any:
    return reading.load(_blob(data), text=data[TAG] == "text")


def _decode_bytes(data: dict[str, Any], reading: Reading) -> tuple[bytes, bool]:
    """Return bytes, and whether the file has referred to the same bytes before."""
    if data[TAG] == "blob":
        return reading.read(_blob(data))
    return base64.b64decode(data["v"], validate=True), False


def _decode_ndarray(data: dict[str, Any], reading: Reading) -> Any:
    shape = tuple(int(size) for size in data["shape"])
    if any(size < 0 for size in shape):
        raise ValueError(f"an array has the shape {shape}")
    if 0 in shape:
        # It holds no items, but each of its empty rows becomes an object when iterated.
        reading.budget.take(math.prod(max(size, 1) for size in shape) * _ROW)
    if data["dtype"] == "object":
        items = _decode_items(data, reading)
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            flat[i] = item
        return flat.reshape(shape)
    dtype = values.dtype_from_data(decode_value(data["dtype"], reading))
    raw, repeated = _decode_bytes(data["v"], reading)
    if dtype.itemsize == 0:
        reading.budget.take(math.prod(shape) * _ROW)
        return np.ndarray(shape, dtype, raw)
    array = np.frombuffer(raw, dtype=dtype).reshape(shape)
    check_text(array)
    if repeated and not reading.budget.allows(array.nbytes):
        return array  # Too many to copy each: they share their bytes, read-only.
    return array.copy()


_ROW = 64
"""Bytes of memory for an empty row or text as a Python object."""
_LAST_CHARACTER = 0x10FFFF


def check_text(array: np.ndarray[Any, Any]) -> None:
    """Refuse arrays of invalid Unicode, on which numpy raises a SystemError later."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            check_text(array[name])
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        points = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if points.max() > _LAST_CHARACTER:
            raise ValueError("an array of text contains an invalid character")


def _decode_scalar(data: dict[str, Any], reading: Reading) -> Any:
    dtype = values.dtype_from_data(decode_value(data["dtype"], reading))
    value = data["v"]
    if not isinstance(value, dict) or value[TAG] not in ("bytes", "blob"):
        number = decode_value(value, reading)
        if dtype.kind not in "biuf" or not isinstance(number, (int, float)):
            raise TypeError(f"a scalar of the dtype {dtype} is {number!r:.60}")
        with np.errstate(all="ignore"):
            return dtype.type(number)
    raw, _ = _decode_bytes(value, reading)
    if dtype.kind == "U":
        return np.str_(raw.decode("utf-32-le", "surrogatepass"))
    if dtype.kind == "S":
        return np.bytes_(raw)
    if dtype.itemsize > len(raw):
        raise ValueError(f"a scalar of {dtype.itemsize} bytes has {len(raw)}")
    array = np.ndarray((1,), dtype, raw)
    check_text(array)
    return array.copy()[0]


def check_hashes(keys: Iterable[Any]) -> None:
    """Refuse keys that were chosen to make a dict or set extremely slow.

    Python's hashes of numbers, and of tuples of them, are not secret.

    Raises:
        ValueError: Too many keys have one hash.
        TypeError: A key is not hashable.
    """
    counts = collections.Counter(map(hash, keys))
    if counts and max(counts.values()) > _SAME_HASH:
        raise ValueError(f"more than {_SAME_HASH} keys of a dict or set have the same hash")


_SAME_HASH = 1000


def _decode_set(data: dict[str, Any], reading: Reading) -> Any:
    items = _decode_items(data, reading)
    try:
        check_hashes(items)
        result = set(items) if data[TAG] == "set" else frozenset(items)
    except TypeError:
        result = set()
    # Items of unknown classes may have become unhashable or equal.
    if len(result) < len(items):
        return values.OpaqueRecord(data[TAG], {"items": items})
    return result


def _decode_dict(data: dict[str, Any], reading: Reading) -> Any:
    pairs = [(decode_value(key, reading), decode_value(value, reading)) for key, value in data["v"]]
    try:
        check_hashes(key for key, _ in pairs)
        result = dict(pairs)
    except TypeError:
        result = {}
    if len(result) < len(pairs):  # As in a set.
        return values.OpaqueRecord("dict", {"items": pairs})
    return result


def _decode_record(data: dict[str, Any], reading: Reading) -> Any:
    fields = decode_value(data["fields"], reading)
    cls = values.class_of(data["type"])
    if cls is None or not dataclasses.is_dataclass(cls):
        return values.OpaqueRecord(data["type"], fields)
    known = _init_fields(cls)
    try:
        if known.issuperset(fields):
            return cls(**fields)
        return cls(**{name: value for name, value in fields.items() if name in known})
    except Exception:  # The class has changed since; keep its fields.
        return values.OpaqueRecord(data["type"], fields)


@functools.cache
def _init_fields(cls: Any) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(cls) if field.init)


def _decode_enum(data: dict[str, Any], reading: Reading) -> Any:
    cls = values.class_of(data["type"])
    value = decode_value(data["v"], reading)
    if cls is None or not issubclass(cls, enum.Enum):
        return value
    if data["member"] in cls.__members__:
        return cls[data["member"]]
    try:
        return cls(value)  # Combined flags have no member.
    except ValueError:
        return value


def _decode_namedtuple(data: dict[str, Any], reading: Reading) -> Any:
    fields = decode_value(data["fields"], reading)
    return _namedtuple_class(str(data["type"]), tuple(fields))(*fields.values())


@functools.lru_cache(maxsize=256)
def _namedtuple_class(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    # Names that are not identifiers are replaced, as the original class did.
    return collections.namedtuple(name, fields, rename=True)


def _integers(data: dict[str, Any], reading: Reading) -> list[int]:
    first, second, third = _decode_items(data, reading)
    return [int(first), int(second), int(third)]


def _decode_path(data: dict[str, Any], reading: Reading) -> PurePath:
    make = PureWindowsPath if data["flavour"] == "windows" else PurePosixPath
    return make(decode_value(data["v"], reading))


_CONTAINERS = frozenset((dict, list))

_DECODERS: dict[str, Callable[[dict[str, Any], Reading], Any]] = {
    "float": lambda data, reading: float(data["v"]),
    "int": lambda data, reading: int(data["v"], 16),
    "complex": lambda data, reading: complex(*_decode_items(data, reading)),
    "str": lambda data, reading: base64.b64decode(data["v"]).decode("utf-8", "surrogatepass"),
    "bytes": lambda data, reading: base64.b64decode(data["v"], validate=True),
    "blob": _decode_blob,
    "text": _decode_blob,
    "tuple": lambda data, reading: tuple(_decode_items(data, reading)),
    "set": _decode_set,
    "frozenset": _decode_set,
    "dict": _decode_dict,
    "ndarray": _decode_ndarray,
    "scalar": _decode_scalar,
    "datetime": lambda data, reading: datetime.datetime.fromisoformat(data["v"]),
    "enum": _decode_enum,
    "record": _decode_record,
    "namedtuple": _decode_namedtuple,
    "nested": lambda data, reading: values.call_on_fresh_stack(
        decode_value, orjson.loads(data["v"]), reading
    ),
    "date": lambda data, reading: datetime.date.fromisoformat(data["v"]),
    "time": lambda data, reading: datetime.time.fromisoformat(data["v"]),
    "timedelta": lambda data, reading: datetime.timedelta(*_integers(data, reading)),
    "decimal": lambda data, reading: decimal.Decimal(str(data["v"])),
    "uuid": lambda data, reading: uuid.UUID(data["v"]),
    "range": lambda data, reading: range(*_integers(data, reading)),
    "path": _decode_path,
    "unwritable": lambda data, reading: ReprOnly(
        *(str(decode_value(data.get(key, ""), reading)) for key in ("type", "repr", "reason"))
    ),
}
