"""Read untrusted pickles as data. Nothing in them is imported, called or executed.

A pickle is a program for a small stack machine. `RestrictedUnpickler` runs it on its own machine,
which can call nothing: a name is only a `Name`, an object only a `StandIn` that records what it was
made from, and numpy arrays are built from their bytes after every part has been checked. It refuses
unlisted names, persistent ids, extension codes, calls of anything but a name, and files that are
larger, deeper or longer than its `Limits`, or that need too much memory for their size. An object
becomes an `OpaqueRecord`: its class's name and its fields.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import io
import math
import pathlib
import pickletools
import re
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from webtraj import errors
from webtraj.store.decoding import Budget, check_hashes, check_text
from webtraj.store.values import OpaqueRecord

__all__ = ["Limits", "Name", "NotPlainError", "RestrictedUnpickler", "read_pickle"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on what a file may ask for: above all known files, below a machine's memory."""

    file_bytes: int = 4 << 30
    """Bytes in a file, after decompression."""
    operations: int = 50_000_000
    """Operations in one pickle."""
    expanded: int = 50_000_000
    """Values in the result, shared ones counted each time; long ones count more."""
    depth: int = 100
    """Nesting depth of containers."""


class NotPlainError(ValueError):
    """A value cannot become plain data; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Name:
    """A class or function, by its full name. It is never looked up."""

    full: str


@dataclasses.dataclass(slots=True)
class StandIn:
    """An object of a class that is not loaded, with what it was made from."""

    class_name: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[Any, Any] = dataclasses.field(default_factory=dict)
    state: Any = None
    items: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    """The items set by key, in order."""
    elements: list[Any] = dataclasses.field(default_factory=list)
    """The elements appended, in order."""

    def set_state(self, state: Any) -> None:
        """Store the state that `__setstate__` would get."""
        self.state = state


# Numpy arrays, scalars and dtypes are built from their bytes after every part has been checked.

_DTYPE = re.compile(r"[<>|=]?([biufcSU])([0-9]{0,9})")
_MAX_DIMENSIONS = 32


@dataclasses.dataclass(slots=True)
class PendingDtype:
    """A numpy dtype whose state may still follow."""

    code: Any
    state: Any = None

    def set_state(self, state: Any) -> None:
        """Store the state."""
        self.state = state

    def resolve(self) -> np.dtype[Any] | None:
        """Return the dtype; None for Python objects."""
        if self.code in ("O", "O8", "|O"):
            return None
        match = _DTYPE.fullmatch(self.code) if isinstance(self.code, str) else None
        order: Any = "|"
        if isinstance(self.state, tuple) and len(self.state) > 1:
            order = self.state[1]
        if match is None or order not in ("<", ">", "|", "="):
            raise NotPlainError(f"the numpy dtype {self.code!r:.60} is not supported")
        try:
            dtype = np.dtype(match[1] + match[2])
        except (TypeError, ValueError, OverflowError) as error:
            raise NotPlainError(f"a numpy dtype is invalid: {error}") from None
        if not dtype.itemsize:
            raise NotPlainError("a numpy dtype has no size")
        return dtype.newbyteorder(order) if order in "<>" else dtype


@dataclasses.dataclass(slots=True)
class PendingArray:
    """A numpy array or scalar whose parts may still follow."""

    dtype: Any = None
    shape: Any = ()
    data: Any = None
    fortran: bool = False
    scalar: bool = False

    def set_state(self, state: Any) -> None:
        """Store the state of `ndarray.__reduce__`."""
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise NotPlainError("a numpy array has an unknown kind of state")
        self.shape, self.dtype, self.fortran, self.data = state[-4:]

    def resolve(self, plain: Callable[[Any], Any], budget: Budget) -> Any:
        """Return the array."""
        if not isinstance(self.dtype, PendingDtype):
            raise NotPlainError("a numpy array has no dtype")
        shape = self.shape
        sound = isinstance(shape, tuple) and len(shape) <= _MAX_DIMENSIONS
        if not sound or not all(type(size) is int and 0 <= size < 2**62 for size in shape):
            raise NotPlainError(f"a numpy array has the invalid shape {shape!r:.60}")
        count = math.prod(shape)
        dtype = self.dtype.resolve()
        if not count:  # Each row of an empty array may become an object for the reader.
            budget.take(math.prod(max(size, 1) for size in shape) * 64)
        numbers = self._numbers
        flat = self._objects(count, plain) if dtype is None else numbers(count, dtype, budget)
        if self.scalar:
            return flat[0]
        return flat.reshape(shape, order="F" if self.fortran else "C")

    def _numbers(self, count: int, dtype: np.dtype[Any], budget: Budget) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, (bytes, bytearray)):
            raise NotPlainError("a numpy array's data is not bytes")
        if len(self.data) != count * dtype.itemsize:
            raise NotPlainError(
                f"a numpy array of {count} times {dtype.itemsize} bytes has {len(self.data)}"
            )
        if not count:
            return np.empty(0, dtype)
        budget.take(len(self.data))
        found = np.frombuffer(self.data, dtype)
        check_text(found)
        return found.copy()

    def _objects(self, count: int, plain: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        if not isinstance(self.data, list) or len(self.data) != count or self.scalar:
            raise NotPlainError(f"a numpy array of {count} objects holds another number of them")
        flat = np.empty(count, object)
        for i, item in enumerate(self.data):
            flat[i] = plain(item)
        return flat


def _array(kind: Any, shape: Any, typecode: Any) -> PendingArray:
    """Return an array whose state follows later, like numpy's `_reconstruct`."""
    if kind != Name("numpy.ndarray"):
        raise NotPlainError("a numpy array has its own class")
    return PendingArray(PendingDtype("b"), (0,), b"")


