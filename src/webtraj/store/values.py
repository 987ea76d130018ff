"""The encoding of any environment's values as plain JSON data, without loss.

Values that JSON supports stay as they are. Everything else becomes an object whose key `$` names
its kind::

    {"$": "float", "v": "nan"}                         NaN and infinities
    {"$": "int", "v": "0x10000000000000000"}           integers below -2**63 or from 2**64
    {"$": "str", "v": "<base64 of surrogatepass utf-8>"}   text with lone surrogates
    {"$": "bytes", "v": "<base64>"}                    up to 1,024 bytes
    {"$": "blob", "sha256": "...", "ext": "jpg", "size": 1234}   more bytes, in `blobs/`
    {"$": "text", "sha256": "...", "ext": "txt", "size": 1234}   over 4,096 characters, likewise
    {"$": "tuple" | "set" | "frozenset", "v": [...]}
    {"$": "dict", "v": [[key, value], ...]}            a mapping with keys JSON lacks, or a `$` key
    {"$": "ndarray", "dtype": "<f4", "shape": [2, 3], "v": bytes or blob}   C order
    {"$": "ndarray", "dtype": "object", "shape": [2], "v": [...]}
                                                       other dtypes: see "Dtypes" below
    {"$": "scalar", "dtype": "<f4", "v": ...}          a numpy scalar
    {"$": "complex", "v": [re, im]}
    {"$": "datetime" | "date" | "time", "v": "2026-11-20T12:00:00+00:00"}
    {"$": "timedelta", "v": [days, seconds, microseconds]}
    {"$": "decimal" | "uuid", "v": "0.10"}
    {"$": "range", "v": [start, stop, step]}
    {"$": "path", "flavour": "posix" | "windows", "v": "/runs/x"}
    {"$": "enum", "type": name, "member": name, "v": value}
    {"$": "record", "type": name, "fields": {...}}     a dataclass, see "Record types"
    {"$": "namedtuple", "type": name, "fields": {...}}
    {"$": "nested", "v": "<JSON text>"}                what lies more than 60 levels deep
    {"$": "unwritable", "type": name, "repr": "...", "reason": "..."}
                                                       a value whose repr alone is kept

A subclass of a builtin or of an array, a bytearray or a memoryview is decoded as its base. If the
class of a dataclass, enum or named tuple is not registered, a dataclass is decoded as an
`OpaqueRecord`, an enum as its value, and a named tuple as another named tuple. If such a stand-in
cannot be a dict key or a set item, the whole container becomes an `OpaqueRecord` with `items`.

Values of other classes are converted by `webtraj.store.foreign`: a pydantic model to the dict of
its `model_dump`, an attrs object to a record, a tensor to an array, an image to PNG bytes, a path
to a pure one. Unknown values become a `ReprOnly`, as do values that contain themselves, raise when
inspected, or have more than 8 million items or about 2 GB. No value makes writing fail.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from webtraj.shown import Shown
from webtraj.store import RECORD_MODULES, RECORD_WRITERS

__all__ = [
    "MAX_DEPTH",
    "MOST_ITEMS",
    "TAG",
    "OpaqueRecord",
    "call_on_fresh_stack",
    "class_of",
    "dtype_from_data",
    "dtype_to_data",
    "name_of",
    "record_type",
    "registered_types",
    "write_record",
]


TAG = "$"
"""The key that names the kind of a value that JSON does not support."""
MAX_DEPTH = 240
"""The most levels of nesting in a recorded value."""
MOST_ITEMS = 8_000_000
"""The most items in the containers of one value, each counted whenever it is met: a few lists that
contain each other repeatedly can have more items than there are atoms."""

# Record types: the dataclasses that are restored from disk. A stored record names its type by a
# short, stable name, never by a module path, so that code can move and a hostile file can import
# nothing. An unregistered name is decoded to an `OpaqueRecord`.

_T = TypeVar("_T")

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class OpaqueRecord(Shown):
    """A record of an unknown class: its type's name and its fields.

    `record["temperature"]` and `record.temperature` return a field. A field whose name begins with
    an underscore, or is `fields` or `type_name`, is reached only as an item.
    """

    type_name: str
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __getattr__(self, name: str) -> Any:
        # Libraries ask for private names, to find out what an object can do. The record's own
        # names arrive here only while it is being made.
        if name.startswith("_") or name in ("type_name", "fields") or name not in self.fields:
            raise AttributeError(f"The record has no field {name!r}.")
        return self.fields[name]

    def __hash__(self) -> int:
        # It may be a dict key, and many keys with one hash would take extremely long.
        try:
            return hash((self.type_name, frozenset(self.fields.items())))
        except TypeError:  # Fields may be unhashable.
            return hash(self.type_name)


def record_type(name: str) -> Callable[[type[_T]], type[_T]]:
    """Register a dataclass or Enum under `name`, `namespace/name`, for storing and loading.

    >>> @record_type("doctest/point")
    ... @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     x: int
    >>> name_of(Point)
    'doctest/point'
    """

    def register(cls: type[_T]) -> type[_T]:
        if not (dataclasses.is_dataclass(cls) or issubclass(cls, enum.Enum)):
            raise TypeError(f"record_type({name!r}) takes a dataclass or an Enum; got {cls!r}.")
        other = _CLASSES.get(name, cls)
        if other is not cls and other.__qualname__ != cls.__qualname__:
            raise ValueError(f"The record type {name!r} is taken by {other!r}; choose another.")
        _CLASSES[name] = cls
        _NAMES[cls] = name
        return cls

    return register


def name_of(cls: type) -> str:
    """Return a dataclass's stored name; its qualified name if unregistered."""
    return _NAMES.get(cls) or f"{cls.__module__}.{cls.__qualname__}"


