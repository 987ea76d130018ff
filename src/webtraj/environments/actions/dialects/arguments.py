"""Arguments: what ties names on a dialect's wire to the fields of a verb.

Most say one field in other units or spelling (`value`). Some names say fields only together, as a
direction and an amount say two distances (`group`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects.base import FormatError

__all__ = ["Argument", "default_of", "group", "value"]

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """Names on the wire that together say some fields of a verb."""

    names: tuple[str, ...]
    """Wire names, in the order of the dialect's signature."""
    fields: tuple[str, ...]
    """The fields that they say."""
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """Wire values to field values. Raises ValueError on values that say nothing."""
    write: Callable[[Action], Mapping[str, Any]]
    """An action to wire values; defaults are left out. Raises `FormatError`."""
    schemas: Callable[[type[Action]], Mapping[str, Json]]
    """The JSON Schema of each wire name."""
    optional: frozenset[str] = frozenset()
    """The wire names that may be left out."""


def value(
    name: str,
    field: str | None = None,
    *,
    read: Callable[[Any], Any] = lambda wire: wire,
    write: Callable[[Any], Any] = lambda held: held,
    schema: Json | None = None,
    optional: bool = False,
) -> Argument:
    """Returns the argument for one wire name that says one field (of the same name by default).

    Args:
      name: The name on the wire.
      field: The field's name.
      read: Turns the wire value into the field's. Raises ValueError on values that say nothing.
      write: Turns the field's value into the wire's.
      schema: JSON Schema of the wire value, if it is not the field's.
      optional: Whether it may be left out, and is where the field has its default.
    """
    held = field or name

    def write_field(action: Action) -> Mapping[str, Any]:
        current = getattr(action, held)
        if optional and current == default_of(type(action), held):
            return {}
        if current is None:
            raise FormatError(f"{held}=None")
        return {name: plain(write(current))}

    return Argument(
        names=(name,),
        fields=(held,),
        read=lambda args: {held: read(args[name])} if name in args else {},
        write=write_field,
        schemas=lambda cls: {name: schema or cls.rules[held].schema()},
        optional=frozenset((name,)) if optional else frozenset(),
    )


def group(
    schemas: Mapping[str, Json],
    fields: Sequence[str],
    *,
    read: Callable[..., Mapping[str, Any]],
    write: Callable[..., Mapping[str, Any]],
) -> Argument:
    """Returns the argument for wire names that say fields only together. None is optional.

    Args:
      schemas: The wire names and the JSON Schema of each.
      fields: The names of the fields.
      read: Called with the wire values in order; returns the fields.
      write: Called with the fields in order; returns the wire values. Raises `FormatError`.
    """
    return Argument(
        names=tuple(schemas),
        fields=tuple(fields),
        read=lambda args: read(*(args[name] for name in schemas)),
        write=lambda action: write(*(getattr(action, field) for field in fields)),
        schemas=lambda _: schemas,
    )


def default_of(cls: type[Action], field: str) -> Any:
    """Returns a field's default; `dataclasses.MISSING` if it has none."""
    return cls.__dataclass_fields__[field].default  # type: ignore[attr-defined]


def plain(wire: Any) -> Any:
    """Returns a value with tuples turned into lists, as JSON has them."""
    return [plain(item) for item in wire] if isinstance(wire, (list, tuple)) else wire
