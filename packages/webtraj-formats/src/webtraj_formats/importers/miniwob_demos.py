"""MiniWoB++ demonstrations, as its recorder (`core/record.js`) writes them: one JSON file each.

A file holds `{"taskName", "utterance", "reward", "rawReward", "states": [...]}`. The first state is
the page before any event. Then each mouse or key event has two states, before and after the page
handled it, each with the whole DOM. `chunks` turns events into actions where an action corresponds
to them. The events, and all DOMs in between, are kept in the decision.

A step's reward is the raw one, 0 until the last step, as in webtraj's own MiniWoB++ environment.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Found, Source
from webtraj.environments import actions
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)

__all__ = ["Chunk", "chunks", "read", "recognises", "target"]

# From the mouse and key events of a demonstration to actions.
#
# A press and a release at one place are a click, at two places a drag; two clicks with a `dblclick`
# are a double click. Consecutive character keys are typed text; other keys, and any key held
# together with Control, Alt or Meta, are pressed. Events without a corresponding action (such as
# scrolling, whose distance is not recorded) go with the action before them.

_BEFORE = 1
_SAME_PLACE = 3.0
"""CSS pixels that the pointer may move between press and release of a click."""

_MODIFIERS = {16: "Shift", 17: "Control", 18: "Alt", 91: "Meta", 224: "Meta"}
_KEYS = {
    8: "Backspace", 9: "Tab", 13: "Enter", 27: "Escape", 33: "PageUp", 34: "PageDown", 35: "End",
    36: "Home", 37: "ArrowLeft", 38: "ArrowUp", 39: "ArrowRight", 40: "ArrowDown", 46: "Delete",
}  # fmt: skip
_ELEMENT = ("ref", "tag", "id", "classes", "text", "value", "left", "top", "width", "height")
_DOUBLE = ("mousedown", "mouseup", "click", "dblclick")


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """The states of one action: from its first event to just before the next action."""

    action: Any
    """The action; None if none corresponds to the events."""
    first: int
    last: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Event:
    state: int
    kind: str
    data: Mapping[str, Any]

    @property
    def point(self) -> tuple[float, float]:
        return _number(self.data.get("x")), _number(self.data.get("y"))

    @property
    def code(self) -> int:
        """The key code or character code."""
        code = self.data.get("charCode") or self.data.get("keyCode")
        return code if type(code) is int else 0


def chunks(states: Sequence[Mapping[str, Any]]) -> list[Chunk]:
    """Return a demonstration's actions, in order; together they cover all states after 0."""
    if len(states) < 2:
        return []
    found = _find_actions(_events(states)) or [(None, 1)]
    found[0] = (found[0][0], 1)  # Earlier events belong to the first action.
    ends = [first - 1 for _, first in found[1:]] + [len(states) - 1]
    return [Chunk(action, first, last) for (action, first), last in zip(found, ends, strict=True)]


def target(dom: Any) -> dict[str, Any] | None:
    """Return the fields of the element that an event targeted; None if the DOM marks none."""
    waiting = [dom]
    while waiting:
        element = waiting.pop()
        if not isinstance(element, Mapping):
            continue
        if element.get("recordingTarget"):
            return {name: element[name] for name in _ELEMENT if name in element}
        children = element.get("children")
        waiting += children if isinstance(children, list) else []
    return None


def _events(states: Sequence[Mapping[str, Any]]) -> list[_Event]:
    """Return each event once: in its state before the page handled it, if that was recorded."""
    events: list[_Event] = []
    for i, state in enumerate(states):
        data = state.get("action")
        if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
            continue
        again = events and data.get("timing") != _BEFORE and events[-1].kind == data["type"]
        if not again:
            events.append(_Event(i, data["type"], data))
    return events


def _find_actions(events: list[_Event]) -> list[tuple[Any, int]]:
    """Return the actions, each with the index of its first state."""
    found: list[tuple[Any, int]] = []
    i = 0
    while i < len(events):
        if events[i].kind == "mousedown":
            action, used = _by_mouse(events[i:])
            found.append((action, events[i].state))
            i += used
        elif events[i].kind in ("keydown", "keypress"):
            used = 1
            while i + used < len(events) and events[i + used].kind.startswith("key"):
                used += 1
            found += _by_keys(events[i : i + used])
            i += used
        else:
            i += 1
    return [(action, state) for action, state in found if action is not None]


def _by_mouse(events: list[_Event]) -> tuple[Any, int]:
    """Return the action that starts with a mouse press, and the number of its events."""
    kinds = [event.kind for event in events]
    if kinds[1:2] != ["mouseup"]:
        return _make_action(actions.MouseDown, *events[0].point), 1
    (x, y), end = events[0].point, events[1].point
    used = 3 if kinds[2:3] == ["click"] else 2
    if math.dist((x, y), end) > _SAME_PLACE:
        return _make_action(actions.DragAt, ((x, y), end)), used
    if tuple(kinds[used : used + 4]) == _DOUBLE:
        return _make_action(actions.ClickAt, x, y, count=2), used + 4
    return _make_action(actions.ClickAt, x, y), used