def registered_types() -> Sequence[type]:
    """Return the classes that are restored from disk."""
    return tuple(_NAMES)


def class_of(name: str) -> type | None:
    """Return the class registered under `name`, or None."""
    if name not in _CLASSES and (home := RECORD_MODULES.get(name.partition("/")[0])):
        importlib.import_module(home)
    return _CLASSES.get(name)


def write_record(value: Any) -> str:
    """Return a record as text, by the writer of its namespace; empty for anything else."""
    namespace = _NAMES.get(type(value), "").partition("/")[0]
    if namespace not in RECORD_WRITERS:
        return ""
    module, _, name = RECORD_WRITERS[namespace].partition(":")
    text: str = getattr(importlib.import_module(module), name)(value)
    return text


# Dtypes: a simple one is its `dtype.str`, byte order included: `"<f4"`, `"|b1"`, `"<M8[ns]"`. A
# structured one is `{"names", "formats", "offsets", "itemsize"}`, and `"titles"` if it has any; a
# subarray is `{"base", "shape"}`. They may be nested.

_DType = np.dtype[Any]
# The grammar of dtype.str. Numpy itself would parse far more than it ever writes.
_SIMPLE = re.compile(r"[<>|][biufcSUVMm][0-9]{1,10}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")


def dtype_to_data(dtype: _DType) -> Any:
    """Return a dtype as plain data; None if numpy could not restore it from the data."""
    try:
        description = _describe(dtype)
        return description if dtype_from_data(description) == dtype else None
    except (TypeError, ValueError):
        return None


def dtype_from_data(description: Any) -> _DType:
    """Return the dtype described by `dtype_to_data`.

    Raises:
        TypeError, ValueError, KeyError: The description is malformed.
    """
    if isinstance(description, str):
        if not _SIMPLE.fullmatch(description):
            raise ValueError(f"{description!r:.100} is not a simple dtype")
        return np.dtype(description)
    if "base" in description:
        shape = tuple(int(size) for size in description["shape"])
        return np.dtype((dtype_from_data(description["base"]), shape))
    structure: dict[str, Any] = {
        "names": list(description["names"]),
        "formats": [dtype_from_data(item) for item in description["formats"]],
        "offsets": [int(offset) for offset in description["offsets"]],
        "itemsize": int(description["itemsize"]),
    }
    if "titles" in description:
        structure["titles"] = list(description["titles"])
    dtype: _DType = np.dtype(structure)  # type: ignore[call-overload]
    return dtype


def _describe(dtype: _DType) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _describe(base), "shape": list(shape)}
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    description = {
        "names": list(dtype.names),
        "formats": [_describe(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    return {**description, "titles": titles} if any(titles) else description


# Room for deep recursion: Python limits stack frames per thread.

_P = ParamSpec("_P")


def call_on_fresh_stack(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return `function(*args, **kwargs)`, called on an empty stack.

    Use this for values nested so deeply that visiting them would exceed Python's recursion limit.
    It costs a thread.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "webtraj-stack") as executor:
        return executor.submit(function, *args, **kwargs).result()
