"""The process that reads an untrusted pickle, with Python's own unpickler. `pickles` starts it.

A pickle is a program for a stack machine that names classes, calls them, and changes what they
made. Here each name becomes an empty class of its own, which only stores what it is called with;
the few functions that plain data needs are replaced by ones that check what they get. So no module
of the file's choice is imported, no extension code is registered, and no class can be changed. The
process has limits on its memory and processor time, and imports nothing outside the standard
library.

Its input is a pickle of what is asked for, and the file. Its output is the position after the last
pickle in 8 bytes, and each value as a pickle of plain data, with calls of `stand_in` for the rest.
If the file is refused, it ends with status `REFUSED` and the reason on standard error; if it needs
too much memory, with `NO_MEMORY`.
"""

from __future__ import annotations

import collections
import datetime
import gc
import io
import itertools
import pickle
import sys

TYPE_CHECKING = False  # Importing `typing` would take longer than reading most files.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["NO_MEMORY", "REFUSED", "modern"]

REFUSED = 65
NO_MEMORY = 66


class RefusedError(Exception):
    """The file is refused; the message is the rest of a sentence about it."""


class NotPlainError(ValueError):
    """A value cannot become plain data; the message says why."""


def stand_in(kind: str, *parts: Any) -> Any:
    """Stand in for a value that is not plain. `pickles` has a function for it."""


class Named(type):
    """The type of the classes that stand for the names in a file."""

    full: str

    def __setattr__(cls, name: str, value: Any) -> None:
        """Refuse: BUILD may set attributes, even of a class."""
        raise NotPlainError("a class has no state")


class StandIn(metaclass=Named):
    """An object of a class that is not loaded, with what it was made from. It cannot be a key."""

    __slots__ = ("arguments", "elements", "items", "keywords", "state")
    __hash__ = None  # type: ignore[assignment]
    full = ""
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    state: Any
    items: dict[Any, Any]
    elements: list[Any]

    def __new__(cls, /, *arguments: Any, **keywords: Any) -> StandIn:
        """Store the arguments."""
        made = object.__new__(cls)
        made.arguments, made.keywords = arguments, keywords
        made.state, made.items, made.elements = None, {}, []
        return made

    def __setstate__(self, state: Any) -> None:
        """Store the state."""
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Store an item."""
        self.items[key] = value

    def append(self, value: Any) -> None:
        """Store an element."""
        self.elements.append(value)

    def inside(self) -> Iterable[Any]:
        """Return the values that it holds."""
        states = self.state if type(self.state) is tuple else (self.state,)
        return itertools.chain(
            self.arguments,
            self.keywords.values(),
            _inside(self.items),
            self.elements,
            *(state.values() if type(state) is dict else (state,) for state in states),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the answer tells it."""
        parts = (self.arguments, self.keywords, self.items, self.elements, self.state)
        return stand_in, ("object", type(self).full, *parts)


class Persistent(StandIn):
    """A value that is outside the pickle, with its id."""

    __slots__ = ()
    full = "persistent"


class _Date(StandIn):
    """A date with a time zone, or a broken one."""

    __slots__ = ()
    full = "datetime.datetime"


def _builder_of(make: type) -> Callable[..., Any]:
    def build(values: Any = (), *_: Any) -> Any:
        if not isinstance(values, (list, tuple)):
            raise NotPlainError(f"a {make.__name__} is not made from a list")
        return make(values)

    return build


def _byte_array(data: Any = b"") -> bytearray:
    if not isinstance(data, (bytes, bytearray)):
        raise NotPlainError("a bytearray is not made from bytes")
    return bytearray(data)


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise NotPlainError("bytes are not encoded as pickle does it")
    return text.encode("latin-1")


def _path(*parts: Any) -> str:
    import pathlib  # Rarely needed, and slow to import.

    if not all(type(part) is str for part in parts):
        raise NotPlainError("a path is not made from text")
    return str(pathlib.PurePosixPath(*parts))