def _bare(*arguments: Any) -> PendingArray:
    raise NotPlainError("a numpy array is made in an unsupported way")


_ATOMS = (type(None), bool, int, float, complex, str, bytes, datetime.datetime)
_CONTAINER = 64
"""Bytes of memory for a container; each of its items takes about an eighth of it."""
_KEY_VALUES = 1000


def _modern(module: str) -> str:
    """Return today's name of a module that an old pickle names."""
    if module.startswith("numpy.core."):
        return f"numpy._core.{module.removeprefix('numpy.core.')}"
    return {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)


def _is_small(key: Any) -> bool:
    """Return whether a key, such as nested tuples, has few values and is cheap to hash."""
    waiting, count = [key], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > _KEY_VALUES:
            return False
        if isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
    return True


class _Settling:
    """One pass that turns the machine's values into plain data, each value once."""

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self._limits, self._budget = limits, budget
        self._done: dict[int, tuple[Any, int, int]] = {}
        self._open: set[int] = set()
        self._weight = 0
        self._size = 0

    def plain(self, value: Any) -> Any:
        """Return a value as plain data, and count its weight."""
        if isinstance(value, _ATOMS):
            self._weigh(1, len(value) if isinstance(value, (str, bytes)) else 8)
            return value
        key = id(value)
        if key in self._done:
            result, weight, size = self._done[key]
            self._weigh(weight, size)
            return result
        if key in self._open:
            raise NotPlainError("it contains itself")
        if len(self._open) >= self._limits.depth:
            raise NotPlainError(f"it is nested more than {self._limits.depth} levels deep")
        self._open.add(key)
        before, size_before = self._weight, self._size
        self._weigh(1, _CONTAINER)
        result = self._convert(value)
        self._open.discard(key)
        self._done[key] = (result, self._weight - before, self._size - size_before)
        return result

    def _weigh(self, weight: int, size: int) -> None:
        self._weight += weight
        self._size += size
        self._budget.take(size)
        if self._weight > self._limits.expanded:
            raise NotPlainError(f"it holds more than {self._limits.expanded:,} values")

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
                self._weigh(0, len(value))
                return bytes(value)
            case PendingArray():
                return value.resolve(self.plain, self._budget)
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
            raise NotPlainError(f"a {type(plain).__name__} is used as a key") from None
        return plain

    def _record(self, value: StandIn) -> Any:
        pairs = [(self._key(key), self.plain(item)) for key, item in value.items]
        check_hashes(key for key, _ in pairs)
        items = dict(pairs)
        fields = self._fields(value.state)
        if items and not fields:
            return items  # A dict subclass.
        fields.update({"items": items} if items else {})
        fields.update({"elements": self.plain(value.elements)} if value.elements else {})
        fields.update({"arguments": self.plain(value.arguments)} if value.arguments else {})
        fields.update({"keywords": self.plain(value.keywords)} if value.keywords else {})
        return OpaqueRecord(value.class_name, fields)

    def _fields(self, state: Any) -> dict[str, Any]:
        if state is None:
            return {}
        # An object with slots has two states, and either may be missing.
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if not all(part is None or type(part) is dict for part in parts):
            return {"state": self.plain(state)}
        fields = {}
        for part in parts:
            for name, item in (part or {}).items():
                if type(name) is not str:
                    raise NotPlainError("an object's field name is not text")
                fields[name] = self.plain(item)
        return fields


