"""The dataclasses that come back from disk as themselves.

A stored record names its type by a short, stable name, never by a module path, so that code can
move and a hostile file can import nothing. `record_type` gives a dataclass such a name. A name that
no registered class has decodes to `OpaqueRecord`, which keeps its fields.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["OpaqueRecord", "class_of", "name_of", "record_type"]

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
