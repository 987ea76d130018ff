"""The steps of ATIF: what an agent did, said and saw in one."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Source
from webtraj.environments import actions
from webtraj.environments.actions.dialects import make_dialect

__all__ = [
    "Pictures",
    "StepReader",
    "last_time",
    "mapping",
    "seconds",
    "text",
    "told",
    "with_reward",
]

_VIEWPORT = (1280, 720)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_CALLED = ("computer", "computer_use_preview")
"""What the tool of computer use is called whose arguments are an action by themselves."""


class Pictures:
    """Reads the pictures that a trajectory names, below its own folder."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self.missing = 0
        """How many were named and not found."""

    def read(self, path: str) -> bytes | None:
        """Returns a picture's bytes; None, and counts it, if there is none."""
        parts = PurePosixPath(path)
        if not parts.is_absolute() and ".." not in parts.parts:
            try:
                data = self._source.read(self._folder / parts)
            except (errors.WebtrajError, ValueError):  # ValueError: no file can be called so.
                data = b""
            if base.is_image(data):
                return data
        self.missing += 1
        return None


class StepReader:
    """Makes observations, actions and decisions of one trajectory's steps."""

    def __init__(self, pictures: Pictures, model: str, viewport: Any) -> None:
        self._pictures = pictures
        self._model = model
        sound = (
            isinstance(viewport, list)
            and len(viewport) == 2
            and all(type(size) is int and size > 0 for size in viewport)
        )
        self._viewport = (viewport[0], viewport[1]) if sound else _VIEWPORT

    def observation(
        self, step: Mapping[str, Any], after: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Returns what was seen after a step: its results, and the messages until the next."""
        observation: dict[str, Any] = {
            key: value for key, value in mapping(step.get("extra")).items() if key not in told(step)
        }
        results = mapping(step.get("observation")).get("results")
        if isinstance(results, list):
            observation["results"] = [self._content(result) for result in results]
        if after:
            observation["messages"] = [self._message(message) for message in after]
        picture = _first_picture([observation.get("results"), observation.get("messages")])
        return observation if picture is None else {"screenshot": picture, **observation}

    def decided(self, step: Mapping[str, Any]) -> tuple[Any, trajectory_lib.Decision]:
        """Returns the action of an agent step, and how it came about."""
        calls = step.get("tool_calls")
        calls = [mapping(call) for call in calls] if isinstance(calls, list) else []
        said = text(step.get("message"))
        action = self._action(calls, said)
        call, unplaced = self._model_call(step, said)
        metadata = {
            "message": self._content(step.get("message")),
            "tool_calls": calls,
            "metrics": unplaced,
            **{key: step[key] for key in ("reasoning_effort", "llm_call_count") if key in step},
        }
        decision = trajectory_lib.Decision(
            action=action,
            thought=base.text_of(step.get("reasoning_content")),
            model_calls=() if call is None else (call,),
            metadata={key: value for key, value in metadata.items() if value not in ("", [], {})},
        )
        return action, decision

    def _action(self, calls: list[Mapping[str, Any]], said: str) -> Any:
        if not calls:
            try:
                return actions.SendMessage(said) if said else None
            except errors.InvalidInputError:  # Longer than any message may be.
                return said
        read = [self._call(call) for call in calls]
        return read[0] if len(read) == 1 else read

    def _call(self, call: Mapping[str, Any]) -> Any:
        """Returns the action that a tool call is in some dialect; else its name and arguments."""
        name, arguments = call.get("function_name"), call.get("arguments")
        plain = {"name": name, "arguments": arguments}
        readings: list[tuple[str, Any]] = [
            ("webtraj", plain),
            ("webgym", plain),
            ("webgym_marks", plain),
        ]
        if name in _CALLED:
            readings += [("anthropic", arguments), ("openai", arguments)]
        for dialect, wire in readings:
            action = make_dialect(dialect, self._viewport).parse(wire)
            if not isinstance(action, actions.InvalidAction):
                return action
        return plain

    def _model_call(
        self, step: Mapping[str, Any], said: str
    ) -> tuple[trajectory_lib.ModelCall | None, dict[str, Any]]:
        """Returns the model call of a step, and what of its metrics has no place in one."""
        metrics = mapping(step.get("metrics"))
        if step.get("llm_call_count") == 0:
            return None, dict(metrics)
        tokens = _ids(metrics.get("completion_token_ids"))
        logprobs = _numbers(metrics.get("logprobs"))
        placed: dict[str, Any] = {
            "prompt_token_ids": _ids(metrics.get("prompt_token_ids")),
            "completion_token_ids": tokens,
            "logprobs": logprobs if len(logprobs) == len(tokens) else (),
        }
        usage = {key: metrics[key] for key in _COUNTS if type(metrics.get(key)) is int}
        call = trajectory_lib.ModelCall(
            model=base.text_of(step.get("model_name")) or self._model,
            text=said,
            usage=usage,
            **placed,
        )
        taken = usage.keys() | {key for key, value in placed.items() if value}
        return call, {key: value for key, value in metrics.items() if key not in taken}

    def _message(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a step that is no act, as it was but for its pictures."""
        return {key: self._content(value) for key, value in step.items() if key != "step_id"}

    def _content(self, value: Any) -> Any:
        """Returns a value with the bytes of pictures where their paths stood."""
        if isinstance(value, list):
            return [self._content(item) for item in value]
        if not isinstance(value, dict):
            return value
        if value.get("type") == "image":
            inner = mapping(value.get("source"))
            path = base.text_of(inner.get("path", value.get("path")))
            picture = self._pictures.read(path) if path else None
            return value if picture is None else {**value, "data": picture}
        return {key: self._content(item) for key, item in value.items()}


def mapping(value: Any) -> Mapping[str, Any]:
    """Returns a value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def told(of: Mapping[str, Any]) -> dict[str, float]:
    """Returns the reward and the discount that the extras of a step or a trajectory tell."""
    extra = mapping(of.get("extra"))
    names = [name for name in ("reward", "discount") if type(extra.get(name)) in (int, float)]
    return {name: extra[name] for name in names}


def text(message: Any) -> str:
    """Returns the text of a message or of its parts."""
    if isinstance(message, list):
        return "\n".join(
            filter(None, (base.text_of(mapping(part).get("text")) for part in message))
        )
    return base.text_of(message)


def seconds(timestamp: Any) -> float | None:
    """Returns an ISO time in seconds since the epoch; None if it is none."""
    try:
        time = datetime.datetime.fromisoformat(base.text_of(timestamp))
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp()


def last_time(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the latest time that steps tell."""
    times = (seconds(step.get("timestamp")) for step in steps)
    return max((time for time in times if time is not None), default=None)


def with_reward(step: trajectory_lib.StepRecord, reward: Any) -> trajectory_lib.StepRecord:
    """Returns a step with a reward."""
    return dataclasses.replace(step, reward=reward)


def _first_picture(value: Any) -> bytes | None:
    if isinstance(value, list):
        return next(filter(None, map(_first_picture, value)), None)
    if not isinstance(value, dict):
        return None
    if value.get("type") == "image" and isinstance(value.get("data"), bytes):
        return bytes(value["data"])
    return next(filter(None, map(_first_picture, value.values())), None)


def _ids(values: Any) -> tuple[int, ...]:
    sound = isinstance(values, list) and all(type(value) is int for value in values)
    return tuple(values) if sound else ()


def _numbers(values: Any) -> tuple[float, ...]:
    sound = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    return tuple(map(float, values)) if sound else ()
