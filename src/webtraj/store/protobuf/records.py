"""The records of `webtraj.trajectory` as messages.

A record's fields are fields of one message, or of two if Orby has a message for part of it. Each
kind of field accepts only data that it can restore exactly. All other data goes to the record's
extra fields. So does the order of keys, if it is unusual.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf.values import ValueReader, ValueWriter, double
from webtraj.store.values import TAG
from webtraj.trajectory import (
    Decision,
    Derivation,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    ErrorInfo,
    FailedAttempt,
    Judgement,
    ModelCall,
    Outcome,
    Phase,
    StepRecord,
    StepType,
)

__all__ = ["START_OF_TRAJECTORY", "get_episode", "put_episode"]

_ABSENT: Any = object()
"""The value of an unset field."""

_INT64 = range(-(2**63), 2**63)
_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class _Kind(Protocol):
    """A kind of field. `holder` is the message that has the field, called `name` there."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Set the field; return whether it accepted the data."""

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Return the field's JSON data; _ABSENT if it is not set."""


class _Scalar:
    def __init__(
        self, read: Callable[[Any], Any], shown: Callable[[Any], Any] = lambda value: value
    ) -> None:
        self._read = read  # Raises ValueError or TypeError if the data does not fit.
        self._shown = shown

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        try:
            setattr(holder, name, self._read(data))
        except (TypeError, ValueError):
            return False
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return self._shown(getattr(holder, name)) if holder.HasField(name) else _ABSENT


class _Repeated(_Scalar):
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
        return list(map(self._shown, getattr(holder, name))) or _ABSENT


