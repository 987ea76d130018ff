"""The columns of the Parquet files, and the rows of an episode.

`observation`, `action_json`, `extra`, `info`, `end` are JSON text in the manner of `plain`: lists
for arrays, objects with the key `$` for what JSON lacks. Where a picture was in it stands
`{"type": "image", "index": 0}`: its place in the row's `images`. The screenshot has a column of its
own, and is not repeated; neither are `url`, `title` and `axtree`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.files_beside import image_kind
from webtraj.datasets.exporters.plain import (
    action_text,
    is_blank,
    is_unicode,
    plain,
    to_json,
    unicode_text,
)
from webtraj.trajectory import reward_value

__all__ = ["STEPS", "TRAJECTORIES", "Column", "RowWriter"]


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    kind: str
    """string, int64, float64, bool, image; `[kind]` for a list of it, `{name: kind, ...}` for a
    record."""
    meaning: str


STEPS: dict[str, Column] = {
    "episode_id": Column("string", "The episode."),
    "step": Column("int64", "Position in the episode, from 0."),
    "task": Column("string", "The task's name."),
    "goal": Column("string", "What was to be done, in words."),
    "is_first": Column("bool", "Whether the step begins its episode: it has no action."),
    "is_last": Column("bool", "Whether the environment ended the episode with it."),
    "action": Column("string", "The action that led to the observation, as text."),
    "action_json": Column("string", "The same as JSON."),
    "reward": Column("float64", "The reward for it; null if there was none."),
    "discount": Column("float64", "The discount: 0 if the episode terminated."),
    "url": Column("string", "Address of the page that was seen then."),
    "title": Column("string", "Its title."),
    "axtree": Column("string", "The page as text, with a ref for each element."),
    "screenshot": Column("image", "The page as a picture."),
    "images": Column("[image]", "Other pictures of the observation and the model's messages."),
    "observation": Column("string", "All else of the observation, as JSON."),
    "thought": Column("string", "The reasoning given for the action."),
    "memory": Column("string", "What the agent chose to remember."),
    "model": Column("string", "The model that chose the action."),
    "reply": Column("string", "The text of its reply."),
    "prompt_token_ids": Column("[int64]", "The prompt's token ids, as the model saw them."),
    "completion_token_ids": Column("[int64]", "The sampled token ids."),
    "logprobs": Column("[float64]", "Natural-log probability of each of those."),
    "start_time": Column("float64", "When the action began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When the observation was there."),
    "extra": Column("string", "All else of the step and the decision, as JSON."),
}
"""A row for each observation. dm_env's alignment: the action is the one that led to it."""

TRAJECTORIES: dict[str, Column] = {
    "episode_id": Column("string", "The episode."),
    "task": Column("string", "The task's name, the same for all attempts at it."),
    "goal": Column("string", "What was to be done, in words."),
    "site": Column("string", "The web site."),
    "environment": Column("string", "The environment."),
    "policy": Column("string", "Who acted."),
    "seed": Column("int64", "The seed of the environment."),
    "group_id": Column("string", "Shared by attempts that are compared with each other."),
    "attempt": Column("int64", "Number of the attempt in its group, from 0."),
    "end_reason": Column("string", "Why the record ends: terminated, truncated, crashed, ..."),
    "outcome": Column("string", "What it was worth; only success and failure carry a reward."),
    "finished": Column("bool", "Whether it terminated or was truncated."),
    "num_steps": Column("int64", "Number of actions."),
    "total_reward": Column("float64", "Sum of the rewards; null if there was none."),
    "actions": Column("[string]", "The actions as text."),
    "rewards": Column("[float64]", "The reward for each."),
    "start_time": Column("float64", "When it began, in seconds since the epoch (UTC)."),
    "end_time": Column("float64", "When it ended."),
    "info": Column("string", "All else that is known of the episode, as JSON."),
    "end": Column("string", "All else of its end, as JSON: error, action in flight, ..."),
}
"""A row for each episode."""

_SEEN = ("url", "title", "axtree")
_TOKENS = ("prompt_token_ids", "completion_token_ids", "logprobs")


