"""The records of `webtraj.trajectory` as messages.

A record's fields are fields of one message, or of two where Orby has one for part of it: the
`holder` says which, from the record's root. What a message cannot hold exactly is among the
record's extra fields, and so is its order of keys where that is not the usual one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf import kinds, places
from webtraj.store.protobuf.kinds import ABSENT, ANY, BOOL, DOUBLE, DOUBLES, INT, INTS, STR, STRS
from webtraj.store.protobuf.value_reading import ValueReader
from webtraj.store.protobuf.value_writing import ValueWriter

__all__ = ["START_OF_TRAJECTORY", "get_episode", "put_episode"]

START_OF_TRAJECTORY = "START_OF_TRAJECTORY"


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    key: str
    kind: kinds.Kind
    holder: tuple[str, ...] = ()
    """The way from the root to the message that has the field."""
    name: str = ""
    """The field's name there, unless it is the key."""


class _Record:
    """How the data of one record lies in its messages."""

    def __init__(self, home: tuple[str, ...], *fields: _Field) -> None:
        """Initializes the record.

        Args:
            home: The way from the root to the message that has the extra fields.
            *fields: Its fields, in the order of its class.
        """
        self.home = home
        self.fields = {field.key: field for field in fields}

    def put(self, writer: ValueWriter, root: Any, data: Mapping[str, Any]) -> None:
        """Writes the data of a record."""
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
        """Returns the data of a record."""
        data = {}
        for key, field in self.fields.items():
            holder = _follow(root, field.holder)
            item = field.kind.get(reader, holder, field.name or key)
            if item is not ABSENT:
                data[key] = item
        home = _follow(root, self.home)
        if not home.HasField("extra"):
            return data
        data.update(reader.get_map(home.extra))
        keys = list(home.extra.order) or self._in_order(data)
        if len(keys) != len(data) or data.keys() != set(keys):
            reader.corrupt("the order of a record's fields does not name each of them once")
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
            return ABSENT
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
        return [self._record.get(reader, root) for root in getattr(holder, name)] or ABSENT