class _Any:
    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        writer.put(getattr(holder, name), data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return reader.get(getattr(holder, name)) if holder.HasField(name) else _ABSENT


class _Named:
    """An enum. In JSON, its names are in lower case, without their common prefix."""

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
        """Set the field."""
        if type(data) is not str or data not in self._numbers:
            return False
        setattr(holder, name, self._numbers[data])
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Return the name of the enum member that the field holds."""
        if not holder.HasField(name):
            return _ABSENT
        number = getattr(holder, name)
        if number not in self._names:
            reader.newer(self._what, number)
        return self._names[number]


def _exactly(cls: type) -> Callable[[Any], Any]:
    def read(data: Any) -> Any:
        if type(data) is not cls:
            raise TypeError
        return data

    return read


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


_ANY = _Any()
_SCALARS: dict[Any, _Kind] = {
    str: _Scalar(_exactly(str)),
    bool: _Scalar(_exactly(bool)),
    int: _Scalar(_int),
    float: _Scalar(_double, double),
}
_LISTS: dict[Any, _Kind] = {
    str: _Repeated(_exactly(str)),
    int: _Repeated(_int),
    float: _Repeated(_double, double),
}


class _Messages:
    """The messages of a conversation. Each is a role and its texts, or any other value."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Set the field."""
        if type(data) is not list or not data:
            return False
        for item in data:
            message = getattr(holder, name).add()
            if not _put_texts(message, item):
                message.ClearField("llm_contents")
                writer.put(message.exact, item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Return the messages."""
        messages = getattr(holder, name)
        return [_message(reader, message) for message in messages] or _ABSENT


def _put_texts(message: pb.LLMMessage, data: Any) -> bool:
    """Write a message in Orby's form; return whether this form holds all of the message."""
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


# Places. Text of a browser's observation that Orby has a field for is stored only there, and so is
# an action that is a string. The value itself only refers to the place.


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    number: int
    field: str
    of_state: bool = False
    """Whether the field belongs to the web state, and not to its BrowserGymObservation."""
    json: bool = False

    def holder(self, action: pb.ActionData) -> Any:
        state = action.after_state
        return state if self.of_state else state.browser_gym_observation

    def take(self, action: pb.ActionData, data: Any) -> bool:
        """Put a value there; return whether it could."""
        if self.holder(action).HasField(self.field):
            return False
        if not self.json:
            if type(data) is not str:
                return False
            setattr(self.holder(action), self.field, data)
            return True
        if type(data) not in (dict, list):
            return False
        text = orjson.dumps(data)
        if b'"$"' in text:
            return False  # Other readers could not parse it as plain JSON.
        setattr(self.holder(action), self.field, text)
        return True

    def give(self, action: pb.ActionData, reader: ValueReader) -> Any:
        """Return the value there."""
        holder = self.holder(action)
        if not holder.HasField(self.field):
            reader.corrupt(f"a value refers to the field {self.field}, which is not set")
        value = getattr(holder, self.field)
        return reader.get_json(value) if self.json else value


_URL = _Place(pb.PLACE_URL, "url", of_state=True)
_GOAL = _Place(pb.PLACE_LEGACY_GOAL, "legacy_goal")
_FOCUSED = _Place(pb.PLACE_FOCUSED_ELEMENT_BID, "focused_element_bid")
_LAST_ACTION = _Place(pb.PLACE_LAST_ACTION, "last_action")
_LAST_ACTION_ERROR = _Place(pb.PLACE_LAST_ACTION_ERROR, "last_action_error")
_DOM = _Place(pb.PLACE_DOM, "dom", json=True)
_AXTREE = _Place(pb.PLACE_AXTREE, "axtree", json=True)
_PROPERTIES = _Place(
    pb.PLACE_EXTRA_ELEMENT_PROPERTIES, "extra_element_properties", json=True
)  # fmt: skip

# By the keys of webtraj's own observations and of BrowserGym's.
_BY_KEY = {
    "url": _URL,
    "goal": _GOAL,
    "focused": _FOCUSED,
    "focused_element_bid": _FOCUSED,
    "last_action": _LAST_ACTION,
    "last_action_error": _LAST_ACTION_ERROR,
    "dom_object": _DOM,
    "axtree_object": _AXTREE,
    "extra_element_properties": _PROPERTIES,
}
_BY_NUMBER = {place.number: place for place in _BY_KEY.values()}


class _ObservationKind:
    """A step's observation. The holder is its ActionData."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Set the field."""
        message = getattr(holder.webtraj, name)
        if type(data) is not dict or TAG in data:
            writer.put(message, data)
            return True
        entries = message.map_value
        entries.SetInParent()
        entries.keys.extend(data)
        for key, item in data.items():
            place = _BY_KEY.get(key)
            entry = entries.values.add()
            if place is not None and place.take(holder, item):
                entry.place = place.number
            else:
                writer.put(entry, item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Return the observation."""
        if not holder.webtraj.HasField(name):
            return _ABSENT
        message = getattr(holder.webtraj, name)
        if message.WhichOneof("kind") != "map_value":
            return reader.get(message)
        values = []
        used: set[int] = set()
        for entry in message.map_value.values:
            if content := entry.json_value:
                values.append(reader.get_json(content))
                continue
            if entry.WhichOneof("kind") != "place":
                values.append(reader.get(entry))
                continue
            place = _BY_NUMBER.get(entry.place)
            if place is None:
                reader.newer("place", entry.place)
            # Otherwise many short values could refer to one long text.
            if place.number in used:
                reader.corrupt(f"two values refer to the field {place.field}")
            used.add(place.number)
            values.append(place.give(holder, reader))
        return reader.pairs(list(message.map_value.keys), values)


class _ActionKind:
    """A step's action. The holder is its ActionData."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Set the field."""
        message = getattr(holder.webtraj, name)
        # The first action's string is not free: it is always START_OF_TRAJECTORY.
        if type(data) is str and data and not holder.browser_gym_action.action_string:
            holder.browser_gym_action.action_string = data
            message.place = pb.PLACE_ACTION_STRING
        else:
            writer.put(message, data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Return the action."""
        if not holder.webtraj.HasField(name):
            return _ABSENT
        message = getattr(holder.webtraj, name)
        if message.WhichOneof("kind") != "place":
            return reader.get(message)
        if message.place != pb.PLACE_ACTION_STRING:
            reader.newer("place of an action", message.place)
        return holder.browser_gym_action.action_string


START_OF_TRAJECTORY = "START_OF_TRAJECTORY"


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    key: str
    kind: _Kind
    holder: tuple[str, ...] = ()
    """The path from the root to the message that has the field."""
    name: str = ""
    """The field's name there, if it differs from the key."""


class _Record:
    """The mapping of one record's data to its messages."""

    def __init__(self, home: tuple[str, ...], *fields: _Field) -> None:
        """Initialize the record.

        Args:
            home: The path from the root to the message that has the extra fields.
            *fields: The record's fields, in the order of its class.
        """
        self.home = home
        self.fields = {field.key: field for field in fields}

    def put(self, writer: ValueWriter, root: Any, data: Mapping[str, Any]) -> None:
        """Write the data of a record."""
        home = _follow(root, self.home)
        home.SetInParent()
        for key, item in data.items():
            field = self.fields.get(key)
            if field is not None:
                holder = _follow(root, field.holder)
                if field.kind.put(writer, holder, field.name or key, item):
                    continue
            home.extra.keys.append(key)
            writer.put(home.extra.values.add(), item)
        keys = list(data)
        if keys != self._in_order(data):
            home.extra.order.extend(keys)

    def get(self, reader: ValueReader, root: Any) -> dict[str, Any]:
        """Return the data of a record."""
        data = {}
        home = _follow(root, self.home)
        for key, field in self.fields.items():
            holder = home if field.holder == self.home else _follow(root, field.holder)
            item = field.kind.get(reader, holder, field.name or key)
            if item is not _ABSENT:
                data[key] = item
        if not home.HasField("extra"):
            return data
        data.update(reader.get_map(home.extra))
        keys = list(home.extra.order) or self._in_order(data)
        if len(keys) != len(data) or data.keys() != set(keys):
            reader.corrupt("the order of a record's fields does not list each of them once")
        return {key: data[key] for key in keys}

    def _in_order(self, data: Mapping[str, Any]) -> list[str]:
        known = [key for key in self.fields if key in data]
        return known + [key for key in data if key not in self.fields]


class _One:
    """A field that is a record. Its root is the field's message, or the field's own root."""

    def __init__(self, record: _Record, *, own_root: bool = False) -> None:
        self._record = record
        self._own_root = own_root

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not dict:
            return False
        root = holder if self._own_root else getattr(holder, name)
        if not self._own_root:
            root.SetInParent()
        self._record.put(writer, root, data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        if self._own_root:
            return self._record.get(reader, holder)
        if not holder.HasField(name):
            return _ABSENT
        return self._record.get(reader, getattr(holder, name))


class _Many:
    """A field that is a list of records."""

    def __init__(self, record: _Record) -> None:
        self._record = record

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not list or not data or not all(type(item) is dict for item in data):
            return False
        for item in data:
            self._record.put(writer, getattr(holder, name).add(), item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return [self._record.get(reader, root) for root in getattr(holder, name)] or _ABSENT


class _Steps(_Many):
    """The steps of an episode: present even if there are none."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not list or not all(type(item) is dict for item in data):
            raise TypeError("the steps are not a list of objects")
        for position, item in enumerate(data):
            action = holder.actions.add()
            if position == 0:
                action.browser_gym_action.action_string = START_OF_TRAJECTORY
            self._record.put(writer, action, item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return [self._record.get(reader, action) for action in holder.actions]


class _Version:
    """The version of the schema, which is always present."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not int or data < 1:
            raise TypeError(f"the schema version is {data!r:.100}")
        setattr(holder, name, data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return getattr(holder, name)


# Records are declared by their classes: their fields with types and order.

_RECORDS: dict[Any, _Record] = {}
_ENUMS = {
    EndReason: pb.EndReason,
    Outcome: pb.Outcome,
    Phase: pb.Phase,
    StepType: pb.StepType,
}


def _declare(
    cls: type,
    home: tuple[str, ...] = (),
    orby: Mapping[str, str] = types.MappingProxyType({}),
    **kinds: _Kind,
) -> None:
    """Declare how the data of a class of records maps to its messages.

    Args:
        cls: The class.
        home: The path from the root to the message of webtraj's own fields.
        orby: The fields that are in Orby's message (the root), with their names in it.
        **kinds: The kinds of fields that the annotations do not determine.
    """
    hints = typing.get_type_hints(cls)
    _RECORDS[cls] = _Record(
        home,
        *(
            _Field(
                field.name,
                kinds.get(field.name) or _kind(hints[field.name]),
                () if field.name in orby else home,
                orby.get(field.name, ""),
            )
            for field in dataclasses.fields(cls)
        ),
    )


def _kind(hint: Any) -> _Kind:
    """Return the kind of field for an annotation."""
    origin = typing.get_origin(hint)
    if origin is Mapping:
        return _ANY
    of = next((part for part in typing.get_args(hint) if part is not type(None)), hint)
    if of in _ENUMS:
        return _Named(_ENUMS[of])
    if of in _RECORDS:
        return _Many(_RECORDS[of]) if origin is tuple else _One(_RECORDS[of])
    return (_LISTS if origin is tuple else _SCALARS).get(of, _ANY)


_OWN = ("webtraj",)

_declare(FailedAttempt)
_declare(
    ModelCall,
    _OWN,
    {"model": "model_name", "provider": "model_family", "messages": "llm_messages",
     "text": "response"},
    messages=_Messages(),
)  # fmt: skip
_declare(Decision, _OWN, {"memory": "memory", "model_calls": "llm_interactions"})
_declare(ErrorInfo)
_declare(Judgement)
_declare(Derivation)
_declare(EpisodeEnd)
_declare(EpisodeInfo, ("webtraj", "info"), {"goal": "goal", "site": "domain"})
_declare(
    StepRecord,
    _OWN,
    {"observation": "observation", "action": "action", "decision": "agent_state"},
    observation=_ObservationKind(),
    action=_ActionKind(),
)
_EPISODE = _Record(
    _OWN,
    _Field("schema_version", _Version(), _OWN),
    _Field("info", _One(_RECORDS[EpisodeInfo], own_root=True)),
    _Field("start_time", _SCALARS[float], _OWN),
    _Field("end_time", _SCALARS[float], _OWN),
    _Field("steps", _Steps(_RECORDS[StepRecord])),
    _Field("end", _One(_RECORDS[EpisodeEnd]), _OWN),
)


def put_episode(writer: ValueWriter, message: pb.TrajectoryData, data: Mapping[str, Any]) -> None:
    """Write an episode's data, without its blobs.

    Raises:
        TypeError, ValueError: It is not an episode's data.
    """
    if type(data["info"]) is not dict:
        raise TypeError("the info is not an object")
    _EPISODE.put(writer, message, data)


def get_episode(reader: ValueReader, message: pb.TrajectoryData) -> dict[str, Any]:
    """Return an episode's data.

    Raises:
        CorruptDataError: It does not follow the schema.
        UnsupportedSchemaError: An enum has a value that this version does not know.
    """
    return _EPISODE.get(reader, message)


def _follow(root: Any, way: tuple[str, ...]) -> Any:
    for name in way:
        root = getattr(root, name)
    return root
