"""An episode as plain JSON data for the page, with or without a server.

The data holds the complete episode. Text from pages, agents and models is data, which the page
shows as text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.agents.models.replies import reasoning_of
from webtraj.datasets.exporters.plain import action_text
from webtraj.environments.actions import Action, InvalidAction, parse_action
from webtraj.environments.browser import recorded_channels
from webtraj.store.blobs import LazyBlob
from webtraj.store.values import OpaqueRecord
from webtraj.view.values import BlobUrl, Values, number

__all__ = [
    "BlobUrl",
    "action_data",
    "call_data",
    "decision_data",
    "episode_data",
    "last_picture",
    "step_data",
]

# Model calls as JSON data: messages, reply, and token log-probabilities.

_DATA_URI = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)
_SHOWN_ELSEWHERE = frozenset(
    ("logprobs", "prompt_logprobs", "token_ids", "prompt_token_ids", "content_token_ids")
)
"""Keys of a response with a value per token, which `tokens` shows instead."""


def decision_data(values: Values, decision: trajectory_lib.Decision | None) -> Any:
    """Return a decision as JSON data; None if there is none."""
    if decision is None:
        return None
    return {
        **values.texts(decision, "thought", "memory", "parse_error"),
        "metadata": values.data(decision.metadata),
        "calls": [call_data(values, call) for call in decision.model_calls],
    }


def call_data(values: Values, call: trajectory_lib.ModelCall) -> dict[str, Any]:
    """Return a model call as JSON data."""
    return {
        **values.texts(call, "model", "provider", "policy_version", "finish_reason", "error"),
        "messages": [_message(values, message) for message in call.messages],
        "reply": values.text(call.text),
        "reasoning": values.text(reasoning_of(call)),
        "usage": values.data(call.usage),
        "latency": number(call.latency),
        "start_time": number(call.start_time),
        "failed_attempts": [
            {
                **values.texts(attempt, "error"),
                "status": attempt.status,
                "start_time": number(attempt.start_time),
                "latency": number(attempt.latency),
            }
            for attempt in call.failed_attempts
        ],
        "sampling": values.data(call.sampling),
        "tokens": list(_tokens(values, call)),
        "prompt_tokens": len(call.prompt_token_ids),
        "response": values.data(_short(call.response)),
    }


def _message(values: Values, message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        return {"role": "", "parts": [{"text": values.text(message)}]}
    # Items of OpenAI's Responses have a type in place of a role, and a tool's `output`.
    shown = "output" if "output" in message else "content"
    content = message.get(shown)
    parts = content if isinstance(content, (list, tuple)) else [content]
    rest = {name: item for name, item in message.items() if name not in ("role", shown)}
    made = [_part(values, inner) for part in parts for inner in _within(part)]
    if rest:
        made.append({"text": values.text(rest), "json": True})
    role = recorded_channels.text_of(message, "role") or recorded_channels.text_of(message, "type")
    return {"role": values.text(role), "parts": made}


def _within(part: Any) -> Iterator[Any]:
    """Yield a part of a message. A tool's result is replaced by its content."""
    if recorded_channels.text_of(part, "type") == "tool_result":
        yield {name: item for name, item in part.items() if name != "content"}
        content = part.get("content")
        yield from content if isinstance(content, (list, tuple)) else [content]
    elif part is not None:
        yield part