class _Steps(_Many):
    """The steps of an episode: there even if there are none."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not list or not all(type(item) is dict for item in data):
            raise TypeError("the steps are no list of objects")
        for position, item in enumerate(data):
            action = holder.actions.add()
            if position == 0:
                action.browser_gym_action.action_string = START_OF_TRAJECTORY
            self._record.put(writer, action, item)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return [self._record.get(reader, action) for action in holder.actions]


class _Version:
    """The version of the schema, which is always there."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        if type(data) is not int or data < 1:
            raise TypeError(f"the schema version is {data!r:.100}")
        setattr(holder, name, data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        return getattr(holder, name)


_OWN = ("webtraj",)

_MODEL_CALL = _Record(
    _OWN,
    _Field("model", STR, name="model_name"),
    _Field("provider", STR, name="model_family"),
    _Field("policy_version", STR, _OWN),
    _Field("messages", kinds.Messages(), name="llm_messages"),
    _Field("sampling", ANY, _OWN),
    _Field("response", ANY, _OWN),
    _Field("text", STR, name="response"),
    _Field("finish_reason", STR, _OWN),
    _Field("usage", ANY, _OWN),
    _Field("prompt_token_ids", INTS, _OWN),
    _Field("completion_token_ids", INTS, _OWN),
    _Field("logprobs", DOUBLES, _OWN),
    _Field("start_time", DOUBLE, _OWN),
    _Field("latency", DOUBLE, _OWN),
    _Field("error", STR, _OWN),
)
_DECISION = _Record(
    _OWN,
    _Field("action", ANY, _OWN),
    _Field("thought", STR, _OWN),
    _Field("memory", STR),
    _Field("parse_error", STR, _OWN),
    _Field("model_calls", _Many(_MODEL_CALL), name="llm_interactions"),
    _Field("metadata", ANY, _OWN),
)
_STEP = _Record(
    _OWN,
    _Field("index", INT, _OWN),
    _Field("step_type", kinds.Named(pb.StepType), _OWN),
    _Field("observation", places.ObservationKind()),
    _Field("action", places.ActionKind()),
    _Field("reward", ANY, _OWN),
    _Field("discount", ANY, _OWN),
    _Field("start_time", DOUBLE, _OWN),
    _Field("end_time", DOUBLE, _OWN),
    _Field("decision", _One(_DECISION), name="agent_state"),
    _Field("ignored_action", ANY, _OWN),
)
_ERROR = _Record((), _Field("type", STR), _Field("message", STR), _Field("traceback", STR))
_JUDGEMENT = _Record(
    (),
    _Field("judge", STR),
    _Field("version", STR),
    _Field("outcome", kinds.Named(pb.Outcome)),
    _Field("reward", DOUBLE),
    _Field("reason", STR),
    _Field("findings", ANY),
    _Field("model_calls", _Many(_MODEL_CALL)),
    _Field("time", DOUBLE),
)
_DERIVATION = _Record(
    (),
    _Field("step", STR),
    _Field("version", STR),
    _Field("software", STR),
    _Field("settings", ANY),
    _Field("model", STR),
    _Field("prompt_sha256", STR),
    _Field("source", STR),
    _Field("source_episode_id", STR),
    _Field("source_sha256", STR),
    _Field("changes", ANY),
)
_END = _Record(
    (),
    _Field("reason", kinds.Named(pb.EndReason)),
    _Field("phase", kinds.Named(pb.Phase)),
    _Field("detail", STR),
    _Field("error", _One(_ERROR)),
    _Field("action_in_flight", BOOL),
    _Field("in_flight_action", ANY),
    _Field("in_flight_decision", _One(_DECISION)),
    _Field("outcome", kinds.Named(pb.Outcome)),
    _Field("violations", STRS),
    _Field("recording_errors", STRS),
    _Field("judgements", _Many(_JUDGEMENT)),
)
_INFO_HOME = ("webtraj", "info")
_INFO = _Record(
    _INFO_HOME,
    _Field("episode_id", STR, _INFO_HOME),
    _Field("task", STR, _INFO_HOME),
    _Field("goal", STR),
    _Field("site", STR, name="domain"),
    _Field("seed", INT, _INFO_HOME),
    _Field("environment", STR, _INFO_HOME),
    _Field("versions", ANY, _INFO_HOME),
    _Field("policy", STR, _INFO_HOME),
    _Field("group_id", STR, _INFO_HOME),
    _Field("attempt", INT, _INFO_HOME),
    _Field("parent_episode_id", STR, _INFO_HOME),
    _Field("retry_of", STR, _INFO_HOME),
    _Field("metadata", ANY, _INFO_HOME),
    _Field("derivation", _Many(_DERIVATION), _INFO_HOME),
)
_EPISODE = _Record(
    _OWN,
    _Field("schema_version", _Version(), _OWN),
    _Field("info", _One(_INFO, own_root=True)),
    _Field("start_time", DOUBLE, _OWN),
    _Field("end_time", DOUBLE, _OWN),
    _Field("steps", _Steps(_STEP)),
    _Field("end", _One(_END), _OWN),
)


def put_episode(writer: ValueWriter, message: pb.TrajectoryData, data: Mapping[str, Any]) -> None:
    """Writes an episode's data, all but its blobs.

    Raises:
        TypeError, ValueError: It is no episode's data.
    """
    if type(data["info"]) is not dict:
        raise TypeError("the info is no object")
    _EPISODE.put(writer, message, data)


def get_episode(reader: ValueReader, message: pb.TrajectoryData) -> dict[str, Any]:
    """Returns an episode's data.

    Raises:
        CorruptDataError: It does not follow the schema.
        UnsupportedSchemaError: An enum has a value that this version does not know.
    """
    return _EPISODE.get(reader, message)


def _follow(root: Any, way: tuple[str, ...]) -> Any:
    for name in way:
        root = getattr(root, name)
    return root
