"""Reading of trajectories by Orby's own collector.

Orby's messages are read by field name, since the field numbers are not public. So give the schema
with which the files were written. Without it, webtraj's schema is used, which has the same names
but most likely other numbers.

A file may store the state before each action, the state after it, or both; a missing state is taken
from the neighboring action. Fields without an equivalent in webtraj's records are kept under
"orby".

Orby's `success` is the agent's own claim. It counts only if a positive reward of the environment
confirms it; the original value is in the info's metadata.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, MutableSequence
from typing import Any

import orjson
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
from webtraj.store import records
from webtraj.store.layout import unreadable
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf import codec
from webtraj.store.protobuf.codec import decode_message
from webtraj.store.protobuf.records import START_OF_TRAJECTORY
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)

__all__ = ["read_orby"]

# Messages of a schema known only at run time, as plain data.

_WELL_KNOWN = (duration_pb2, timestamp_pb2)


def _message_class(descriptor_set: bytes, name: str) -> type[Any]:
    """Return the class of the message called `name`, in any package.

    Args:
        descriptor_set: A serialized FileDescriptorSet, as written by `protoc --include_imports
            --descriptor_set_out`.
        name: The message's name, without its package.

    Raises:
        InvalidInputError: It is not such a set, or does not have exactly one such message.
    """
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
        pool = descriptor_pool.DescriptorPool()
        given = {file.name for file in files}
        for module in _WELL_KNOWN:
            if module.DESCRIPTOR.name not in given:
                pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        found = []
        for file in files:  # protoc writes them in import order.
            pool.AddSerializedFile(file.SerializeToString())
            if any(message.name == name for message in file.message_type):
                found.append(f"{file.package}.{name}".lstrip("."))
        if len(found) == 1:
            cls: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(found[0]))
            return cls
    except (DecodeError, TypeError, KeyError, ValueError) as error:
        raise errors.InvalidInputError(
            f"Cannot use the descriptor set: {error!r:.300}. Create it from the schema with "
            "`protoc --include_imports --descriptor_set_out=FILE`."
        ) from error
    raise errors.InvalidInputError(
        f"The descriptor set has {len(found)} messages named {name}; expected one. Create it from "
        "the schema that the files were written with."
    )


def _plain(message: Any) -> dict[str, Any]:
    """Return a message's set fields, by name, as plain data.

    Enums are given by name, or as numbers if they have none. Fields that are not in the schema are
    left out: see `_has_unknown_fields`.
    """
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def _has_unknown_fields(message: Any) -> bool:
    """Return whether any part of a message is not in its schema."""
    if len(UnknownFieldSet(message)):
        return True
    return any(
        _has_unknown_fields(item)
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
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field of a map's values; None if the field is not a map."""
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return None
    return message.fields_by_name["value"]


_MAGIC = {b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ": "xz"}
# Reasons of failure, as ends and outcomes.
_FAILURES = {
    "MAX_STEPS_EXCEEDED": (EndReason.TRUNCATED, Outcome.FAILURE),
    "REPETITIVE_ACTIONS": (EndReason.TRUNCATED, Outcome.FAILURE),
    "REPORT_INFEASIBLE": (EndReason.TRUNCATED, Outcome.FAILURE),
}
_JSON_FIELDS = {
    "dom": "dom_object",
    "axtree": "axtree_object",
    "extra_element_properties": "extra_element_properties",
}


def read_orby(
    content: bytes,
    where: str,
    *,
    descriptor_set: bytes | None = None,
    max_size: int | None = None,
) -> EpisodeTrajectory:
    """Return the episode in a file of Orby's collector.

    The episode's id is derived from the content, so the same file always gives the same id.

    Args:
        content: The bytes of a `.pb`, `.pb.xz` or `.pb.zst` file.
        where: The file's name in errors.
        descriptor_set: The schema as a serialized FileDescriptorSet, as written by `protoc
            --include_imports --descriptor_set_out`; None for webtraj's. With webtraj's schema, a
            file that webtraj wrote is read exactly as it was recorded.
        max_size: The maximum decompressed size in bytes; None for the usual limit, which a long
            episode on one page may exceed.

    Raises:
        CorruptDataError: The file cannot be read with this schema, or at all.
        InvalidInputError: The descriptor set is invalid, or has no TrajectoryData.
        UnsupportedSchemaError: The file was written by a newer webtraj.
    """
    kind = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), "")
    data = codec.decompress(content, kind, where, max_size=max_size)
    cls: type[Any] = pb.TrajectoryData
    if descriptor_set is not None:
        cls = _message_class(descriptor_set, "TrajectoryData")
    try:
        message = cls.FromString(data)
    except (DecodeError, ValueError, RecursionError, MemoryError) as error:
        raise _unreadable(where, descriptor_set, repr(error)) from error
    if descriptor_set is None:
        if message.HasField("webtraj"):
            stored = decode_message(message, where)
            return records.decode_record(EpisodeTrajectory, stored.data, stored.blobs)
        if _has_unknown_fields(message):
            raise _unreadable(where, descriptor_set, "it has fields of other numbers")
    found = _plain(message)
    if not found:
        raise _unreadable(where, descriptor_set, "it holds nothing")
    try:
        return _episode(found, hashlib.sha256(data).hexdigest())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unreadable(where, error) from error