def _part(values: Values, part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": values.text(part)}
    match recorded_channels.text_of(part, "type"), part:
        case "text" | "input_text" | "output_text", {"type": _, "text": text, **rest} if not rest:
            return {"text": values.text(text)}
        case "image_url", {"image_url": {"url": data}}:
            pass
        case "image", {"source": {"data": data}}:
            pass
        case "input_image" | "computer_screenshot", {"image_url": data}:
            pass
        case _, bytes() | LazyBlob():
            data = part
        case _:
            data = None
    shown = values.picture(_picture_bytes(data))
    if shown is not None:
        return {"image": shown["url"], "width": shown["width"], "height": shown["height"]}
    return {"text": values.text(part), "json": True}


def _picture_bytes(data: Any) -> Any:
    """Return the bytes of an image encoded in text; None for a URL or other text."""
    if not isinstance(data, str):
        return data
    encoded = data[found.end() :] if (found := _DATA_URI.match(data)) else data
    if "://" in encoded[:20]:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None


def _tokens(values: Values, call: trajectory_lib.ModelCall) -> Iterator[dict[str, Any]]:
    """Yield the tokens of the reply, with their texts if the server returned them."""
    ids, logprobs = call.completion_token_ids, call.logprobs
    said = _read_tokens(call.response)
    count = max(len(ids), len(logprobs))
    if count and len(said) != count:
        said = []  # They do not match these tokens.
    for at in range(count or len(said)):
        told = said[at] if said else {}
        logprob = logprobs[at] if at < len(logprobs) else told.get("logprob")
        yield {
            "text": values.text(told.get("token", "")),
            "id": values.data(ids[at]) if at < len(ids) else None,
            "logprob": number(logprob) if isinstance(logprob, (int, float)) else None,
            "top": values.data(told.get("top_logprobs") or []),
        }


def _read_tokens(response: Any) -> Sequence[Mapping[str, Any]]:
    match response:
        case {"choices": [{"logprobs": {"content": [*content]}}, *_]}:
            return content if all(isinstance(item, Mapping) for item in content) else []
    return []


def _short(response: Any) -> Any:
    """Return a response without parts that are shown elsewhere."""
    if isinstance(response, Mapping):
        return {k: _short(v) for k, v in response.items() if k not in _SHOWN_ELSEWHERE}
    return [_short(item) for item in response] if isinstance(response, list) else response


# Steps as JSON data: the action and the observation that followed.

_TIMINGS = ("act", "settle", "observe", "pictures", "total", "waiting")
_PICTURES = ("screenshot", "pixels", "image", "shot")
"""Channels to search for a step's image first; otherwise the first image is taken."""
_ACTED_ON = ("ref", "role", "name", "selector", "settled", "error", "error_kind")
_TREES = ("axtree", "axtree_txt")


def step_data(values: Values, step: trajectory_lib.StepRecord) -> dict[str, Any]:
    """Return a step as JSON data."""
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
        "ignored_action": _format_said(values, step.ignored_action),
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
    """Return an action as JSON data; None if there is none.

    Args:
        values: The episode's values.
        action: Any action.
        acted: The channel `last_action` of the observation after the action.
    """
    if action is None:
        return None
    known = acted if isinstance(acted, Mapping) else {}
    read = parse_action(action) if isinstance(action, str) else action
    point = path = None
    if isinstance(read, Action) and not isinstance(read, InvalidAction):
        point, path = _places(read)
    return {
        "text": _format_said(values, action) or "",
        "verb": _verb(values, read),
        "point": point,
        "path": path,
        "box": _box(known.get("box")),
        **values.texts(known, *_ACTED_ON),
    }


def _format_said(values: Values, action: Any) -> str | None:
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
    """Return an action's point and the path of a drag; None for either if it has none."""
    path = getattr(action, "path", None)
    if path:
        points = [[float(x), float(y)] for x, y in path]
        return points[0], points
    x, y = getattr(action, "x", None), getattr(action, "y", None)
    return (None, None) if x is None or y is None else ([float(x), float(y)], None)


def _box(box: Any) -> list[float] | None:
    """Return an element's x, y, width and height; None if it has no area."""
    if not isinstance(box, (np.ndarray, list, tuple)) or len(box) != 4:
        return None
    found = [number(item) for item in box]
    sides = [item for item in found if item is not None]
    return sides if len(sides) == 4 and sides[2] > 0 and sides[3] > 0 else None


def _viewport(channels: Mapping[Any, Any]) -> list[float] | None:
    """Return the viewport's width and height, if the observation has them."""
    scroll = channels.get("scroll")
    if not isinstance(scroll, Mapping):
        return None
    sides = [number(scroll.get(name)) for name in ("width", "height")]
    known = [side for side in sides if side]
    return known if len(known) == 2 else None


def _picture(values: Values, channels: Mapping[Any, Any]) -> tuple[Any, dict[str, Any] | None]:
    """Return the name of the channel that has the step's image, and the image."""
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


def last_picture(trajectory: trajectory_lib.EpisodeTrajectory) -> bytes | None:
    """Return the last image of a page in an episode; None without one.

    Raises:
        CorruptDataError: Its bytes cannot be read.
    """
    seen: list[bytes | LazyBlob] = []

    def see(value: bytes | LazyBlob) -> str:
        seen.append(value)
        return ""

    values = Values(see)
    for step in reversed(trajectory.steps):
        if isinstance(step.observation, Mapping):
            _picture(values, step.observation)
        if seen:
            return seen[0].load() if isinstance(seen[0], LazyBlob) else seen[0]
    return None


def _timings(step: trajectory_lib.StepRecord, told: Any) -> dict[str, float]:
    """Return the known durations of a step's phases, in seconds."""
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


def episode_data(trajectory: trajectory_lib.EpisodeTrajectory, blob_url: BlobUrl) -> dict[str, Any]:
    """Return an episode as JSON data for orjson.

    Images and other bytes are given by URL. Values that cannot be read are listed in `problems`.
    Times are seconds since the epoch. Points and boxes are CSS pixels of the viewport; a step's
    `viewport` has its size if known.

    >>> from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory
    >>> data = episode_data(EpisodeTrajectory(EpisodeInfo(task="t")), lambda data: "")
    >>> data["info"]["task"], data["end"], data["steps"]
    ('t', None, [])

    Args:
        trajectory: The episode; its blobs may be lazy, and it may still be open.
        blob_url: Returns the URL of bytes; empty if there is none.
    """
    values = Values(blob_url)
    seconds = None
    if trajectory.start_time is not None and trajectory.end_time is not None:
        seconds = number(max(trajectory.end_time - trajectory.start_time, 0.0))
    data = {
        "id": values.text(trajectory.episode_id),
        "info": _info(values, trajectory.info),
        "end": _end(values, trajectory.end),
        "judgements": [_judgement(values, found) for found in trajectory.judgements],
        "derivation": values.data([_record(done) for done in trajectory.info.derivation]),
        "total_reward": number(trajectory.total_reward),
        "num_steps": trajectory.num_steps,
        "start_time": number(trajectory.start_time),
        "end_time": number(trajectory.end_time),
        "seconds": seconds,
        "steps": [step_data(values, step) for step in trajectory.steps],
    }
    return {**data, "problems": values.problems}


def _record(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}


def _info(values: Values, info: trajectory_lib.EpisodeInfo) -> dict[str, Any]:
    return {
        **values.texts(info, "task", "goal", "site", "environment", "policy"),
        "seed": values.data(info.seed),
        "versions": values.data(info.versions),
        "group": values.text(info.group_id),
        "attempt": values.data(info.attempt),
        "links": {
            name: values.text(link)
            for name, link in (("parent", info.parent_episode_id), ("retry_of", info.retry_of))
            if link
        },
        "metadata": values.data(info.metadata),
    }


def _end(values: Values, end: trajectory_lib.EpisodeEnd | None) -> dict[str, Any] | None:
    if end is None:
        return None
    error = end.error
    in_flight = action_data(values, end.in_flight_action) if end.action_in_flight else None
    return {
        "reason": end.reason.name.lower(),
        "phase": None if end.phase is None else end.phase.value,
        "detail": values.text(end.detail),
        "outcome": end.outcome.name.lower(),
        "error": error and values.texts(error, "type", "message", "traceback"),
        "action_in_flight": end.action_in_flight,
        "in_flight_action": in_flight,
        "in_flight_decision": decision_data(values, end.in_flight_decision),
        "violations": values.data(end.violations),
        "recording_errors": values.data(end.recording_errors),
    }


def _judgement(values: Values, found: trajectory_lib.Judgement) -> dict[str, Any]:
    return {
        **values.texts(found, "judge", "version", "reason"),
        "outcome": found.outcome.name.lower(),
        "reward": number(found.reward),
        "evidence": values.data(found.findings),
        "time": number(found.time),
        "calls": [call_data(values, call) for call in found.model_calls],
    }
