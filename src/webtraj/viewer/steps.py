"""Steps as JSON data: what was done, where, and what was seen then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters.plain import action_text
from webtraj.environments.actions import Action, InvalidAction, parse_action
from webtraj.store.blobs import LazyBlob
from webtraj.store.values import OpaqueRecord
from webtraj.viewer.calls import decision_data
from webtraj.viewer.values import Values, number

__all__ = ["action_data", "step_data"]

_TIMINGS = ("act", "settle", "observe", "pictures", "total", "waiting")
_PICTURES = ("screenshot", "pixels", "image", "shot")
"""Where a step's picture is looked for first; else the first one that there is is taken."""
_TREES = ("axtree", "axtree_txt")


def step_data(values: Values, step: trajectory_lib.StepRecord) -> dict[str, Any]:
    """Returns a step as JSON data."""
    observation = step.observation
    channels = observation if isinstance(observation, Mapping) else {"observation": observation}
    picture_name, picture = _picture(values, channels)
    tree = next((channels[name] for name in _TREES if name in channels), None)
    placed = {picture_name, "timings", "url", "title"} | ({*_TREES} if tree is not None else set())
    acted = channels.get("last_action")
    return {
        "index": step.index,
        "step_type": step.step_type.name,
        "time": number(step.end_time),
        "start_time": number(step.start_time),
        "seconds": _between(step.start_time, step.end_time),
        "reward": number(step.reward),
        "discount": number(step.discount),
        "url": values.text(channels.get("url")),
        "title": values.text(channels.get("title")),
        "action": None if step.first else action_data(values, step.action, acted),
        "ignored_action": _said(values, step.ignored_action),
        "image": picture,
        "viewport": _viewport(channels),
        "axtree": None if tree is None else values.text(tree),
        "observation": {
            values.text(str(name)): values.data(value)
            for name, value in channels.items()
            if name not in placed
        },
        "timings": _timings(step, channels.get("timings")),
        "decision": decision_data(values, step.decision),
    }


def action_data(values: Values, action: Any, acted: Any = None) -> dict[str, Any] | None:
    """Returns an action as JSON data; None if there is none.

    Args:
        values: Of the episode.
        action: Any action.
        acted: The channel `last_action` of the observation that it led to.
    """
    if action is None:
        return None
    known = acted if isinstance(acted, Mapping) else {}
    read = parse_action(action) if isinstance(action, str) else action
    point = path = None
    if isinstance(read, Action) and not isinstance(read, InvalidAction):
        point, path = _places(read)
    return {
        "text": _said(values, action) or "",
        "verb": _verb(values, read),
        "point": point,
        "path": path,
        "box": _box(known.get("box")),
        "ref": values.text(known.get("ref")),
        "role": values.text(known.get("role")),
        "name": values.text(known.get("name")),
        "selector": values.text(known.get("selector")),
        "settled": values.text(known.get("settled")),
        "error": values.text(known.get("error")),
        "error_kind": values.text(known.get("error_kind")),
    }


def _said(values: Values, action: Any) -> str | None:
    if isinstance(action, Action):
        return values.text(action_text(action))
    return None if action is None else values.text(action)


def _verb(values: Values, read: Any) -> str:
    match read:
        case InvalidAction():
            return "invalid"
        case Action():
            return read.verb
        case OpaqueRecord():
            return values.text(read.type_name)
    return ""


def _places(action: Action) -> tuple[list[float] | None, list[list[float]] | None]:
    """Returns the point that an action is at, and the path that it drags along."""
    path = getattr(action, "path", None)
    if path:
        points = [[float(x), float(y)] for x, y in path]
        return points[0], points
    x, y = getattr(action, "x", None), getattr(action, "y", None)
    return (None, None) if x is None or y is None else ([float(x), float(y)], None)


def _box(box: Any) -> list[float] | None:
    """Returns x, y, width and height of an element; None if it has no area."""
    if not isinstance(box, (np.ndarray, list, tuple)) or len(box) != 4:
        return None
    found = [number(item) for item in box]
    sides = [item for item in found if item is not None]
    return sides if len(sides) == 4 and sides[2] > 0 and sides[3] > 0 else None


def _viewport(channels: Mapping[Any, Any]) -> list[float] | None:
    """Returns width and height of what coordinates are in, where the observation says it."""
    scroll = channels.get("scroll")
    if not isinstance(scroll, Mapping):
        return None
    sides = [number(scroll.get(name)) for name in ("width", "height")]
    known = [side for side in sides if side]
    return known if len(known) == 2 else None


def _picture(values: Values, channels: Mapping[Any, Any]) -> tuple[Any, dict[str, Any] | None]:
    """Returns the channel that is the step's picture, and the picture."""
    first = [name for name in _PICTURES if name in channels]
    for name in (*first, *(name for name in channels if name not in first)):
        value = channels[name]
        if isinstance(value, (bytes, LazyBlob, np.ndarray)):
            shown = values.picture(value)
            if shown is not None:
                return name, shown
    marks = channels.get("set_of_marks")
    shown = values.picture(marks.get("image")) if isinstance(marks, Mapping) else None
    return None, shown


def _timings(step: trajectory_lib.StepRecord, told: Any) -> dict[str, float]:
    """Returns where the time of a step went, in seconds, as far as it is known."""
    timings: dict[str, float] = {}
    if isinstance(told, Mapping):
        found = {name: number(told.get(name)) for name in _TIMINGS}
        timings = {name: value for name, value in found.items() if value is not None}
    elif (seconds := _between(step.start_time, step.end_time)) is not None:
        timings["total"] = seconds
    calls = step.decision.model_calls if step.decision is not None else ()
    latencies = [number(call.latency) for call in calls]
    if known := [latency for latency in latencies if latency is not None]:
        timings["model"] = sum(known)
    return timings


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else number(end - start)
