"""Whether one version of a Protobuf schema can read and be read by another.

Allowed are additions: messages, fields, enum values, reserved numbers and names. Whatever changes
or takes back what was there is a breaking change. A number or a name that is reserved stays so and
is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf import descriptor_pb2

__all__ = ["breaking_changes"]

_File = descriptor_pb2.FileDescriptorProto
_Message = descriptor_pb2.DescriptorProto
_Enum = descriptor_pb2.EnumDescriptorProto
_Field = descriptor_pb2.FieldDescriptorProto


def breaking_changes(old: _File, new: _File) -> list[str]:
    """Returns what in `new` breaks readers or writers of `old`, each as a sentence; empty if none.

    >>> from google.protobuf import duration_pb2
    >>> file = _File.FromString(duration_pb2.DESCRIPTOR.serialized_pb)
    >>> breaking_changes(file, file)
    []
    """
    changes = list(_attributes("the file", old, new, ("package", "syntax")))
    changes += _messages("", old.message_type, new.message_type)
    changes += _enums("", old.enum_type, new.enum_type)
    return changes


def _messages(scope: str, old: Iterable[_Message], new: Iterable[_Message]) -> Iterator[str]:
    for name, before, after in _pairs(old, new):
        where = f"message {scope}{name}"
        if after is None:
            yield f"{where} is gone"
            continue
        yield from _fields(where, before, after)
        yield from _reservations(where, before, after, [field.number for field in after.field])
        inner = f"{scope}{name}."
        yield from _messages(inner, before.nested_type, after.nested_type)
        yield from _enums(inner, before.enum_type, after.enum_type)


def _fields(where: str, old: _Message, new: _Message) -> Iterator[str]:
    by_number = {field.number: field for field in new.field}
    names = {field.name for field in old.field}
    for before in old.field:
        after = by_number.get(before.number)
        if after is None:
            yield f"{where}: field {before.number}, {before.name}, is gone"
            continue
        what = f"{where}: field {before.number}, {before.name},"
        yield from _attributes(what, before, after, _FIELD_ATTRIBUTES)
        if _oneof(old, before) != _oneof(new, after):
            yield f"{what} has another oneof"
        if _packed(before) != _packed(after):
            yield f"{what} has another packing"
    numbers = {field.number for field in old.field}
    for after in new.field:
        if after.number not in numbers and after.name in names:
            yield f"{where}: the name {after.name} is used again, as field {after.number}"


_FIELD_ATTRIBUTES = ("name", "type", "type_name", "label", "proto3_optional", "default_value")


def _oneof(message: _Message, field: _Field) -> str:
    if field.proto3_optional or not field.HasField("oneof_index"):
        return ""
    return str(message.oneof_decl[field.oneof_index].name)


def _packed(field: _Field) -> bool:
    return bool(field.options.packed) if field.options.HasField("packed") else True


def _enums(scope: str, old: Iterable[_Enum], new: Iterable[_Enum]) -> Iterator[str]:
    for name, before, after in _pairs(old, new):
        where = f"enum {scope}{name}"
        if after is None:
            yield f"{where} is gone"
            continue
        numbers = {value.name: value.number for value in after.value}
        for value in before.value:
            if value.name not in numbers:
                yield f"{where}: {value.name} is gone"
            elif numbers[value.name] != value.number:
                yield (
                    f"{where}: {value.name} is {numbers[value.name]}, and was {value.number} before"
                )
        yield from _reservations(where, before, after, list(numbers.values()))


def _reservations(where: str, old: Any, new: Any, used: Iterable[int]) -> Iterator[str]:
    """Yields what has been done to reserved numbers and names, of a message or an enum."""
    # The end of a range is exclusive in messages and inclusive in enums.
    last = 0 if isinstance(old, _Enum) else 1
    kept = [range(span.start, span.end - last + 1) for span in new.reserved_range]
    for span in old.reserved_range:
        for number in range(span.start, span.end - last + 1):
            if not any(number in numbers for numbers in kept):
                yield f"{where}: {number} is reserved no longer"
            if number in used:
                yield f"{where}: the reserved number {number} is used"
    members = new.value if isinstance(new, _Enum) else new.field
    for name in old.reserved_name:
        if name not in new.reserved_name:
            yield f"{where}: {name} is reserved no longer"
        if name in {member.name for member in members}:
            yield f"{where}: the reserved name {name} is used"


def _pairs(old: Iterable[Any], new: Iterable[Any]) -> Iterator[tuple[str, Any, Any]]:
    by_name: Mapping[str, Any] = {item.name: item for item in new}
    for item in old:
        yield item.name, item, by_name.get(item.name)


def _attributes(what: str, old: Any, new: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{what} has the {name} {after!r}, and had {before!r} before"
