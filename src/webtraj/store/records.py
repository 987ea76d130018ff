"""Reading of the records of `webtraj.trajectory`, and of other dataclasses, from plain JSON data.

`webtraj.store.encoding` writes them: as objects of their fields by name, without defaults. Unknown
names of enums are read as the enum's UNKNOWN.

Data is checked once, here, when it is read, against the annotations of the record classes. So all
users of a record may rely on its types and bounds.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.store import decoding, values
from webtraj.store.blobs import BlobSource
from webtraj.store.decoding import Budget, Reading

__all__ = [
    "WrongFieldError",
    "decode_record",
    "read_fields",
    "read_line",
    "read_object",
]


_Record = TypeVar("_Record")

_FromJson = Callable[[Any, Reading], Any]


def decode_record(
    cls: type[_Record],
    data: Mapping[str, Any],
    blobs: BlobSource | None = None,
    budget: Budget | None = None,
) -> _Record:
    """Decode a record of class `cls` from `data`, parsed JSON.

    Every field is checked against its annotation, bounds included. Unknown fields are ignored, and
    null counts as a missing field where the field cannot be None.

    Args:
        cls: One of the records of `webtraj.trajectory`.
        data: The parsed JSON.
        blobs: The source of the blobs that it refers to.
        budget: The memory budget, with the file's name for errors.

    Raises:
        CorruptDataError: A field is missing, of another type, or does not follow the format.
    """
    try:
        record: _Record = _read_record(cls, data, Reading(blobs, budget))
    except WrongFieldError as error:
        where = f"{budget.where!r}" if budget is not None else f"A stored {cls.__name__}"
        raise errors.CorruptDataError(
            f"{where} does not follow the format: {error}. Run `webtraj verify` on the dataset."
        ) from error
    return record


class WrongFieldError(ValueError):
    """A field of a stored record is wrong; the message says which and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or 'it'} {why}")
        self.path = path
        self.why = why


def read_fields(cls: type, data: Any, reading: Reading) -> dict[str, Any]:
    """Read a dataclass's fields from parsed JSON, checked against their annotations.

    Raises:
        WrongFieldError: A field is of another type.
    """
    if type(data) is not dict:
        raise WrongFieldError("", f"is {data!r:.60}; expected an object")
    kinds = _kinds_of(cls)
    fields = {}
    name = ""
    try:
        for name, value in data.items():
            kind = kinds.get(name)
            if kind is None:
                continue
            read, plain, takes_null = kind
            if type(value) in plain:
                fields[name] = value
            elif value is not None or takes_null:
                fields[name] = read(value, reading)
    except WrongFieldError as error:
        inner = error.path
        path = f"{name}{inner}" if inner.startswith("[") else f"{name}.{inner}" if inner else name
        raise WrongFieldError(path, error.why) from error
    except errors.WebtrajError:  # From a blob or the budget, with its own message.
        raise
    except decoding.MALFORMED as error:
        raise WrongFieldError(name, f"cannot be read: {type(error).__name__}: {error}") from error
    return fields


def read_object(cls: type[_Record], data: Any) -> _Record:
    """Read a dataclass from an object in one of webtraj's own files.

    Every field is checked against its annotation, bounds included; unknown fields are ignored.
    Where an annotation is `object`, the JSON is kept unchanged.

    Raises:
        WrongFieldError: A field is of another type, or missing.
    """
    record: _Record = _read_record(cls, data, Reading())
    return record


def read_line(
    cls: type[_Record],
    content: bytes,
    where: str,
    remedy: str,
    error: type[errors.WebtrajError] = errors.CorruptDataError,
) -> _Record:
    """Read JSON as `read_object` does, with errors that also name the file.

    Args:
        cls: The class.
        content: A file or one line of it.
        where: The name of the file, or of the line in it, for errors.
        remedy: A sentence on what to do about a damaged file.
        error: The class of the error.

    Raises:
        WebtrajError: Of the class `error`: the JSON is malformed; the message names the file and
            the field.
    """
    try:
        return read_object(cls, orjson.loads(content))
    except (ValueError, RecursionError) as problem:
        raise error(f"{where} cannot be read: {problem}. {remedy}") from problem