class RowWriter:
    """Makes the rows of one episode."""

    def __init__(self, episode: trajectory_lib.EpisodeTrajectory, ledger: base.Ledger) -> None:
        self._episode = episode
        self._ledger = ledger

    def steps(self) -> Iterator[dict[str, Any]]:
        """Yields the rows of `STEPS`."""
        for step in self._episode.steps:
            yield self._step(step)

    def trajectory(self) -> dict[str, Any]:
        """Returns the row of `TRAJECTORIES`."""
        episode, info = self._episode, self._episode.info
        acts = [step for step in episode.steps if not step.first]
        rewarded = any(step.reward is not None for step in acts)
        names = ("task", "goal", "site", "environment", "policy", "group_id")
        return {
            "episode_id": info.episode_id,
            **{name: self._text(getattr(info, name), name) for name in names},
            "seed": self._int64(info.seed, "info.seed"),
            "attempt": self._int64(info.attempt, "info.attempt"),
            "end_reason": episode.end_reason.name.lower(),
            "outcome": episode.outcome.name.lower(),
            "finished": episode.terminated or episode.truncated,
            "num_steps": episode.num_steps,
            "total_reward": episode.total_reward if rewarded else None,
            "actions": [self._text(action_text(step.action), "steps.action") for step in acts],
            "rewards": [self._reward(step) for step in acts],
            "start_time": _float(episode.start_time),
            "end_time": _float(episode.end_time),
            "info": to_json(_rest(info, (*TRAJECTORIES,))),
            "end": to_json(_end(episode.end)),
        }

    def _step(self, step: trajectory_lib.StepRecord) -> dict[str, Any]:
        images = _Images()
        decision = step.decision
        calls = () if decision is None else decision.model_calls
        # The reply that was acted on is the last one that came.
        call = next((call for call in reversed(calls) if not call.error), None)
        row: dict[str, Any] = {
            "episode_id": self._episode.episode_id,
            "step": step.index,
            "task": self._text(self._episode.info.task, "task"),
            "goal": self._text(self._episode.info.goal, "goal"),
            "is_first": step.first,
            "is_last": step.last,
            "action": self._text(action_text(step.action), "steps.action"),
            "action_json": to_json(step.action, images),
            "reward": self._reward(step),
            "discount": _number(step.discount),
            **self._observed(step.observation, images),
            "thought": self._text(decision.thought if decision else None, "steps.thought"),
            "memory": self._text(decision.memory if decision else None, "steps.memory"),
            "model": self._text(call.model if call else None, "steps.model"),
            "reply": self._text(call.text if call else None, "steps.reply"),
            **{name: self._numbers(getattr(call, name), name) for name in _TOKENS if call},
            "start_time": _float(step.start_time),
            "end_time": _float(step.end_time),
            "extra": to_json(self._extra(step), images),
        }
        return {**dict.fromkeys(STEPS), **row, "images": images.found}

    def _observed(self, observation: Any, images: _Images) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys((*_SEEN, "screenshot"))
        rest = observation
        if isinstance(observation, Mapping):
            rest = dict(observation)
            for name in _SEEN:
                value = rest.get(name)
                if type(value) is str and is_unicode(value):
                    row[name] = rest.pop(name)
            shot = rest.get("screenshot")
            if isinstance(shot, bytes) and (kind := image_kind(shot)):
                name = f"{self._episode.episode_id}-{_hash(shot)}.{kind[0]}"
                row["screenshot"] = {"bytes": rest.pop("screenshot"), "path": name}
        return {**row, "observation": to_json(rest, images)}

    def _extra(self, step: trajectory_lib.StepRecord) -> dict[str, Any]:
        """Returns what has no column of its own."""
        extra: dict[str, Any] = {}
        for name in ("reward", "discount"):
            value = getattr(step, name)
            if value is not None and _number(value) is None:
                extra[name] = value
        if step.ignored_action is not None:
            extra["ignored_action"] = step.ignored_action
        if step.decision is not None:
            decision = step.decision
            extra["decision"] = _rest(decision, ("thought", "memory", "model_calls"))
            if plain(decision.action) == plain(step.action):
                extra["decision"].pop("action", None)
            extra["model_calls"] = [_rest(call, ()) for call in decision.model_calls]
        return {name: value for name, value in extra.items() if not is_blank(value)}

    def _reward(self, step: trajectory_lib.StepRecord) -> float | None:
        if step.reward is None:
            return None
        number = _number(step.reward)
        if number is not None:
            return number
        why = "is no number; its sum is the reward, and it is in extra"
        self._ledger.note(self._episode.episode_id, "steps.reward", why)
        return float(reward_value(step.reward))

    def _text(self, value: str | None, field: str) -> str | None:
        if value is None or is_unicode(value):
            return value
        why = "is no Unicode; question marks stand for what is not"
        self._ledger.note(self._episode.episode_id, field, why)
        return unicode_text(value)

    def _numbers(self, values: tuple[Any, ...], name: str) -> list[int] | list[float] | None:
        """Returns token ids as integers, log probabilities as floats; None if there are none."""
        if name == "logprobs":
            sound = all(type(value) in (int, float) for value in values)
        else:
            sound = all(type(value) is int and -(2**63) <= value < 2**63 for value in values)
        if not sound:
            why = "are no numbers of 64 bits; they are in extra"
            self._ledger.note(self._episode.episode_id, f"steps.{name}", why)
            return None
        return [float(v) if name == "logprobs" else v for v in values] or None

    def _int64(self, value: int | None, field: str) -> int | None:
        if value is None or -(2**63) <= value < 2**63:
            return value
        why = f"{value} is beyond 64 bits; it is null"
        self._ledger.note(self._episode.episode_id, field, why)
        return None


class _Images:
    """Takes the pictures out of JSON data, each once."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._index: dict[str, int] = {}

    def __call__(self, data: bytes) -> Any:
        kind = image_kind(data)
        if kind is None:
            return plain(data)
        sha256 = _hash(data)
        if sha256 not in self._index:
            self._index[sha256] = len(self.found)
            self.found.append({"bytes": data, "path": f"{sha256}.{kind[0]}"})
        return {"type": "image", "index": self._index[sha256]}


def _rest(record: Any, placed: tuple[str, ...]) -> dict[str, Any]:
    """Returns the fields of a record that have a value, and no place elsewhere."""
    names = [field.name for field in dataclasses.fields(record) if field.name not in placed]
    values = {name: getattr(record, name) for name in names}
    return {name: value for name, value in values.items() if not is_blank(value)}


def _end(end: trajectory_lib.EpisodeEnd | None) -> dict[str, Any]:
    if end is None:
        return {}
    data = _rest(end, ("reason", "outcome", "error", "phase", "in_flight_decision"))
    if end.phase is not None:
        data["phase"] = end.phase.value
    if end.error is not None:
        data["error"] = _rest(end.error, ())
    if end.in_flight_decision is not None:
        data["in_flight_decision"] = _rest(end.in_flight_decision, ("model_calls",))
        calls = end.in_flight_decision.model_calls
        data["in_flight_decision"]["model_calls"] = [_rest(call, ()) for call in calls]
    return data


def _number(value: Any) -> float | None:
    """Returns a value as a float, if it is one number."""
    item = value.item() if getattr(value, "shape", None) == () else value
    try:
        return float(item) if type(item) in (int, float, bool) else None
    except OverflowError:  # An integer that no float can hold.
        return None


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
