"""Conversion of values of unknown classes to values that the format supports.

`to_plain` alone decides what is kept of a pydantic model, a tensor, an image, or a subclass of
`dict`. The encoder writes its result, and the redactor searches it. It converts one level, never
raises, imports nothing and consumes no iterator. A value that cannot be converted becomes a
`ReprOnly`.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import io
import itertools
import reprlib
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from webtraj.store import values

__all__ = [
    "SCALARS",
    "ReprOnly",
    "bounded_repr",
    "is_valid_text",
    "repr_only",
    "to_plain",
    "type_name",
    "valid_text",
]

REPR_CHARS = 1000
"""A repr is cut off after this many characters."""
_MOST_ITEMS = 100_000
"""The maximum number of items taken from a lazy container, which might never end."""
SCALARS = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
    PurePath,
)
"""Classes whose values contain no others. `to_plain` returns an equal value of the class."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReprOnly:
    """A value whose repr alone was recorded."""

    type_name: str
    """The value's class, with its module: `builtins.generator`."""
    repr: str
    """The start of its `repr()`."""
    reason: str = ""
    """Why the value could not be kept; empty if its class is not supported."""


def to_plain(value: Any) -> Any:
    """Convert a value of an unknown class to a supported one; `ReprOnly` if that is impossible."""
    try:
        for base, as_base in _BASES.items():
            if isinstance(value, base):
                return as_base(value)
        return _of_library(value)
    except Exception as error:  # Inspecting a foreign object may run any code.
        return repr_only(value, f"which raised {type(error).__name__}")


def repr_only(value: Any, reason: str = "", *, look: bool = True) -> ReprOnly:
    """Return the repr of a value. If `look` is false, its own `__repr__` does not run."""
    text = bounded_repr(value) if look else f"<{type_name(value)} object>"
    return ReprOnly(type_name(value), text, reason)


def type_name(value: Any) -> str:
    """Return the name of a value's class, with its module."""
    try:
        cls = type(value)
        return valid_text(f"{cls.__module__}.{cls.__qualname__}"[:REPR_CHARS])
    except Exception:  # A metaclass may do anything.
        return "<unknown>"


def valid_text(text: str) -> str:
    """Return text that can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def is_valid_text(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def valid_data(data: Any) -> Any:
    """Return JSON data with valid UTF-8 texts, since a page may cut a character in half."""
    if isinstance(data, str):
        return valid_text(data)
    if isinstance(data, Mapping):
        return {valid_data(key): valid_data(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [valid_data(item) for item in data]
    return data


def bounded_repr(value: Any) -> str:
    """Return the start of a value's repr, for any size, depth or `__repr__`."""
    try:
        text = _REPR.repr(value)
    except Exception as error:  # A broken repr must not cost the rest of the record.
        text = f"<repr failed: {type(error).__name__}>"
    return valid_text(text[:REPR_CHARS])


class _BoundedRepr(reprlib.Repr):
    """Shortens builtin containers, which may be huge, deep, or contain items many times."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 12
        self.maxdeque = self.maxarray = 12

    def repr1(self, x: Any, level: int) -> str:
        cls = type(x)
        if cls in (str, bytes, bytearray):
            return repr(x[:REPR_CHARS])
        if cls in _CONTAINERS:
            return super().repr1(x, level)
        if cls is int and x.bit_length() > 4096:  # Python refuses to print it in decimal.
            return hex(x)
        return repr(x)


_CONTAINERS = (dict, list, tuple, set, frozenset, collections.deque, array.array)
_REPR = _BoundedRepr()


def _of_library(value: Any) -> Any:
    """Convert an object by the known interface of its class or library."""
    cls = type(value)
    if isinstance(value, _class("pydantic", "BaseModel")):
        return _model_data(value)
    if isinstance(value, _class("pydantic.v1.main", "BaseModel")):
        return value.dict()
    if hasattr(cls, "__attrs_attrs__"):
        fields = {field.name: getattr(value, field.name) for field in cls.__attrs_attrs__}
        return values.OpaqueRecord(values.name_of(cls), fields)
    if isinstance(value, _class("PIL.Image", "Image")):
        return _picture(value)
    if all(hasattr(cls, name) for name in ("detach", "cpu", "numpy")):
        return _tensor(value)
    is_array = all(hasattr(cls, name) for name in ("__array__", "dtype", "shape"))
    if is_array and not hasattr(cls, "index"):  # A pandas Series would lose its index.
        return np.asarray(value)
    return repr_only(value)


def _class(module: str, name: str) -> Any:
    """Return a class of a module if the module is imported; else a class without instances."""
    return getattr(sys.modules.get(module), name, ())


def _model_data(model: Any) -> Any:
    if not hasattr(model, "model_dump"):  # pydantic 1.
        return model.dict()
    try:
        return model.model_dump(warnings=False)
    except TypeError:  # The model overrides `model_dump`.
        return model.model_dump()


def _picture(image: Any) -> Any:
    if getattr(image, "n_frames", 1) != 1:
        return repr_only(image, "of several frames")
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA"):
        return np.asarray(image)
    content = io.BytesIO()
    image.copy().save(content, "PNG", compress_level=1)
    return content.getvalue()


def _tensor(tensor: Any) -> Any:
    on_cpu = tensor.detach().cpu()
    try:
        return np.asarray(on_cpu.numpy())
    except TypeError:  # numpy has no bfloat16; float32 holds all of it.
        return np.asarray(on_cpu.float().numpy())


def _at_most(items: Iterable[Any], most: int = _MOST_ITEMS) -> list[Any]:
    taken = list(itertools.islice(items, most + 1))
    if len(taken) > most:
        raise OverflowError(f"more than {most} items")
    return taken


def _array(value: Any) -> Any:
    if not isinstance(value, _class("numpy.ma", "MaskedArray")):
        return np.asarray(value)
    fields = {
        "data": np.asarray(value.data),
        "mask": np.ma.getmaskarray(value),
        "fill_value": value.fill_value,
    }
    return values.OpaqueRecord("numpy.ma.MaskedArray", fields)


_BASES: dict[Any, Callable[[Any], Any]] = {
    # The base's own methods: a subclass may override them arbitrarily.
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex.__pos__,
    bytes: lambda value: bytes(memoryview(value)),
    bytearray: lambda value: bytes(memoryview(value)),
    np.ndarray: _array,
    # Parsed back at once: a subclass's text need not be a date, such as pandas' NaT.
    datetime.datetime: lambda value: datetime.datetime.fromisoformat(
        datetime.datetime.isoformat(value)
    ),
    datetime.date: lambda value: datetime.date.fromisoformat(datetime.date.isoformat(value)),
    datetime.time: lambda value: datetime.time.fromisoformat(datetime.time.isoformat(value)),
    datetime.timedelta: datetime.timedelta.__pos__,
    decimal.Decimal: lambda value: decimal.Decimal(decimal.Decimal.__str__(value)),
    uuid.UUID: lambda value: uuid.UUID(int=value.int),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    collections.UserString: lambda value: str.__str__(value.data),
    dict: lambda value: dict(_at_most(value.items(), dict.__len__(value))),
    collections.deque: list,
    array.array: lambda value: value.tolist(),
    Mapping: lambda value: dict(_at_most(value.items())),
    Set: lambda value: set(_at_most(value)),
    Sequence: _at_most,
    PureWindowsPath: lambda value: PureWindowsPath(str(value)),
    PurePath: lambda value: PurePosixPath(str(value)),
}