def _by_keys(events: list[_Event]) -> list[tuple[Any, int]]:
    found: list[tuple[Any, int]] = []
    text, began = "", 0
    held: list[str] = []
    pressed = events[0].state
    for event in events:
        key = event.data.get("keyCode")
        modifier = None
        if event.kind != "keypress" and type(key) is int:
            modifier = _MODIFIERS.get(key)
        if modifier is not None:
            held = [name for name in held if name != modifier]
            held += [modifier] if event.kind == "keydown" else []
            pressed = event.state if event.kind == "keydown" and not text else pressed
            continue
        chord = _chord(event, held)
        if event.kind == "keydown":
            pressed = event.state
        if chord is not None:
            if text:
                found.append((_make_action(actions.TypeText, text), began))
            found.append((_make_action(actions.PressKey, chord), event.state))
            text = ""
        elif event.kind == "keypress" and event.code >= 32 and not _is_command(held):
            began = began if text else pressed
            text += chr(event.code) if event.code < 0x110000 else ""
    if text:
        found.append((_make_action(actions.TypeText, text), began))
    return found


def _chord(event: _Event, held: list[str]) -> str | None:
    """Return the key chord that an event presses; None if it types a character or does nothing."""
    if event.kind != "keydown":
        return None
    key = event.data.get("keyCode")
    name = _KEYS.get(key) if type(key) is int else None
    if name is None and type(key) is int and _is_command(held) and chr(key % 128).isalnum():
        name = chr(key % 128).lower()
    return None if name is None else "+".join([*held, name])


def _is_command(held: list[str]) -> bool:
    return any(name != "Shift" for name in held)


def _make_action(verb: type[Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return verb(*args, **kwargs)
    except errors.InvalidInputError:  # Not a valid action, for example off the screen.
        return None


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else -1.0


SYSTEM = "miniwob-demos"

_KNOWN = ("taskName", "utterance", "reward", "rawReward", "states", "fields")


def recognises(path: Path) -> bool:
    """Return whether a file is a demonstration, or a folder holds any."""
    return base.any_readable(path, _is_wanted, _data)


def read(source: Source) -> Iterator[Found]:
    """Yield the episodes of a file, or of all files in a folder."""

    def read_file(path: Path, where: str) -> Iterator[Found]:
        content, data = _data(source, path)
        sha256 = base.digest(content)
        identity = base.episode_id(SYSTEM, sha256)
        imported = base.provenance(SYSTEM, where, sha256)
        yield source.already(identity, where) or _trajectory(data, identity, imported)

    return source.each(_is_wanted, read_file)


def _is_wanted(name: str) -> bool:
    # The recorder appends an x if the name exists.
    return name.rstrip("x").endswith((".json", ".json.gz"))


def _data(source: Source, path: Path) -> tuple[bytes, dict[str, Any]]:
    """Return a file's decompressed content, and the demonstration in it."""
    where = base.relative(source.root, path)
    content = source.read(path)
    if content.startswith(b"\x1f\x8b"):  # Gzip, whatever the recorder appended to the name.
        content = base.gunzip(content, where, source.limits.file_bytes)
    data = base.parse_json(content, where)
    states = data.get("states") if isinstance(data, dict) else None
    named = isinstance(data, dict) and isinstance(data.get("taskName"), str)
    if not named or not isinstance(states, list) or not all(map(_is_state, states)):
        raise errors.CorruptDataError(
            f"{where!r} is not a demonstration: it needs a taskName and a list of states."
        )
    if not states:
        raise errors.CorruptDataError(f"{where!r} is a demonstration without states.")
    return content, data


def _is_state(state: Any) -> bool:
    return isinstance(state, dict) and isinstance(state.get("action"), (dict, type(None)))


def _trajectory(
    data: Mapping[str, Any], identity: str, imported: Mapping[str, Any]
) -> EpisodeTrajectory:
    states = data["states"]
    reward = base.number(data.get("rawReward", data.get("reward")))
    info = EpisodeInfo(
        episode_id=identity,
        task=f"miniwob/{data['taskName']}",
        goal=base.text_of(data, "utterance"),
        environment="miniwob",
        policy="demonstrator",
        metadata={
            "imported": imported,
            "reward": data.get("reward"),
            "raw_reward": data.get("rawReward"),
            **{key: value for key, value in data.items() if key not in _KNOWN},
        },
    )
    steps = [StepRecord(0, StepType.FIRST, _observation(data, states[0]))]
    all_chunks = chunks(states)
    for i, chunk in enumerate(all_chunks):
        is_last = i == len(all_chunks) - 1
        before = None if reward is None else 0.0
        steps.append(
            StepRecord(
                index=i + 1,
                step_type=StepType.LAST if is_last else StepType.MID,
                observation=_observation(data, states[chunk.last]),
                action=chunk.action,
                reward=reward if is_last else before,
                discount=0.0 if is_last else 1.0,
                decision=Decision(action=chunk.action, metadata=_describe_chunk(states, chunk)),
            )
        )
    # Without an action, the end was not recorded.
    reason = EndReason.TERMINATED if all_chunks else EndReason.CLOSED
    end = EpisodeEnd(reason=reason, outcome=base.outcome_of(reward))
    return EpisodeTrajectory(info, tuple(steps), end)


def _observation(data: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"fields": data["fields"]} if "fields" in data else {}
    return {
        "utterance": data.get("utterance"),
        **fields,
        "time": state.get("time"),
        "dom": state.get("dom"),
    }


def _describe_chunk(states: list[dict[str, Any]], chunk: Chunk) -> dict[str, Any]:
    """Return the events behind an action, with all DOMs except the observation's."""
    told = [dict(state) for state in states[chunk.first : chunk.last + 1]]
    told[-1].pop("dom", None)
    element = target(states[chunk.first].get("dom"))
    return {"events": told, **({} if element is None else {"element": element})}