def _datetime(state: Any, *rest: Any) -> Any:
    if rest or type(state) is not bytes or len(state) != 10:
        return _Date(state, *rest)
    year, microsecond = int.from_bytes(state[:2], "big"), int.from_bytes(state[7:], "big")
    month, day, hour, minute, second = state[2] & 0x7F, *state[3:7]
    return datetime.datetime(year, month, day, hour, minute, second, microsecond)


def _reconstruct(cls: Any, base: Any, state: Any) -> Any:
    """Return an object as protocols 0 and 1 make it."""
    if type(cls) is not Named or type(base) is not Named or not issubclass(cls, StandIn):
        raise NotPlainError("an object has no valid class")
    made = cls()
    if base.full == "builtins.dict" and isinstance(state, dict):
        made.items.update(state)
    elif base.full == "builtins.list" and isinstance(state, list):
        made.elements.extend(state)
    elif base.full != "builtins.object" or state is not None:
        raise NotPlainError(f"an object of {cls.full} is made in an unsupported way")
    return made


_BUILDERS: dict[str, Callable[..., Any]] = {
    "builtins.set": _builder_of(set),
    "builtins.frozenset": _builder_of(frozenset),
    "builtins.list": _builder_of(list),
    "builtins.tuple": _builder_of(tuple),
    "builtins.dict": _builder_of(dict),
    "builtins.bytes": lambda: b"",
    "builtins.bytearray": _byte_array,
    "builtins.complex": lambda real, imaginary: complex(float(real), float(imaginary)),
    "collections.OrderedDict": _builder_of(dict),
    "collections.defaultdict": lambda factory=None: {},
    "collections.deque": _builder_of(list),
    "datetime.datetime": _datetime,
    "pathlib.PosixPath": _path,
    "pathlib.PurePosixPath": _path,
    "pathlib.Path": _path,
    "_codecs.encode": _encode,
    "copyreg._reconstructor": _reconstruct,
}
"""The functions that plain data needs, by full name. Calling any other name gives a `StandIn`."""


def modern(module: str) -> str:
    """Return today's name of a module that an old pickle names."""
    if module.startswith("numpy.core."):
        return f"numpy._core.{module.removeprefix('numpy.core.')}"
    return {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)


class _Unpickler(pickle.Unpickler):
    """Reads a pickle whose names are looked up nowhere."""

    def __init__(self, file: Any, asked: dict[str, Any]) -> None:
        super().__init__(file, encoding="latin-1")
        self._asked = asked
        self._allowed = {*asked["names"], *_BUILDERS, "builtins.object"}
        self._classes: dict[str, Named] = {}

    def find_class(self, module: str, name: str) -> Named:
        """Return a class for a name, if the file may use it."""
        full = f"{modern(module)}.{name}"
        if full not in self._allowed and not self._asked["any_name"]:
            raise RefusedError(
                f"uses the name {full[:200]!r}, which is not allowed in such a file. Nothing of it "
                "was loaded or run. If it is a class whose objects you want as data, allow it by "
                "that name."
            )
        if full not in self._classes:
            builder = _BUILDERS.get(full)
            content: dict[str, Any] = {"full": full, "__slots__": ()}
            if builder is not None:
                content["__new__"] = lambda cls, /, *arguments: builder(*arguments)
            self._classes[full] = Named("class", () if builder else (StandIn,), content)
        return self._classes[full]

    def persistent_load(self, pid: Any) -> Any:
        """Return a stand-in for the value that a persistent id names."""
        if not self._asked["persistent"]:
            raise RefusedError("has persistent ids, which are not supported.")
        return Persistent(pid)


_SIZED = frozenset({str, bytes, bytearray})
_ATOMS = frozenset({type(None), bool, int, float, complex, datetime.datetime})
_CONTAINER = 64
"""Bytes of memory for a container."""
_SAME_HASH = 1000


