"""What the pickle machine makes: stand-ins, and the few values that are built for real.

`BUILDERS` are the only names whose calls do anything: containers, bytes, dates, paths and numpy's
arrays, each of them checked. `settle` makes plain data of the whole in the end.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from webtraj.datasets.importers import pickled_arrays
from webtraj.datasets.importers.pickled_arrays import PendingArray, PendingDtype
from webtraj.datasets.importers.pickled_objects import Name, NotPlainError, StandIn
from webtraj.store.budget import Budget
from webtraj.store.decoding import check_hashes
from webtraj.store.values import OpaqueRecord

__all__ = ["BUILDERS", "TAKES_STATE", "is_small", "modern", "settle"]

_ATOMS = (type(None), bool, int, float, complex, str, bytes)
_CONTAINER = 64
"""Bytes of memory that a container takes, and each of its items about an eighth of it."""
_KEY_VALUES = 1000


TAKES_STATE = (StandIn, PendingDtype, PendingArray)


def modern(module: str) -> str:
    """Returns what a module is called today that an old pickle names."""
    if module.startswith("numpy.core."):
        return f"numpy._core.{module.removeprefix('numpy.core.')}"
    return {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)


def is_small(key: Any) -> bool:
    """Return whether a key, such as a tuple of tuples, has few values in all, and can be hashed."""
    waiting, count = [key], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > _KEY_VALUES:
            return False
        if isinstance(value, (tuple, frozenset)):
            waiting.extend(value)
    return True


def settle(value: Any, *, depth: int, expanded: int, budget: Budget) -> Any:
    """Returns plain data for what the machine has made.

    Args:
        value: What the machine has made.
        depth: How many levels of containers it may have.
        expanded: How many values it may have, shared ones counted each time.
        budget: The memory that it may take, shared values counted each time.

    Raises:
        CorruptDataError: It takes more memory than it may.
        NotPlainError: It contains itself, or is too deep or too large.
    """
    return _Settling(depth, expanded, budget).plain(value)


class _Settling:
    """One pass over what a machine has made. Each value is settled once."""

    def __init__(self, depth: int, expanded: int, budget: Budget) -> None:
        self._max_depth, self._max_weight, self._budget = depth, expanded, budget
        self._done: dict[int, tuple[Any, int, int]] = {}
        self._open: set[int] = set()
        self._weight = 0
        self._size = 0

    def plain(self, value: Any) -> Any:
        """Returns a value as plain data, and counts its weight."""
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
        if len(self._open) >= self._max_depth:
            raise NotPlainError(f"it is nested more than {self._max_depth} levels deep")
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
            raise NotPlainError(f"a {type(plain).__name__} stands for a key") from None
        return plain

    def _record(self, value: StandIn) -> Any:
        pairs = [(self._key(key), self.plain(item)) for key, item in value.items]
        check_hashes(key for key, _ in pairs)
        items = dict(pairs)
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


def _check_keys(keys: Iterable[Any]) -> None:
    keys = list(keys)
    if not all(map(is_small, keys)):
        raise NotPlainError("a key of a dict or set is too large")
    check_hashes(keys)


def _collected(make: type) -> Callable[..., Any]:
    def build(values: Any = ()) -> Any:
        if not isinstance(values, (list, tuple)):
            raise NotPlainError(f"a {make.__name__} is made of something else than a list")
        if make in (set, frozenset):
            _check_keys(values)
        return make(values)

    return build


def _dict(pairs: Any = ()) -> dict[Any, Any]:
    if not isinstance(pairs, (list, tuple)):
        return {}
    _check_keys([key for key, _ in pairs])
    return dict(pairs)


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
        datetime.datetime(
            int.from_bytes(state[:2]),
            state[2] & 0x7F,
            state[3],
            state[4],
            state[5],
            state[6],
            microsecond,
        )
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
    **pickled_arrays.BUILDERS,
}
"""What stands for the functions that pickles of data call, by their full names."""
