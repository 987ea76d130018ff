"""What of a step stands in Orby's fields alone, and how the step's values refer to it.

Text of a browser's observation that Orby has a field for is there, and so is an action that is a
string. The value itself then says only where: so nothing stands twice.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from webtraj.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf.kinds import ABSENT
from webtraj.store.protobuf.value_reading import ValueReader
from webtraj.store.protobuf.value_writing import ValueWriter
from webtraj.store.values import TAG

__all__ = ["ActionKind", "ObservationKind"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    number: int
    field: str
    of_state: bool = False
    """Whether it is the web state's own, and not of its BrowserGymObservation."""
    json: bool = False

    def holder(self, action: pb.ActionData) -> Any:
        state = action.after_state
        return state if self.of_state else state.browser_gym_observation

    def take(self, action: pb.ActionData, data: Any) -> bool:
        """Puts a value there; returns whether it could."""
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
            return False  # It would be no plain JSON to others.
        setattr(self.holder(action), self.field, text)
        return True

    def give(self, action: pb.ActionData, reader: ValueReader) -> Any:
        """Returns the value there."""
        holder = self.holder(action)
        if not holder.HasField(self.field):
            reader.corrupt(f"a value stands in the field {self.field}, which is not set")
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


class ObservationKind:
    """A step's observation. The holder is its ActionData."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Sets the field."""
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
                writer.put(entry, item, 1)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Returns the observation."""
        if not holder.webtraj.HasField(name):
            return ABSENT
        message = getattr(holder.webtraj, name)
        if message.WhichOneof("kind") != "map_value":
            return reader.get(message)
        values = []
        used: set[int] = set()
        for entry in message.map_value.values:
            if entry.WhichOneof("kind") != "place":
                values.append(reader.get(entry))
                continue
            place = _BY_NUMBER.get(entry.place)
            if place is None:
                reader.newer("place", entry.place)
            # Else many short values could stand for one that is long.
            if place.number in used:
                reader.corrupt(f"two values stand in the field {place.field}")
            used.add(place.number)
            values.append(place.give(holder, reader))
        return reader.pairs(list(message.map_value.keys), values)


class ActionKind:
    """A step's action. The holder is its ActionData."""

    def put(self, writer: ValueWriter, holder: Any, name: str, data: Any) -> bool:
        """Sets the field."""
        message = getattr(holder.webtraj, name)
        # The first action's string is taken: it is always START_OF_TRAJECTORY.
        if type(data) is str and data and not holder.browser_gym_action.action_string:
            holder.browser_gym_action.action_string = data
            message.place = pb.PLACE_ACTION_STRING
        else:
            writer.put(message, data)
        return True

    def get(self, reader: ValueReader, holder: Any, name: str) -> Any:
        """Returns the action."""
        if not holder.webtraj.HasField(name):
            return ABSENT
        message = getattr(holder.webtraj, name)
        if message.WhichOneof("kind") != "place":
            return reader.get(message)
        if message.place != pb.PLACE_ACTION_STRING:
            reader.newer("place of an action", message.place)
        return holder.browser_gym_action.action_string