def _encoded(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise NotPlainError("bytes are not encoded as pickle does it")
    return text.encode("latin-1")


def _reconstructed(cls: Any, base: Any, state: Any) -> StandIn:
    if type(cls) is not Name or type(base) is not Name:
        raise NotPlainError("an object has no valid class")
    made = StandIn(cls.full)
    if base.full == "builtins.dict" and isinstance(state, dict):
        made.items.extend(state.items())
    elif base.full == "builtins.list" and isinstance(state, list):
        made.elements.extend(state)
    elif base.full != "builtins.object" or state is not None:
        raise NotPlainError(f"an object of {cls.full} is made in an unsupported way")
    return made


def _check_keys(keys: Iterable[Any]) -> None:
    keys = list(keys)
    if not all(map(_is_small, keys)):
        raise NotPlainError("a key of a dict or set is too large")
    check_hashes(keys)


def _collected(make: type) -> Callable[..., Any]:
    def build(values: Any = ()) -> Any:
        if not isinstance(values, (list, tuple)):
            raise NotPlainError(f"a {make.__name__} is not made from a list")
        if make in (set, frozenset):
            _check_keys(values)
        return make(values)

    return build


def _dict(pairs: Any = ()) -> dict[Any, Any]:
    if not isinstance(pairs, (list, tuple)):
        return {}
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


def _byte_array(data: Any = b"") -> bytearray:
    if not isinstance(data, (bytes, bytearray)):
        raise NotPlainError("a bytearray is not made from bytes")
    return bytearray(data)


def _path(*parts: Any) -> str:
    if not all(type(part) is str for part in parts):
        raise NotPlainError("a path is not made from text")
    return str(pathlib.PurePosixPath(*parts))


def _datetime(state: Any, *rest: Any) -> Any:
    if rest or type(state) is not bytes or len(state) != 10:
        return StandIn("datetime.datetime", (state, *rest))
    year, microsecond = int.from_bytes(state[:2]), int.from_bytes(state[7:])
    month, day, hour, minute, second = state[2] & 0x7F, *state[3:7]
    return datetime.datetime(year, month, day, hour, minute, second, microsecond)


_BUILDERS: dict[str, Callable[..., Any]] = {
    "builtins.set": _collected(set),
    "builtins.frozenset": _collected(frozenset),
    "builtins.list": _collected(list),
    "builtins.tuple": _collected(tuple),
    "builtins.dict": _dict,
    "builtins.bytes": lambda: b"",
    "builtins.bytearray": _byte_array,
    "builtins.complex": lambda real, imaginary: complex(float(real), float(imaginary)),
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
    "numpy.dtype": lambda code, align=False, copy=True: PendingDtype(code),
    "numpy.ndarray": _bare,
    "numpy._core.multiarray._reconstruct": _array,
    "numpy._core.multiarray.scalar": lambda dtype, data: PendingArray(dtype, (), data, scalar=True),
    "numpy._core.numeric._frombuffer": lambda data, dtype, shape, order: PendingArray(
        dtype, shape, data, fortran=order == "F"
    ),
}
"""Replacements for the functions that data pickles call, by full name. Calling any other name only
gives a `StandIn`."""


_COST = 32
"""Approximate bytes of memory for one operation; costlier ones are listed below."""
_COSTS = {
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_DICT", "LIST", "DICT", "TUPLE", "TUPLE1"), 128),
    **dict.fromkeys(("TUPLE2", "TUPLE3", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"), 128),
    **dict.fromkeys(("EMPTY_SET", "FROZENSET", "GLOBAL", "STACK_GLOBAL"), 256),
    **dict.fromkeys(("REDUCE", "NEWOBJ", "NEWOBJ_EX"), 512),
}
_ENTRY = 100
"""Bytes of memory for an entry of a dict or set."""
_SECRET_HASHES = (str, bytes, type(None), bool)
_MODULUS = 2**61 - 1
"""Smaller integers hash to themselves (`sys.hash_info.modulus`)."""
_SAME_HASH = 1000
_MARKS = 10_000
"""The most nested containers that may be open at a time."""

_Handler = Callable[["RestrictedUnpickler", Any], None]


class RestrictedUnpickler:
    """Reads consecutive pickles from a file's bytes."""

    def __init__(
        self,
        content: bytes,
        where: str,
        *,
        names: Collection[str] = (),
        any_name: bool = False,
        limits: Limits | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Initialize the unpickler.

        Args:
            content: The pickles.
            where: Name of the file in error messages.
            names: Full names (`module.Class`) of the classes allowed in it.
            any_name: Whether to allow any class; its objects are just as inert.
            limits: Limits on what the file may ask for.
            budget: The memory that it may take; by default in proportion to its size.

        Raises:
            CorruptDataError: The file is too large.
        """
        # Pickles have more bytes per value than other files: a quarter of the usual is enough.
        self.budget = budget or Budget(where, len(content) // 4)
        self._stream = io.BytesIO(content)
        self._where = where
        self._names = frozenset(names)
        self._any_name = any_name
        self._limits = limits or Limits()
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        if len(content) > self._limits.file_bytes:
            self._refuse(
                f"has {len(content):,} bytes, over the limit of {self._limits.file_bytes:,}"
            )

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._stream.tell()

    def load(self) -> Any:
        """Read the next pickle and return its content as plain data.

        Raises:
            CorruptDataError: It is not a pickle, or asks for something that is not allowed.
        """
        return self.settle(self.load_unsettled())

    def load_unsettled(self) -> Any:
        """Read the next pickle and return its content, for `settle` to convert."""
        self._stack, self._marked, self._memo = [], [], {}
        self._same_hash: collections.Counter[tuple[int, int]] = collections.Counter()
        with self._failing():
            return self._run()

    def settle(self, value: Any) -> Any:
        """Return the machine's values as plain data."""
        with self._failing():
            return _Settling(self._limits, self.budget).plain(value)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the file in errors."""
        try:
            yield
        except errors.CorruptDataError:
            raise
        except NotPlainError as error:
            self._fail(str(error))
        except (
            ValueError,
            TypeError,
            LookupError,
            OverflowError,
            struct.error,
            Warning,
        ) as error:  # Warning: a bad escape in old text, where warnings are errors.
            self._fail(f"{type(error).__name__}: {error}")

    def find_class(self, module: str, name: str) -> Name:
        """Return the `Name` for a class or function, if the file may use it.

        Raises:
            CorruptDataError: It may not use it.
        """
        found = Name(f"{_modern(module)}.{name}")
        listed = found.full in self._names or found.full in _BUILDERS
        if not (listed or self._any_name):
            raise errors.CorruptDataError(
                f"{self._where!r} uses the name {found.full[:200]!r}, which is not allowed in such "
                "a file. Nothing of it was loaded or run. If it is a class whose objects you want "
                "as data, allow it by that name."
            )
        return found

    def _run(self) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(self._stream)):
            if count >= self._limits.operations:
                self._refuse(f"has more than {self._limits.operations:,} operations")
            self.budget.take(_COSTS.get(opcode.name, _COST))
            if opcode.name == "STOP":
                return self._stack.pop()
            handler = _HANDLERS.get(opcode.name)
            if handler is None:
                self._refuse(f"uses the unsupported operation {opcode.name}")
            handler(self, argument)
        raise ValueError("it is cut off")

    def _fail(self, why: str) -> NoReturn:
        raise errors.CorruptDataError(
            f"{self._where!r} is not a readable pickle: {why:.300}. The file is damaged, or not "
            "a pickle of data."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise errors.CorruptDataError(
            f"{self._where!r} {what:.300}. It was refused before anything was built from it."
        )

    # The stack above the topmost mark, and the stacks below each mark.

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self, count: int) -> list[Any]:
        """Remove and return the last values."""
        if len(self._stack) < count:
            raise ValueError("values are missing")
        values = self._stack[-count:]
        del self._stack[-count:]
        return values

    def _mark(self, _: Any) -> None:
        if len(self._marked) >= _MARKS:
            raise ValueError(f"more than {_MARKS} marks are open")
        self._marked.append(self._stack)
        self._stack = []

    def _pop_marked(self) -> list[Any]:
        """Remove the topmost mark and return the values above it."""
        values, self._stack = self._stack, self._marked.pop()
        return values

    def _drop(self, _: Any) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._drop_marked(None)

    def _drop_marked(self, _: Any) -> None:
        self._pop_marked()

    # Names and calls.

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push(self.find_class(module, name))

    def _stack_global(self, _: Any) -> None:
        module, name = self._pop(2)
        if type(name) is not str or type(module) is not str:
            raise TypeError("a name is not text")
        self._push(self.find_class(module, name))

    def _call(self, called: Any, arguments: Any, keywords: Any = None) -> None:
        if type(called) is not Name:
            self._refuse(f"calls a {type(called).__name__}, which is not a class")
        if type(arguments) is not tuple or type(keywords) not in (dict, type(None)):
            raise TypeError("the arguments of a call are not a tuple, or its keywords not a dict")
        self._push(self.make(called.full, arguments, keywords or {}))

    def make(self, name: str, arguments: tuple[Any, ...], keywords: dict[Any, Any]) -> Any:
        """Return the result of calling a name."""
        builder = _BUILDERS.get(name)
        if builder is None:
            return StandIn(name, arguments, keywords)
        if keywords:
            raise TypeError(f"{name} takes no keywords here")
        return builder(*arguments)

    def _build(self, _: Any) -> None:
        (state,) = self._pop(1)
        target = self._stack[-1]
        if isinstance(target, (StandIn, PendingDtype, PendingArray)):
            target.set_state(state)
        elif state:
            self._refuse(f"sets the state of a {type(target).__name__}, which has none")

    def persistent_load(self, pid: Any) -> Any:
        """Return the value for a persistent id; refused here, supported in a subclass."""
        self._refuse("has persistent ids, which are not supported")

    # Containers.

    def _extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is list:
            target.extend(values)
        elif type(target) is StandIn:
            target.elements.extend(values)
        else:
            raise TypeError(f"a {type(target).__name__} takes no elements")

    def _set_items(self, flat: list[Any]) -> None:
        target = self._stack[-1]
        self._check_keys(target, flat[::2])
        pairs = zip(flat[::2], flat[1::2], strict=True)
        if type(target) is dict:
            target.update(pairs)
        elif type(target) is StandIn:
            target.items.extend(pairs)
        else:
            raise TypeError(f"a {type(target).__name__} takes no items")

    def _dict(self, _: Any) -> None:
        flat = self._pop_marked()
        self._check_keys(flat, flat[::2])
        self._push(dict(zip(flat[::2], flat[1::2], strict=True)))

    def _additems(self, _: Any) -> None:
        items = self._pop_marked()
        target = self._stack[-1]
        if type(target) is not set:
            raise TypeError(f"a {type(target).__name__} takes no members")
        self._check_keys(target, items)
        target.update(items)

    def _frozenset(self, _: Any) -> None:
        items = self._pop_marked()
        self._check_keys(items, items)
        self._push(frozenset(items))

    def _check_keys(self, target: Any, keys: Collection[Any]) -> None:
        """Refuse keys made to be slow: with equal hashes, or slow to hash."""
        self.budget.take(_ENTRY * len(keys))
        for key in keys:
            if type(key) in _SECRET_HASHES or (type(key) is int and -_MODULUS < key < _MODULUS):
                continue
            if not _is_small(key):
                raise ValueError("a key of a dict or set is too large")
            same = (id(target), hash(key))
            self._same_hash[same] += 1
            if self._same_hash[same] > _SAME_HASH:
                raise ValueError(f"more than {_SAME_HASH} keys of a dict or set have the same hash")

    def _put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]


def _pushes(make: Callable[[Any], Any]) -> _Handler:
    return lambda machine, argument: machine._push(make(argument))


_AS_IT_IS = _pushes(lambda argument: argument)
_NOTHING: _Handler = lambda machine, argument: None  # noqa: E731

_HANDLERS: dict[str, _Handler] = {
    **dict.fromkeys(("PROTO", "FRAME"), _NOTHING),
    **dict.fromkeys(
        (
            "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
            "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
            "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
        ),
        _AS_IT_IS,
    ),
    "NONE": _pushes(lambda _: None),
    "NEWTRUE": _pushes(lambda _: True),
    "NEWFALSE": _pushes(lambda _: False),
    "EMPTY_LIST": _pushes(lambda _: []),
    "EMPTY_TUPLE": _pushes(lambda _: ()),
    "EMPTY_DICT": _pushes(lambda _: {}),
    "EMPTY_SET": _pushes(lambda _: set()),
    "MARK": RestrictedUnpickler._mark,
    "POP": RestrictedUnpickler._drop,
    "POP_MARK": RestrictedUnpickler._drop_marked,
    "DUP": lambda machine, _: machine._push(machine._stack[-1]),
    "LIST": lambda machine, _: machine._push(machine._pop_marked()),
    "TUPLE": lambda machine, _: machine._push(tuple(machine._pop_marked())),
    "TUPLE1": lambda machine, _: machine._push(tuple(machine._pop(1))),
    "TUPLE2": lambda machine, _: machine._push(tuple(machine._pop(2))),
    "TUPLE3": lambda machine, _: machine._push(tuple(machine._pop(3))),
    "FROZENSET": RestrictedUnpickler._frozenset,
    "DICT": RestrictedUnpickler._dict,
    "APPEND": lambda machine, _: machine._extend(machine._pop(1)),
    "APPENDS": lambda machine, _: machine._extend(machine._pop_marked()),
    "SETITEM": lambda machine, _: machine._set_items(machine._pop(2)),
    "SETITEMS": lambda machine, _: machine._set_items(machine._pop_marked()),
    "ADDITEMS": RestrictedUnpickler._additems,
    "GLOBAL": RestrictedUnpickler._global,
    "STACK_GLOBAL": RestrictedUnpickler._stack_global,
    **dict.fromkeys(("REDUCE", "NEWOBJ"), lambda machine, _: machine._call(*machine._pop(2))),
    "NEWOBJ_EX": lambda machine, _: machine._call(*machine._pop(3)),
    "BUILD": RestrictedUnpickler._build,
    "PERSID": lambda machine, pid: machine._push(machine.persistent_load(pid)),
    "BINPERSID": lambda machine, _: machine._push(machine.persistent_load(*machine._pop(1))),
    "MEMOIZE": lambda machine, _: machine._put(len(machine._memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), RestrictedUnpickler._put),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"),
        lambda machine, index: machine._push(machine._memo[index]),
    ),
}  # fmt: skip


def read_pickle(
    content: bytes,
    where: str,
    *,
    names: Collection[str] = (),
    any_name: bool = False,
    limits: Limits | None = None,
) -> Any:
    """Return a pickle's content as plain data; the arguments are `RestrictedUnpickler`'s.

    Raises:
        CorruptDataError: It is not a pickle, or asks for something that is not allowed.
    """
    unpickler = RestrictedUnpickler(content, where, names=names, any_name=any_name, limits=limits)
    return unpickler.load()
