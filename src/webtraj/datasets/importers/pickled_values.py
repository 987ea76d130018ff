"""What the pickle machine makes: stand-ins, and the few values that are built for real.

`BUILDERS` are the only names whose calls do anything: containers, bytes, dates, paths and numpy's
arrays, each of them checked. `settle` makes plain data of the whole in the end.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from webtraj.serialization.record_types import OpaqueRecord

__all__ = ["BUILDERS", "TAKES_STATE", "Name", "NotPlainError", "StandIn", "modern", "settle"]

_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_TEXT_UNIT = 1024
"""Characters or bytes that count as one value."""
_DTYPE = re.compile(r"[<>|=]?([biufcSU])([0-9]{0,9})")
_MAX_DIMENSIONS = 32


class NotPlainError(ValueError):
    """A value cannot be made plain data; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A class or function, by its full name. It is never looked up."""

    full: str


@dataclasses.dataclass(slots=True)
class StandIn:
    """An object of a class that is not loaded: what it was made from."""

    class_name: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[Any, Any] = dataclasses.field(default_factory=dict)
    state: Any = None
    items: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    """What was set in it by key, in order."""
    elements: list[Any] = dataclasses.field(default_factory=list)
    """What was appended to it, in order."""

    def set_state(self, state: Any) -> None:
        """Notes the state that `__setstate__` would get."""
        self.state = state


@dataclasses.dataclass(slots=True)
class PendingDtype:
    """A numpy dtype whose state may still come."""

    code: Any
    state: Any = None

    def set_state(self, state: Any) -> None:
        """Notes the state."""
        self.state = state

    def resolve(self) -> np.dtype[Any] | None:
        """Returns the dtype; None for Python objects."""
        if self.code in ("O", "O8", "|O"):
            return None
        match = _DTYPE.fullmatch(self.code) if isinstance(self.code, str) else None
        order = self.state[1] if isinstance(self.state, tuple) and len(self.state) > 1 else "|"
        if match is None or order not in ("<", ">", "|", "="):
            raise NotPlainError(f"a numpy dtype is {str(self.code):.40!r}, which is not taken")
        try:
            dtype = np.dtype(match[1] + match[2])
        except (TypeError, ValueError, OverflowError) as error:
            raise NotPlainError(f"a numpy dtype is wrong: {error}") from None
        if not dtype.itemsize:
            raise NotPlainError("a numpy dtype has no size")
        return dtype.newbyteorder(order) if order in "<>" else dtype


@dataclasses.dataclass(slots=True)
class PendingArray:
    """A numpy array or scalar whose parts may still come."""

    dtype: Any = None
    shape: Any = ()
    data: Any = None
    fortran: bool = False
    scalar: bool = False

    def set_state(self, state: Any) -> None:
        """Takes the state of `ndarray.__reduce__`."""
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise NotPlainError("a numpy array has a state of another kind")
        self.shape, self.dtype, self.fortran, self.data = state[-4:]

    def resolve(self, plain: Callable[[Any], Any]) -> Any:
        """Returns the array."""
        if not isinstance(self.dtype, PendingDtype):
            raise NotPlainError("a numpy array has no dtype")
        shape = self.shape
        sound = isinstance(shape, tuple) and len(shape) <= _MAX_DIMENSIONS
        if not sound or not all(type(size) is int and 0 <= size < 2**62 for size in shape):
            raise NotPlainError(f"a numpy array has the shape {str(shape):.60}")
        count = math.prod(shape)
        dtype = self.dtype.resolve()
        flat = self._objects(count, plain) if dtype is None else self._numbers(count, dtype)
        if self.scalar:
            return flat[0]
        return flat.reshape(shape, order="F" if self.fortran else "C")

    def _numbers(self, count: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, (bytes, bytearray)):
            raise NotPlainError("a numpy array's data are no bytes")
        if len(self.data) != count * dtype.itemsize:
            raise NotPlainError(
                f"a numpy array of {count} times {dtype.itemsize} bytes has {len(self.data)}"
            )
        return np.frombuffer(self.data, dtype).copy() if count else np.empty(0, dtype)

    def _objects(self, count: int, plain: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, list) or len(self.data) != count or self.scalar:
            raise NotPlainError(f"a numpy array of {count} objects does not hold as many")
        flat = np.empty(count, object)
        for i, item in enumerate(self.data):
            flat[i] = plain(item)
        return flat


TAKES_STATE = (StandIn, PendingDtype, PendingArray)


def modern(module: str) -> str:
    """Returns what a module is called today that an old pickle names."""
    if module.startswith("numpy.core."):
        return f"numpy._core.{module.removeprefix('numpy.core.')}"
    return {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)


def settle(value: Any, *, depth: int, expanded: int) -> Any:
    """Returns plain data for what the machine has made.

    Args:
        value: What the machine has made.
        depth: How many levels of containers it may have.
        expanded: How many values it may have, shared ones counted each time.

    Raises:
        NotPlainError: It contains itself, or is too deep or too large.
    """
    return _Settling(depth, expanded).plain(value)


class _Settling:
    """One pass over what a machine has made. Each value is settled once."""

    def __init__(self, depth: int, expanded: int) -> None:
        self._max_depth, self._max_weight = depth, expanded
        self._done: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._weight = 0

    def plain(self, value: Any) -> Any:
        """Returns a value as plain data, and counts its weight."""
        if isinstance(value, _ATOMS):
            self._weigh(1 + (len(value) // _TEXT_UNIT if isinstance(value, (str, bytes)) else 0))
            return value
        key = id(value)
        if key in self._done:
            result, weight = self._done[key]
            self._weigh(weight)
            return result
        if key in self._open:
            raise NotPlainError("it contains itself")
        if len(self._open) >= self._max_depth:
            raise NotPlainError(f"it is nested more than {self._max_depth} levels deep")
        self._open.add(key)
        before = self._weight
        self._weigh(1)
        result = self._convert(value)
        self._open.discard(key)
        self._done[key] = (result, self._weight - before)
        return result

    def _weigh(self, weight: int) -> None:
        self._weight += weight
        if self._weight > self._max_weight:
            raise NotPlainError(f"it holds more than {self._max_weight:,} values")

    def _convert(self, value: Any) -> Any:
        match value:
            case list():
                return [self.plain(item) for item in value]
            case tuple():
                return tuple(self.plain(item) for item in value)
            case dict():
                return {self._key(key): self.plain(item) for key, item in value.items()}
            case set() | frozenset():
                return type(value)(self._key(item) for item in value)
            case bytearray():
                self._weigh(len(value) // _TEXT_UNIT)
                return bytes(value)
            case PendingArray():
                data = value.data
                self._weigh(len(data) // _TEXT_UNIT if isinstance(data, (bytes, bytearray)) else 0)
                return value.resolve(self.plain)
            case PendingDtype():
                dtype = value.resolve()
                return "object" if dtype is None else dtype.str
            case Name():
                return OpaqueRecord("name", {"name": value.full})
            case StandIn():
                return self._record(value)
            case _ if hasattr(value, "resolve"):  # A tensor: see `torch_files`.
                return value.resolve()
        raise NotPlainError(f"it holds a {type(value).__name__}")

    def _key(self, key: Any) -> Any:
        plain = self.plain(key)
        try:
            hash(plain)
        except TypeError:
            raise NotPlainError(f"a {type(plain).__name__} stands for a key") from None
        return plain

    def _record(self, value: StandIn) -> Any:
        items = {self._key(key): self.plain(item) for key, item in value.items}
        fields = self._fields(value.state)
        if items and not fields:
            return items  # A dict by another name.
        fields.update({"items": items} if items else {})
        fields.update({"elements": self.plain(value.elements)} if value.elements else {})
        fields.update({"arguments": self.plain(value.arguments)} if value.arguments else {})
        fields.update({"keywords": self.plain(value.keywords)} if value.keywords else {})
        return OpaqueRecord(value.class_name, fields)

    def _fields(self, state: Any) -> dict[str, Any]:
        if state is None:
            return {}
        # An object with slots has two states, either of which may be missing.
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if not all(part is None or type(part) is dict for part in parts):
            return {"state": self.plain(state)}
        fields = {}
        for part in parts:
            for name, item in (part or {}).items():
                if type(name) is not str:
                    raise NotPlainError("an object's field has no name")
                fields[name] = self.plain(item)
        return fields


def _array(kind: Any, shape: Any, typecode: Any) -> PendingArray:
    if kind != Name("numpy.ndarray"):
        raise NotPlainError("a numpy array is of a class of its own")
    return PendingArray(PendingDtype("b"), (0,), b"")


def _array_from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> PendingArray:
    return PendingArray(dtype, shape, data, fortran=order == "F")


def _scalar(dtype: Any, data: Any) -> PendingArray:
    return PendingArray(dtype, (), data, scalar=True)


def _dtype(code: Any, align: Any = False, copy: Any = True) -> PendingDtype:
    return PendingDtype(code)


def _encoded(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise NotPlainError("bytes are encoded in another way than pickle's")
    return text.encode("latin-1")


def _reconstructed(cls: Any, base: Any, state: Any) -> StandIn:
    if type(cls) is not Name or type(base) is not Name:
        raise NotPlainError("an object is made of no class")
    made = StandIn(cls.full)
    if base.full == "builtins.dict" and isinstance(state, dict):
        made.items.extend(state.items())
    elif base.full == "builtins.list" and isinstance(state, list):
        made.elements.extend(state)
    elif base.full != "builtins.object" or state is not None:
        raise NotPlainError(f"an object of {cls.full} is made in a way that is not taken")
    return made


def _collected(make: type) -> Callable[..., Any]:
    def build(values: Any = ()) -> Any:
        if not isinstance(values, (list, tuple)):
            raise NotPlainError(f"a {make.__name__} is made of something else than a list")
        return make(values)

    return build


def _dict(pairs: Any = ()) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, (list, tuple)) else {}


def _no_bytes() -> bytes:
    return b""


def _byte_array(data: Any = b"") -> bytearray:
    if not isinstance(data, (bytes, bytearray)):
        raise NotPlainError("a bytearray is made of no bytes")
    return bytearray(data)


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _path(*parts: Any) -> str:
    if not all(type(part) is str for part in parts):
        raise NotPlainError("a path is made of no text")
    return str(pathlib.PurePosixPath(*parts))


def _datetime(state: Any, *rest: Any) -> Any:
    if rest or type(state) is not bytes or len(state) != 10:
        return StandIn("datetime.datetime", (state, *rest))
    microsecond = int.from_bytes(state[7:])
    return StandInDate(
        datetime.datetime(int.from_bytes(state[:2]), state[2] & 0x7F, *state[3:7], microsecond)
    )


@dataclasses.dataclass(slots=True)
class StandInDate:
    """A date, kept apart from what a machine may give state to."""

    value: datetime.datetime

    def resolve(self) -> datetime.datetime:
        """Returns the date."""
        return self.value


BUILDERS: dict[str, Callable[..., Any]] = {
    "builtins.set": _collected(set),
    "builtins.frozenset": _collected(frozenset),
    "builtins.list": _collected(list),
    "builtins.tuple": _collected(tuple),
    "builtins.dict": _dict,
    "builtins.bytes": _no_bytes,
    "builtins.bytearray": _byte_array,
    "builtins.complex": _complex,
    "builtins.object": lambda: StandIn("builtins.object"),
    "collections.OrderedDict": _dict,
    "collections.defaultdict": lambda factory=None: {},
    "collections.deque": lambda values=(), maxlen=None: _collected(list)(values),
    "datetime.datetime": _datetime,
    "pathlib.PosixPath": _path,
    "pathlib.PurePosixPath": _path,
    "pathlib.Path": _path,
    "_codecs.encode": _encoded,
    "copyreg._reconstructor": _reconstructed,
    "numpy.ndarray": _array,
    "numpy.dtype": _dtype,
    "numpy._core.multiarray._reconstruct": _array,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy._core.numeric._frombuffer": _array_from_buffer,
}
"""What stands for the functions that pickles of data call, by their full names."""