class _Weighing:
    """A pass over a value that counts its content. Shared values count each time."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._done: dict[int, tuple[int, int] | None] = {}
        self._depth = -1

    def weigh(self, value: Any) -> tuple[int, int]:
        """Return the number of values in a container, including itself, and their bytes."""
        key, depth = id(value), self._asked["depth"]
        if key in self._done:
            known = self._done[key]
            if known is None:
                raise NotPlainError("it contains itself")
            return known
        if self._depth >= depth:
            raise NotPlainError(f"it is nested more than {depth} levels deep")
        self._done[key] = None
        self._depth += 1
        count, size = 1, _CONTAINER
        for item in _inside(value):
            kind = type(item)
            if kind in _SIZED:
                count, size = count + 1, size + len(item)
            elif kind in _ATOMS:
                count, size = count + 1, size + 8
            else:
                more = self.weigh(item)
                count, size = count + more[0], size + more[1]
        if count > self._asked["expanded"]:
            raise NotPlainError(f"it holds more than {self._asked['expanded']:,} values")
        if size > self._asked["memory"]:
            raise MemoryError
        self._depth -= 1
        self._done[key] = count, size
        return count, size


def _inside(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is list or kind is tuple:
        return value  # type: ignore[no-any-return]
    if kind is Named:
        return (value.full,)
    if isinstance(value, StandIn):
        return value.inside()
    if kind not in (dict, set, frozenset):
        raise NotPlainError(f"it holds a {kind.__name__}")
    if len(value) > _SAME_HASH:
        ((_, same),) = collections.Counter(map(hash, value)).most_common(1)
        if same > _SAME_HASH:  # They make everything slow that holds them.
            raise NotPlainError(f"more than {_SAME_HASH} keys of a dict or set have the same hash")
    return itertools.chain(value, value.values()) if kind is dict else value


class _Answer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Return how the answer tells a name."""
        return (stand_in, ("name", value.full)) if type(value) is Named else NotImplemented


def _limit(memory: int, seconds: int) -> None:
    """Limit this process's memory and processor time, if the system supports it.

    macOS does not limit memory, and Windows limits neither. There, a file may make this process
    large before `_Weighing` refuses it.
    """
    try:
        import resource
    except ImportError:
        return
    for kind, wanted in (("AS", memory), ("CPU", seconds), ("CORE", 0)):
        limit = getattr(resource, f"RLIMIT_{kind}")
        bounds = (wanted, *resource.getrlimit(limit))
        soft = min(bound for bound in bounds if bound != resource.RLIM_INFINITY)
        try:
            resource.setrlimit(limit, (soft, bounds[2]))
        except (ValueError, OSError):
            continue


def main() -> int:
    """Read standard input, write the answer, and return the status."""
    asked = pickle.load(sys.stdin.buffer)
    _limit(asked["address_space"], asked["seconds"])
    gc.disable()  # It would look at all values again and again.
    why = ""
    try:
        # Buffered: reading ahead makes the unpickler fast.
        file: Any = io.BufferedReader(io.BytesIO(sys.stdin.buffer.read()))
        values = [_Unpickler(file, asked).load() for _ in range(asked["count"])]
        sys.stdout.buffer.write(file.tell().to_bytes(8, "little"))
        for value in values:
            _Weighing(asked).weigh((value,))
            _Answer(sys.stdout.buffer, 4).dump(value)
        sys.stdout.buffer.flush()
    except MemoryError:
        return NO_MEMORY
    except RefusedError as error:
        why = str(error)
    except Exception as error:
        why = str(error) if type(error) is NotPlainError else f"{type(error).__name__}: {error}"
        why = f"is not a readable pickle: {why:.300}. The file is damaged, or not a pickle of data."
    sys.stderr.write(why)
    return REFUSED if why else 0


if __name__ == "__main__":
    sys.exit(main())
