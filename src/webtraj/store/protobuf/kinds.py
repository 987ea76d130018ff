"""The kinds of fields that a record's message has: how each takes JSON data, and gives it back.

A kind takes only what it will give back exactly; all else it leaves to the record's extra fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf.value_reading import ValueReader, double
from webtraj.store.protobuf.value_writing import ValueWriter
from webtraj.store.values import TAG

__all__ = [
    "ABSENT", "ANY", "BOOL", "DOUBLE", "DOUBLES", "INT", "INTS", "STR", "STRS", "Kind", "Named",
]  # fmt: skip

ABSENT: Any = object()
"""What a field holds that is not set."""

_INT64 = range(-(2**63), 2**63)
_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Kind(Protocol):
    """A kind of field. `holder` is the message that has it, by the name `name`."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Sets the field; returns whether it took the data."""

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Returns the field's JSON data; ABSENT if it is not set."""


class _Scalar:
    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read  # Raises ValueError or TypeError if it is none.

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        try:
            setattr(holder, name, self._read(data))
        except (TypeError, ValueError):
            return False
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return getattr(holder, name) if holder.HasField(name) else ABSENT


class _Double(_Scalar):
    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return double(getattr(holder, name)) if holder.HasField(name) else ABSENT


class _Repeated:
    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not list or not data:
            return False
        try:
            items = list(map(self._read, data))
        except (TypeError, ValueError):
            return False
        getattr(holder, name).extend(items)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return list(getattr(holder, name)) or ABSENT


class _Doubles(_Repeated):
    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return list(map(double, getattr(holder, name))) or ABSENT


class _Any:
    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        writer.put(getattr(holder, name), data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return reader.get(getattr(holder, name)) if holder.HasField(name) else ABSENT


class Named:
    """An enum, which JSON has by its names in lower case, without what they all begin with."""

    def __init__(self, enum: Any) -> None:
        items = dict(enum.items())
        zero = next(name for name, number in items.items() if number == 0)
        prefix = zero.removesuffix("UNKNOWN")
        self._what = enum.DESCRIPTOR.name
        self._numbers = {
            name.removeprefix(prefix).lower(): number for name, number in items.items()
        }
        self._names = {number: name for name, number in self._numbers.items()}

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Sets the field."""
        if type(data) is not str or data not in self._numbers:
            return False
        setattr(holder, name, self._numbers[data])
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Returns the name of what the field holds."""
        if not holder.HasField(name):
            return ABSENT
        number = getattr(holder, name)
        if number not in self._names:
            reader.newer(self._what, number)
        return self._names[number]


def _str(data: Any) -> str:
    if type(data) is not str:
        raise TypeError
    return data


def _bool(data: Any) -> bool:
    if type(data) is not bool:
        raise TypeError
    return data


def _int(data: Any) -> int:
    if type(data) is not int or data not in _INT64:
        raise TypeError
    return data


def _double(data: Any) -> float:
    if type(data) is float:
        return data
    if type(data) is dict and tuple(data) == (TAG, "v") and data[TAG] == "float":
        number = data["v"]
        if type(number) is str and number in _NOT_FINITE:
            return _NOT_FINITE[number]
    raise TypeError


STR: Kind = _Scalar(_str)
BOOL: Kind = _Scalar(_bool)
INT: Kind = _Scalar(_int)
DOUBLE: Kind = _Double(_double)
STRS: Kind = _Repeated(_str)
INTS: Kind = _Repeated(_int)
DOUBLES: Kind = _Doubles(_double)
ANY: Kind = _Any()


class Messages:
    """The messages of a conversation: each a role and its texts, or else any value."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Sets the field."""
        if type(data) is not list or not data:
            return False
        for item in data:
            message = getattr(holder, name).add()
            if not _put_texts(message, item):
                message.ClearField("llm_contents")
                writer.put(message.exact, item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Returns the messages."""
        messages = getattr(holder, name)
        return [_message(reader, message) for message in messages] or ABSENT


def _put_texts(message: pb.LLMMessage, data: Any) -> bool:
    """Writes a message in Orby's form; returns whether all of it is in there."""
    if type(data) is not dict or type(data.get("role")) is not str:
        return False
    message.role = data["role"]
    if tuple(data) != ("role", "content"):
        return False
    content = data["content"]
    if type(content) is str:
        message.llm_contents.add().text = content
        return True
    if type(content) is not list:
        return False
    for part in content:
        if type(part) is not dict or tuple(part) != ("type", "text"):
            return False
        if part["type"] != "text" or type(part["text"]) is not str:
            return False
        message.llm_contents.add().text = part["text"]
    message.content_is_list = True
    return True


def _message(reader: ValueReader, message: pb.LLMMessage) -> Any:
    if message.HasField("exact"):
        return reader.get(message.exact)
    texts = []
    for part in message.llm_contents:
        if part.WhichOneof("content") != "text":
            reader.corrupt("a model's message holds an image by its URL alone")
        texts.append(part.text)
    if message.content_is_list:
        content: Any = [{"type": "text", "text": text} for text in texts]
    elif len(texts) == 1:
        content = texts[0]
    else:
        reader.corrupt("a model's message has not one text")
    return {"role": message.role, "content": content}