def read_lines(
    cls: type[Any], lines: Iterable[bytes], name: str, remedy: str
) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON objects, checked against the fields of `cls`.

    Args:
        cls: The class.
        lines: The file's lines.
        name: The file's name, for errors.
        remedy: A sentence on what to do about a damaged line.

    Raises:
        CorruptDataError: A line is damaged.
    """
    objects = []
    for number, line in enumerate(lines, start=1):
        read_line(cls, line, f"Line {number} of {name!r}", remedy)
        objects.append(orjson.loads(line))
    return objects


def _read_record(cls: type, data: Any, reading: Reading) -> Any:
    fields = read_fields(cls, data, reading)
    mutable = _mutable(cls)
    try:
        record = mutable(**fields)
    except TypeError as error:
        raise WrongFieldError("", f"is incomplete: {error}") from error
    if mutable is not cls:
        record.__class__ = cls
    return record


@functools.cache
def _mutable(cls: Any) -> Any:
    """Return a class with the slots of a frozen dataclass, whose objects are twice as fast to make.

    A frozen class sets every field through `object.__setattr__`. This class sets fields directly
    and does not check them again. Assigning `cls` to an object's `__class__` makes it a record.
    Other classes are returned unchanged.
    """
    frozen = cls.__dataclass_params__.frozen and "__slots__" in vars(cls)
    checks = hasattr(cls, "__post_init__") and not issubclass(cls, trajectory_lib.Record)
    if not frozen or checks or any(map(dataclasses.is_dataclass, cls.__bases__)):
        return cls
    fields = []
    for field in dataclasses.fields(cls):
        default = dataclasses.field(
            default=field.default, default_factory=field.default_factory, kw_only=field.kw_only
        )
        fields.append((field.name, Any, default))
    # With the same bases, for the same layout in memory.
    made = {"__post_init__": lambda _: None}
    return dataclasses.make_dataclass(
        cls.__name__, fields, bases=cls.__bases__, namespace=made, slots=True
    )


# Kinds of fields, compiled from their annotations once for each class.


class _Kind(NamedTuple):
    """How to read the values of an annotation."""

    read: _FromJson
    """Reads and checks a value, or raises WrongFieldError."""
    plain: frozenset[type] = frozenset()
    """The types of JSON values that are kept unchanged, without `read`. JSON integers have at most
    64 bits."""
    takes_null: bool = False
    """Whether `read` gets null too. If not, a field that is null gets its default."""


@functools.cache
def _kinds_of(cls: type) -> dict[str, _Kind]:
    """Return the kind of each field of a dataclass or Struct, by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    signature = inspect.signature(cls).parameters
    kinds = {}
    for name in signature:
        kind = _kind(hints[name])
        required = signature[name].default is inspect.Parameter.empty
        kinds[name] = kind._replace(takes_null=True) if required else kind
    return kinds


def _kind(hint: Any) -> _Kind:
    """Return the kind for an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _Kind(decoding.decode_value, decoding.ATOMS, takes_null=True)
    if hint is object:
        return _Kind(lambda data, _: data, takes_null=True)
    if origin is typing.Annotated:
        return _Kind(_with_bounds(_kind(arguments[0]), arguments[1]))
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        kind = _kind(inner)
        return kind._replace(plain=kind.plain | {type(None)})
    if origin is tuple:
        item = arguments[0]
        if isinstance(item, type) and dataclasses.is_dataclass(item):
            return _Kind(_records(item), takes_null=True)  # A list of records: present or missing.
        return _Kind(_items(_kind(item)))
    if origin is collections.abc.Mapping and arguments[1] is object:
        return _Kind(_json_object)
    if origin is collections.abc.Mapping:
        return _Kind(_mapping(_kind(arguments[1]), holds_any=arguments[1] is Any))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _Kind(functools.partial(_read_record, hint))
    if issubclass(hint, enum.Enum):
        return _Kind(_enum(hint))
    return _SCALARS[hint]


def _wrong(value: Any, expected: str) -> WrongFieldError:
    return WrongFieldError("", f"is {_abbreviate(value)}; expected {expected}")


def _abbreviate(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # A number with too many digits, for example.
        return f"a {type(value).__name__}"


def _scalar_of(data: Any, reading: Reading) -> Any:
    """Return a value, with numpy scalars converted to Python's."""
    value = decoding.decode_value(data, reading)
    return value.item() if isinstance(value, np.generic) else value


def _str(data: Any, reading: Reading) -> Any:
    if type(data) is str:
        return data
    if type(data) is dict and data.get(values.TAG) == "text":
        return decoding.decode_value(data, reading)  # Text, or an object that loads it lazily.
    value = _scalar_of(data, reading)
    # An environment may name its task by a number or an object; it is kept as text.
    if type(value) in (str, int, float, bool):
        return str(value)
    if isinstance(value, values.OpaqueRecord) and type(value.fields.get("repr")) is str:
        return value.fields["repr"]
    raise _wrong(value, "text")


