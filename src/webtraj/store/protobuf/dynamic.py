"""Messages of a schema that is known only when it is read, as plain data."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from webtraj import errors

__all__ = ["has_unknown_fields", "message_class", "plain"]

_WELL_KNOWN = (duration_pb2, timestamp_pb2)


def message_class(descriptor_set: bytes, name: str) -> type[Any]:
    """Returns the class of the message called `name`, in whatever package it is.

    Args:
        descriptor_set: A serialized FileDescriptorSet, as `protoc --include_imports
            --descriptor_set_out` writes it.
        name: The message's name, without its package.

    Raises:
        InvalidInputError: It is no such set, or has no message of that name, or several.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
        pool = descriptor_pool.DescriptorPool()
        given = {file.name for file in files}
        for module in _WELL_KNOWN:
            if module.DESCRIPTOR.name not in given:
                pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        found = []
        for file in files:  # In the order of their imports, by protoc's promise.
            pool.AddSerializedFile(file.SerializeToString())
            if any(message.name == name for message in file.message_type):
                found.append(f"{file.package}.{name}".lstrip("."))
        if len(found) == 1:
            cls: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(found[0]))
            return cls
    except (DecodeError, TypeError, KeyError, ValueError) as error:
        raise errors.InvalidInputError(
            f"The descriptor set cannot be used: {error!r:.300}. Make it by "
            "`protoc --include_imports --descriptor_set_out=FILE` of the schema."
        ) from error
    raise errors.InvalidInputError(
        f"The descriptor set has {len(found)} messages named {name}; expected one. Make it of the "
        "schema that the files were written with."
    )


def plain(message: Any) -> dict[str, Any]:
    """Returns the fields that are set in a message, by name, as plain data.

    Enums are given by name, a number that has none as it is. Fields that are not in the schema are
    left out: see `has_unknown_fields`.
    """
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def has_unknown_fields(message: Any) -> bool:
    """Returns whether anything in a message is not in its schema."""
    if len(UnknownFieldSet(message)):
        return True
    return any(
        has_unknown_fields(item)
        for field, value in message.ListFields()
        if field.message_type is not None
        for item in _items(field, value)
    )


def _items(field: FieldDescriptor, value: Any) -> list[Any]:
    if (inner := _map_value(field)) is not None:
        return list(value.values()) if inner.message_type is not None else []
    return list(value) if isinstance(value, MutableSequence) else [value]


def _field(field: FieldDescriptor, value: Any) -> Any:
    if (inner := _map_value(field)) is not None:
        return {key: _single(inner, item) for key, item in value.items()}
    if isinstance(value, MutableSequence):
        return [_single(field, item) for item in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Returns the field of a map's values; None if the field is no map."""
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return None
    return message.fields_by_name["value"]
