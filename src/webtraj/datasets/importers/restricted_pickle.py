"""Reading pickles from elsewhere as data. Nothing in them is imported, called or executed.

A pickle is a program for a small stack machine. `RestrictedUnpickler` runs it on a machine of its
own in which there is nothing to call: a name is only a `Name`, an object only a `StandIn` that
notes what it was made from, and numpy arrays are built from their bytes after everything about
them has been checked (`pickled_values`). A name that is not listed, a persistent id, an extension
code or a call of anything but a name is refused, and so is what is larger, deeper or longer than
its `Limits`, or takes more memory than a file of its size may. An object comes out as an
`OpaqueRecord`: its class's name and its fields.
"""

from __future__ import annotations

import collections
import dataclasses
import io
import pickletools
import struct
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from webtraj import errors
from webtraj.datasets.importers import pickled_values
from webtraj.datasets.importers.pickled_objects import Name, NotPlainError, StandIn
from webtraj.store.budget import Budget

__all__ = ["Limits", "RestrictedUnpickler", "read_pickle"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a file may ask for. More than any file that was seen, less than a machine has."""

    file_bytes: int = 4 << 30
    """Bytes in a file, once it is decompressed."""
    operations: int = 50_000_000
    """Operations in one pickle."""
    expanded: int = 50_000_000
    """Values in what comes out, shared ones counted each time; long ones count for more."""
    depth: int = 100
    """Levels of containers in each other."""


_COST = 32
"""Bytes of memory that an operation takes, roughly; the costly ones are told apart."""
_COSTS = {
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_DICT", "LIST", "DICT", "TUPLE", "TUPLE1"), 128),
    **dict.fromkeys(("TUPLE2", "TUPLE3", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"), 128),
    **dict.fromkeys(("EMPTY_SET", "FROZENSET", "GLOBAL", "STACK_GLOBAL"), 256),
    **dict.fromkeys(("REDUCE", "NEWOBJ", "NEWOBJ_EX"), 512),
}
_ENTRY = 100
"""Bytes of memory that an entry of a dict or set takes."""
_SECRET_HASHES = (str, bytes, type(None), bool)
_MODULUS = 2**61 - 1
"""Integers below it have a hash of their own (`sys.hash_info.modulus`)."""
_SAME_HASH = 1000

_Handler = Callable[["RestrictedUnpickler", Any], None]
_MARK = object()


class RestrictedUnpickler:
    """Reads one pickle after the other from a file's bytes."""

    def __init__(
        self,
        content: bytes,
        where: str,
        *,
        names: Collection[str] = (),
        any_name: bool = False,
        persistent_load: Callable[[Any], Any] | None = None,
        limits: Limits | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Initializes the unpickler.

        Args:
            content: The pickles.
            where: Names the file in errors.
            names: The full names (`module.Class`) of classes that may stand in it.
            any_name: Whether any class may. What is made of it is as inert as of the others.
            persistent_load: Returns what a persistent id stands for; without it they are refused.
            limits: How much the file may ask for.
            budget: The memory that it may take; by default in proportion to its size.

        Raises:
            CorruptDataError: The file is too large.
        """
        # A pickle has more bytes for each value than other files: a quarter of the usual is enough.
        self.budget = budget or Budget(where, len(content) // 4)
        self._stream = io.BytesIO(content)
        self._where = where
        self._names = frozenset(names)
        self._any_name = any_name
        self._persistent_load = persistent_load
        self._limits = limits or Limits()
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        if len(content) > self._limits.file_bytes:
            self._refuse(f"has {len(content):,} bytes; at most {self._limits.file_bytes:,} are")

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._stream.tell()

    def load(self) -> Any:
        """Reads the next pickle and returns what it holds, as plain data.

        Raises:
            CorruptDataError: It is none, or asks for what it may not have.
        """
        return self.settle(self.load_unsettled())

    def load_unsettled(self) -> Any:
        """Reads the next pickle and returns what `settle` makes plain data of."""
        self._stack, self._memo = [], {}
        self._same_hash: collections.Counter[tuple[int, int]] = collections.Counter()
        try:
            return self._run()
        except errors.CorruptDataError:
            raise
        except (
            ValueError,
            TypeError,
            LookupError,
            OverflowError,
            struct.error,
            Warning,
        ) as error:  # A warning, of a strange escape in old text, where warnings are errors.
            self._fail(f"{type(error).__name__}: {error}")

    def settle(self, value: Any) -> Any:
        """Returns plain data for what the machine has made."""
        try:
            return pickled_values.settle(
                value, depth=self._limits.depth, expanded=self._limits.expanded, budget=self.budget
            )
        except errors.CorruptDataError:
            raise
        except NotPlainError as error:
            self._fail(str(error))
        except (ValueError, TypeError, OverflowError) as error:
            self._fail(f"{type(error).__name__}: {error}")

    def find_class(self, module: str, name: str) -> Name:
        """Returns what stands for a name, if the file may ask for it.

        Raises:
            CorruptDataError: It may not.
        """
        found = Name(f"{pickled_values.modern(module)}.{name}")
        listed = found.full in self._names or found.full in pickled_values.BUILDERS
        if not (listed or self._any_name):
            raise errors.CorruptDataError(
                f"{self._where!r} asks for {found.full[:200]!r}, which is not among the names that "
                "such a file may ask for. Nothing of it was loaded or run. If it is only a class "
                "whose objects you want as data, allow it by that name."
            )
        return found

    def _run(self) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(self._stream)):
            if count >= self._limits.operations:
                self._refuse(f"has more than {self._limits.operations:,} operations; no more are")
            self.budget.take(_COSTS.get(opcode.name, _COST))
            if opcode.name == "STOP":
                return self._pop()
            handler = _HANDLERS.get(opcode.name)
            if handler is None:
                self._refuse(f"uses the operation {opcode.name}; only plain ones are")
            handler(self, argument)
        raise ValueError("it breaks off")

    def _fail(self, why: str) -> NoReturn:
        raise errors.CorruptDataError(
            f"{self._where!r} is no readable pickle: {why:.300}. The file is damaged, or not what "
            "it seems to be."
        )

    def _refuse(self, what: str) -> NoReturn:
        raise errors.CorruptDataError(
            f"{self._where!r} {what:.300} read. It was refused before anything was made of it."
        )

    # The stack.

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark stands where a value was expected")
        return value

    def _pop_marked(self) -> list[Any]:
        """Returns what lies above the topmost mark, which goes too."""
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                items = self._stack[i + 1 :]
                del self._stack[i:]
                return items
        raise ValueError("a mark is missing")

    def _drop_marked(self, _: Any) -> None:
        self._pop_marked()

    def _top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise ValueError("a mark stands where a value was expected")
        return value

    def _tuple_of(self, count: int) -> None:
        self._push(tuple(reversed([self._pop() for _ in range(count)])))

    # Names and calls.

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._push(self.find_class(module, name))

    def _stack_global(self, _: Any) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise TypeError("a name is no text")
        self._push(self.find_class(module, name))

    def _reduce(self, _: Any) -> None:
        arguments, called = self._pop(), self._pop()
        self._make(called, arguments, {})

    def _newobj(self, _: Any) -> None:
        self._reduce(None)

    def _newobj_ex(self, _: Any) -> None:
        keywords, arguments, called = self._pop(), self._pop(), self._pop()
        if type(keywords) is not dict:
            raise TypeError("keyword arguments are no dict")
        self._make(called, arguments, keywords)

    def _make(self, called: Any, arguments: Any, keywords: dict[Any, Any]) -> None:
        if type(called) is not Name:
            self._refuse(f"calls a {type(called).__name__}, which is no class; no such thing is")
        if type(arguments) is not tuple:
            raise TypeError("the arguments of a call are no tuple")
        builder = pickled_values.BUILDERS.get(called.full)
        if builder is None:
            self._push(StandIn(called.full, arguments, keywords))
        elif keywords:
            raise TypeError(f"{called.full} takes no keywords here")
        else:
            self._push(builder(*arguments))

    def _build(self, _: Any) -> None:
        state = self._pop()
        target = self._top()
        if isinstance(target, pickled_values.TAKES_STATE):
            target.set_state(state)
        elif state:
            self._refuse(f"gives state to a {type(target).__name__}; only an object's is")

    def _persistent(self, pid: Any) -> None:
        if self._persistent_load is None:
            self._refuse("has persistent ids; none is")
        else:
            self._push(self._persistent_load(pid))

    # Containers.

    def _append(self, _: Any) -> None:
        self._extend([self._pop()])

    def _appends(self, _: Any) -> None:
        self._extend(self._pop_marked())

    def _extend(self, values: list[Any]) -> None:
        target = self._top()
        if type(target) is list:
            target.extend(values)
        elif type(target) is StandIn:
            target.elements.extend(values)
        else:
            raise TypeError(f"a {type(target).__name__} takes no elements")

    def _setitem(self, _: Any) -> None:
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _setitems(self, _: Any) -> None:
        self._set_items(self._pop_marked())

    def _set_items(self, flat: list[Any]) -> None:
        target = self._top()
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
        target = self._top()
        if type(target) is not set:
            raise TypeError(f"a {type(target).__name__} takes no members")
        self._check_keys(target, items)
        target.update(items)

    def _frozenset(self, _: Any) -> None:
        items = self._pop_marked()
        self._check_keys(items, items)
        self._push(frozenset(items))

    def _check_keys(self, target: Any, keys: Collection[Any]) -> None:
        """Refuse keys that were made to take for ever: by their hashes, or to be hashed at all."""
        self.budget.take(_ENTRY * len(keys))
        for key in keys:
            if type(key) in _SECRET_HASHES or (type(key) is int and -_MODULUS < key < _MODULUS):
                continue
            if not pickled_values.is_small(key):
                raise ValueError("a key of a dict or set is too large")
            same = (id(target), hash(key))
            self._same_hash[same] += 1
            if self._same_hash[same] > _SAME_HASH:
                raise ValueError(f"more than {_SAME_HASH} keys of a dict or set have the same hash")

    # The memo.

    def _put(self, index: int) -> None:
        self._memo[index] = self._top()

    def _get(self, index: int) -> None:
        self._push(self._memo[index])


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
    "MARK": _pushes(lambda _: _MARK),
    "POP": lambda machine, _: machine._stack.pop() and None,
    "POP_MARK": RestrictedUnpickler._drop_marked,
    "DUP": lambda machine, _: machine._push(machine._top()),
    "LIST": lambda machine, _: machine._push(machine._pop_marked()),
    "TUPLE": lambda machine, _: machine._push(tuple(machine._pop_marked())),
    "TUPLE1": lambda machine, _: machine._tuple_of(1),
    "TUPLE2": lambda machine, _: machine._tuple_of(2),
    "TUPLE3": lambda machine, _: machine._tuple_of(3),
    "FROZENSET": RestrictedUnpickler._frozenset,
    "DICT": RestrictedUnpickler._dict,
    "APPEND": RestrictedUnpickler._append,
    "APPENDS": RestrictedUnpickler._appends,
    "SETITEM": RestrictedUnpickler._setitem,
    "SETITEMS": RestrictedUnpickler._setitems,
    "ADDITEMS": RestrictedUnpickler._additems,
    "GLOBAL": RestrictedUnpickler._global,
    "STACK_GLOBAL": RestrictedUnpickler._stack_global,
    "REDUCE": RestrictedUnpickler._reduce,
    "NEWOBJ": RestrictedUnpickler._newobj,
    "NEWOBJ_EX": RestrictedUnpickler._newobj_ex,
    "BUILD": RestrictedUnpickler._build,
    "PERSID": RestrictedUnpickler._persistent,
    "BINPERSID": lambda machine, _: machine._persistent(machine._pop()),
    "MEMOIZE": lambda machine, _: machine._put(len(machine._memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), RestrictedUnpickler._put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), RestrictedUnpickler._get),
}  # fmt: skip


def read_pickle(
    content: bytes,
    where: str,
    *,
    names: Collection[str] = (),
    any_name: bool = False,
    limits: Limits | None = None,
) -> Any:
    """Returns what a pickle holds, as plain data; the arguments are `RestrictedUnpickler`'s.

    Raises:
        CorruptDataError: It is no pickle, or asks for what it may not have.
    """
    unpickler = RestrictedUnpickler(content, where, names=names, any_name=any_name, limits=limits)
    return unpickler.load()
