"""Values of any environment as plain JSON data, without loss.

What JSON has, stays as it is. Everything else becomes an object with the key `$` that names its
kind::

    {"$": "float", "v": "nan"}                         NaN and infinities
    {"$": "int", "v": "0x10000000000000000"}           integers beyond 64 bits
    {"$": "str", "v": "<base64 of surrogatepass utf-8>"}   text with lone surrogates
    {"$": "bytes", "v": "<base64>"}                    short bytes
    {"$": "blob", "sha256": "...", "ext": "jpg", "size": 1234}   long bytes, kept beside the record
    {"$": "text", "sha256": "...", "ext": "txt", "size": 1234}   long text, likewise
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
    {"$": "nested", "v": "<JSON text>"}                what lies too deep for a JSON parser
    {"$": "unwritable", "type": name, "repr": "...", "reason": "..."}
                                                       a value of which only the repr is kept

A subclass of a builtin or of an array, a bytearray or a memoryview comes back as its base; a
dataclass, enum or named tuple whose class is not registered as `OpaqueRecord`, as its value, or as
another named tuple. Should such a stand-in not do as a key of a dict or an item of a set, all of
that comes back as an `OpaqueRecord` with `items`.

A value of another class is kept as what `webtraj.store.foreign` makes of it: a pydantic
model as the dict of its `model_dump`, an attrs object as a record, a tensor as an array, an image
as PNG bytes, a path as a pure one. What nothing is known of comes back as a `ReprOnly`, and so does
what contains itself, raises when it is looked at, or has more than 8 million items or about 2 GB.
Writing never fails for a value's sake.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = [
    "TAG",
    "OpaqueRecord",
    "call_on_fresh_stack",
    "class_of",
    "dtype_from_data",
    "dtype_to_data",
    "name_of",
    "record_type",
]


TAG = "$"
"""The key that names the kind of a value that JSON lacks."""

# Record types: the dataclasses that come back from disk as themselves. A stored record names its
# type by a short, stable name, never by a module path, so that code can move and a hostile file can
# import nothing. A name that no registered class has decodes to `OpaqueRecord`.

_T = TypeVar("_T")

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}

# Modules of webtraj's own that register the names of a namespace (the part before the slash),
# imported when a file first mentions one.
_HOMES = {"action": "webtraj.environments.actions"}


@dataclasses.dataclass(frozen=True, slots=True)
class OpaqueRecord:
    """A record whose class is not known here: its type's name and its fields."""

    type_name: str
    fields: Mapping[str, Any]

    def __hash__(self) -> int:
        # It may have to stand for a key of a dict, where many of one hash would take for ever.
        try:
            return hash((self.type_name, frozenset(self.fields.items())))
        except TypeError:  # Fields may be unhashable.
            return hash(self.type_name)


def record_type(name: str) -> Callable[[type[_T]], type[_T]]:
    """Registers a dataclass or Enum under `name`, `namespace/name`, for storing and loading.

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
    """Returns the name that a dataclass is stored under; its qualified name if unregistered."""
    return _NAMES.get(cls) or f"{cls.__module__}.{cls.__qualname__}"


def class_of(name: str) -> type | None:
    """Returns the class registered under `name`, or None."""
    home = _HOMES.get(name.partition("/")[0])
    if home is not None and name not in _CLASSES:
        importlib.import_module(home)
    return _CLASSES.get(name)


# Dtypes: a simple one is its `dtype.str`, byte order included: `"<f4"`, `"|b1"`, `"<M8[ns]"`. A
# structured one is `{"names", "formats", "offsets", "itemsize"}`, and `"titles"` if it has any; a
# field that is an array itself is `{"base", "shape"}`. Both may hold each other.

_DType = np.dtype[Any]
# The grammar of dtype.str. Numpy itself would read far more than it ever writes.
_SIMPLE = re.compile(r"[<>|][biufcSUVMm][0-9]{1,10}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")


def dtype_to_data(dtype: _DType) -> Any:
    """Returns a dtype as plain data; None if numpy could not make the same of that again."""
    try:
        description = _describe(dtype)
        return description if dtype_from_data(description) == dtype else None
    except (TypeError, ValueError):
        return None


def dtype_from_data(description: Any) -> _DType:
    """Returns the dtype that `dtype_to_data` described.

    Raises:
        TypeError, ValueError, KeyError: It did not describe one so.
    """
    if isinstance(description, str):
        if not _SIMPLE.fullmatch(description):
            raise ValueError(f"{description!r:.100} is no simple dtype")
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


# Room for deep recursion: Python counts stack frames by thread.

_P = ParamSpec("_P")


def call_on_fresh_stack(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Returns `function(*args, **kwargs)`, called where no stack frames are in use yet.

    For values so deeply nested that following them would exceed Python's recursion limit. It costs
    a thread.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "webtraj-stack") as executor:
        return executor.submit(function, *args, **kwargs).result()