def _json_object(data: Any, _: Reading) -> dict[str, Any]:
    if type(data) is not dict:
        raise _wrong(data, "an object")
    return data


def _int(data: Any, reading: Reading) -> int:
    value = data if type(data) is int else _scalar_of(data, reading)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or abs(value) >> trajectory_lib.INT_BITS:
        raise _wrong(value, f"an integer of at most {trajectory_lib.INT_BITS} bits")
    return int(value)  # True counts as 1.


def _float(data: Any, reading: Reading) -> float:
    value = data if type(data) is float else _scalar_of(data, reading)
    if not isinstance(value, (float, int)) or isinstance(value, bool):
        raise _wrong(value, "a number")
    if isinstance(value, int) and abs(value) >> trajectory_lib.INT_BITS:
        raise _wrong(value, "a number that a float can hold")
    return value


def _bool(data: Any, reading: Reading) -> bool:
    value = data if type(data) is bool else _scalar_of(data, reading)
    if type(value) is not bool:
        raise _wrong(value, "true or false")
    return value


_SCALARS: dict[Any, _Kind] = {
    str: _Kind(_str, frozenset({str})),
    int: _Kind(_int, frozenset({int})),
    float: _Kind(_float, frozenset({float})),
    bool: _Kind(_bool, frozenset({bool})),
}


def _with_bounds(kind: _Kind, bounds: trajectory_lib.Within) -> _FromJson:
    read, plain, _ = kind
    least, below = bounds.least, bounds.below

    def read_bounded(data: Any, reading: Reading) -> Any:
        value = data if type(data) in plain else read(data, reading)
        if not least <= value < below:  # NaN is never within bounds.
            raise _wrong(value, f"at least {least:g} and less than {below:g}")
        return value

    return read_bounded


def _records(cls: type) -> _FromJson:
    def read(data: Any, reading: Reading) -> tuple[Any, ...]:
        if type(data) not in (
            list,
            tuple,
        ):  # JSON has only lists; values in memory may have either.
            raise _wrong(data, "a list")
        made: list[Any] = []
        try:
            for item in data:
                made.append(_read_record(cls, item, reading))  # noqa: PERF401
        except WrongFieldError as error:
            path = f"[{len(made)}]"
            raise WrongFieldError(
                f"{path}.{error.path}" if error.path else path, error.why
            ) from error
        return tuple(made)

    return read


def _items(kind: _Kind) -> _FromJson:
    read, plain, _ = kind

    def items(data: Any, reading: Reading) -> tuple[Any, ...]:
        if type(data) is list:
            types_of = list(map(type, data))  # Counting is the fastest check of so many token ids.
            if sum(map(types_of.count, plain)) == len(data):
                return tuple(data)
        values = data if type(data) is list else decoding.decode_value(data, reading)
        if not isinstance(values, (list, tuple)):
            raise _wrong(values, "a list")
        if values is not data:  # Already decoded.
            return tuple(values)
        return tuple(item if type(item) in plain else read(item, reading) for item in values)

    return items


def _mapping(kind: _Kind, *, holds_any: bool) -> _FromJson:
    read, plain, _ = kind

    def mapping(data: Any, reading: Reading) -> Mapping[Any, Any]:
        if type(data) is dict and values.TAG not in data:
            return {
                key: value if type(value) in plain else read(value, reading)
                for key, value in data.items()
                if value is not None or holds_any
            }
        value = decoding.decode_value(data, reading)
        if isinstance(value, dict) and holds_any:
            return value
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return {key: read(item, reading) for key, item in value.items()}
        if isinstance(data, dict) and holds_any and data[values.TAG] in _OBJECTS:
            return {"value": value}  # An object recorded in place of a mapping.
        raise _wrong(value, "an object with names")

    return mapping


_OBJECTS = ("record", "namedtuple", "unwritable", "repr")


def _enum(enum_class: type[enum.Enum]) -> _FromJson:
    members = enum_class.__members__
    by_name = {name.lower(): member for name, member in members.items()}  # As written.

    def member(data: Any, _: Reading) -> enum.Enum | None:
        if type(data) is str and data in by_name:
            return by_name[data]
        found = members.get(str(data).upper(), members.get("UNKNOWN"))
        if found is None and enum_class is trajectory_lib.StepType:
            raise _wrong(data, "one of first, mid, last")
        return found

    return member