def _unreadable(where: str, descriptor_set: bytes | None, why: str) -> errors.CorruptDataError:
    hint = "Was it written with this schema?"
    if descriptor_set is None:
        hint = (
            "Orby's field numbers are not public: give the schema that it was written with, as "
            "descriptor_set."
        )
    return errors.CorruptDataError(f"{where!r} is not a readable trajectory: {why:.300}. {hint}")


def _episode(found: dict[str, Any], digest: str) -> EpisodeTrajectory:
    actions = found.pop("actions", [])
    result: dict[str, Any] = {key: found.pop(key) for key in ("success", "failure") if key in found}
    taken = list(_states(actions))
    steps = tuple(
        _step(index, action, state, final=index == len(taken) - 1)
        for index, (action, state) in enumerate(taken)
    )
    metadata: dict[str, Any] = {"source": "orby", "result": result}
    info = EpisodeInfo(
        episode_id=f"orby-{digest[:32]}",
        goal=found.pop("goal", ""),
        site=found.pop("domain", ""),
        environment="BrowserGym",
        metadata={**metadata, "orby": found} if found else metadata,
    )
    return EpisodeTrajectory(info, steps, _end(result, steps))


def _states(
    actions: list[dict[str, Any]],
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each action with the state that it led to. The reset has an empty action."""
    befores = [action.pop("before_state", None) for action in actions]
    afters = [action.pop("after_state", None) for action in actions]
    starts = bool(actions) and _string(actions[0]) == START_OF_TRAJECTORY
    led_to = [
        after or before or {} for after, before in zip(afters, [*befores[1:], None], strict=False)
    ]
    if starts:
        actions[0].pop("browser_gym_action")
        led_to[0] = led_to[0] or befores[0] or {}
    elif actions:
        yield {}, dict(befores[0] or {})
    came_before = [led_to[0] if starts else befores[0], *led_to] if actions else []
    for action, before, known, state in zip(actions, befores, came_before, led_to, strict=False):
        if before and before != known:
            action["before_state"] = before  # The last action did not lead to it.
        yield action, dict(state)


def _string(action: Mapping[str, Any]) -> str:
    return str(action.get("browser_gym_action", {}).get("action_string", ""))


def _step(index: int, action: dict[str, Any], state: dict[str, Any], *, final: bool) -> StepRecord:
    gym = state.pop("browser_gym_observation", None)
    reward = None if gym is None else gym.pop("reward", 0.0)
    gym = gym or {}
    terminated, truncated = gym.pop("terminated", False), gym.pop("truncated", False)
    observation = _observation(state, gym)
    if index == 0:  # Orby's value here is not a reward.
        if reward:
            action["reward"] = reward
        return StepRecord(0, StepType.FIRST, observation, decision=_decision(None, action))
    made: Any = _string(action) or action.get("action")
    action.pop("browser_gym_action" if _string(action) else "action", None)
    return StepRecord(
        index,
        StepType.LAST if final and (terminated or truncated) else StepType.MID,
        observation,
        made,
        reward,
        0.0 if terminated else 1.0,
        decision=_decision(made, action),
    )


def _observation(state: dict[str, Any], gym: dict[str, Any]) -> dict[str, Any]:
    """Return an observation with BrowserGym's keys."""
    observation: dict[str, Any] = {"url": state.pop("url", "")}
    viewport = state.pop("viewport", {})
    screenshot = viewport.pop("screenshot", {})
    if "content" in screenshot:
        observation["screenshot"] = screenshot.pop("content")
    if "legacy_goal" in gym:
        observation["goal"] = gym.pop("legacy_goal")
    for name, key in _JSON_FIELDS.items():
        if name in gym:
            observation[key] = _parse(gym.pop(name))
    for name in ("open_pages_urls", "focused_element_bid", "last_action", "last_action_error"):
        if name in gym:
            observation[name] = gym.pop(name)
    if "open_pages_urls" in observation or "active_page_index" in gym:
        observation["active_page_index"] = gym.pop("active_page_index", 0)
    if "chat_messages" in gym:
        observation["chat_messages"] = [_with_seconds(each) for each in gym.pop("chat_messages")]
    if "goals" in gym:
        observation["goal_object"] = [_content(each) for each in gym.pop("goals")]
    if "elapsed_time" in gym:
        observation["elapsed_time"] = _seconds(gym.pop("elapsed_time"))
    rest = {**state, "viewport": viewport, "screenshot": screenshot, **gym}
    rest = {key: value for key, value in rest.items() if value not in ({}, [])}
    return {**observation, "orby": rest} if rest else observation


def _parse(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # Malformed, but recorded like this.
        return text


def _with_seconds(message: dict[str, Any]) -> dict[str, Any]:
    return {key: _seconds(value) if key == "timestamp" else value for key, value in message.items()}


def _seconds(time: Any) -> Any:
    if not isinstance(time, dict):
        return time
    return float(time.get("seconds", 0) + time.get("nanos", 0) / 1e9)


def _decision(action: Any, found: dict[str, Any]) -> Decision | None:
    state = dict(found.pop("agent_state", {}))
    calls = tuple(_model_call(each) for each in state.pop("llm_interactions", []))
    memory = state.pop("memory", "")
    metadata = {**state, "orby": found} if found else state
    if not (calls or memory or metadata):
        return None
    return Decision(action=action, memory=memory, model_calls=calls, metadata=metadata)


def _model_call(found: dict[str, Any]) -> ModelCall:
    messages = tuple(
        {
            "role": message.get("role", ""),
            "content": [_content(part) for part in message.get("llm_contents", [])],
        }
        for message in found.pop("llm_messages", [])
    )
    response = found.pop("response", "")
    text = response if isinstance(response, str) else ""
    call = ModelCall(
        model=found.pop("model_name", ""),
        provider=found.pop("model_family", ""),
        messages=messages,
        text=text,
        response=None if text == response else response,
    )
    return (
        dataclasses.replace(call, response={"orby": found, "response": response}) if found else call
    )


def _content(part: dict[str, Any]) -> dict[str, Any]:
    if "image_url" in part:
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return {"type": "text", "text": part.get("text", "")}


def _end(result: Mapping[str, Any], steps: tuple[StepRecord, ...]) -> EpisodeEnd:
    rewarded = any(isinstance(s.reward, (int, float)) and s.reward > 0 for s in steps)
    reason, outcome, detail = EndReason.CLOSED, Outcome.UNKNOWN, "the file tells no result"
    if "success" in result:
        # The run loop stopped since the agent said so.
        reason, detail = EndReason.TRUNCATED, "the agent claimed success"
        outcome = Outcome.SUCCESS if rewarded else Outcome.UNKNOWN
    elif "failure" in result:
        failure = result["failure"]
        detail = str(
            failure.get("failure_message") or failure.get("reason") or "an unnamed failure"
        )
        reason, outcome = _FAILURES.get(detail, (reason, outcome))
        outcome = Outcome.UNKNOWN if rewarded else outcome
    if steps and steps[-1].last:
        reason = EndReason.TRUNCATED if steps[-1].discount else EndReason.TERMINATED
    return EpisodeEnd(reason=reason, detail=detail, outcome=outcome)
