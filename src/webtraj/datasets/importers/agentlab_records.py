"""One record of an experiment, `StepInfo`, and how records become an episode's steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers import base
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import StepType

__all__ = ["Record", "to_trajectory"]

_USAGE = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens")


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A `StepInfo`, with what lies beside it."""

    number: int
    fields: Mapping[str, Any]
    pictures: Mapping[str, bytes]
    goal: Any

    @property
    def empty(self) -> bool:
        """Whether the environment never gave an observation: it failed in the middle."""
        return self.fields.get("obs") is None

    @property
    def observation(self) -> Any:
        """The observation, with what was put beside it put back."""
        observation = self.fields.get("obs")
        if not isinstance(observation, Mapping):
            return observation
        goal = {"goal_object": self.goal} if observation.get("goal_object", ()) is None else {}
        return {**observation, **goal, **self.pictures}

    @property
    def reward(self) -> float:
        """The reward as a number; NaN if it is none."""
        return trajectory_lib.reward_value(self.fields.get("reward"))

    @property
    def action(self) -> Any:
        """The action chosen here; None if there was none."""
        # AgentLab writes str(action).
        action = self.fields.get("action")
        return None if base.is_nothing(action) or _is(action, "None") else action

    @property
    def terminated(self) -> bool:
        """Whether the environment terminated the episode here."""
        return _is(self.fields.get("terminated"), True)

    @property
    def truncated(self) -> bool:
        """Whether the episode was truncated here."""
        return _is(self.fields.get("truncated"), True)

    @property
    def has_stats(self) -> bool:
        """Whether the agent was asked for an action here."""
        return self.fields.get("stats") is not None

    def results(self) -> dict[str, Any]:
        """Returns what came with the observation and has no place in a step."""
        names = ("task_info", "raw_reward")
        results = {name: self.fields[name] for name in names if self.fields.get(name) is not None}
        return {"step": self.number, **results, "profiling": _plain(self.fields.get("profiling"))}

    def time(self, name: str) -> float | None:
        """Returns one of the record's times, in seconds since the epoch; None if not known."""
        value = _plain(self.fields.get("profiling")).get(name)
        return base.number(value) or None  # 0 is what a time is before it is known.

    def decision(self) -> trajectory_lib.Decision | None:
        """Returns how the action chosen here came about; None if nobody was asked."""
        said = _plain(self.fields.get("agent_info"))
        stats = self.fields.get("stats")
        if not said and stats is None and self.action is None:
            return None
        metadata = {
            name: value
            for name, value in said.items()
            if name not in ("think", "chat_messages") and not base.is_nothing(value)
        }
        call = self._model_call(said, stats)
        return trajectory_lib.Decision(
            action=self.action,
            thought=base.text_of(said.get("think")),
            model_calls=() if call is None else (call,),
            metadata=metadata if base.is_nothing(stats) else {**metadata, "stats": stats},
        )

    def in_flight(self) -> dict[str, Any]:
        """Returns the fields of an `EpisodeEnd` for an action whose result was never seen."""
        if self.action is None:
            return {}
        return {
            "action_in_flight": True,
            "in_flight_action": self.action,
            "in_flight_decision": self.decision(),
        }

    def _model_call(self, said: Mapping[str, Any], stats: Any) -> trajectory_lib.ModelCall | None:
        messages = said.get("chat_messages")
        messages = _plain(messages).get("messages", messages)
        if not isinstance(messages, (list, tuple)) or not messages:
            return None
        shaped = [base.images_as_bytes(_message(message)) for message in messages]
        reply = shaped.pop() if _is(_role(shaped[-1]), "assistant") else None
        extra = _plain(said.get("extra_info"))
        model = _plain(extra.get("chat_model_args")).get("model_name")
        counts = {
            name: int(count)
            for name in _USAGE
            if (count := base.number(_plain(stats).get(name))) is not None and math.isfinite(count)
        }
        began, ended = self.time("agent_start"), self.time("agent_stop")
        return trajectory_lib.ModelCall(
            model=base.text_of(model),
            messages=tuple(shaped),
            response=reply,
            text=_text(reply),
            usage=counts,
            start_time=began,
            latency=ended - began if began and ended else None,
        )


def to_trajectory(
    info: trajectory_lib.EpisodeInfo,
    records: Sequence[Record],
    end: trajectory_lib.EpisodeEnd,
    unreadable: Sequence[str],
) -> trajectory_lib.EpisodeTrajectory:
    """Returns the episode that records tell.

    Args:
        info: What is known of it.
        records: The records that could be read, in order.
        end: How it ended.
        unreadable: What could not be read.
    """
    shown = [record for record in records if not record.empty]
    steps, violations = [], []
    for i, record in enumerate(shown):
        over = _is_over(record)
        is_last = over and i == len(shown) - 1
        if over and not is_last:
            violations.append(f"record {record.number} is the end, and {record.number + 1} follows")
        before = shown[i - 1] if i else None
        # The record before may be one that could not be read: then nobody knows the action.
        known = before is not None and before.number == record.number - 1
        step_type = StepType.LAST if is_last else StepType.MID
        steps.append(
            trajectory_lib.StepRecord(
                index=i,
                step_type=step_type if i else StepType.FIRST,
                observation=record.observation,
                action=before.action if before is not None and known else None,
                reward=record.fields.get("reward") if i else None,
                discount=(0.0 if record.terminated and is_last else 1.0) if i else None,
                start_time=record.time("env_start"),
                end_time=record.time("env_stop"),
                decision=before.decision() if before is not None and known else None,
            )
        )
    ended = end.reason in (trajectory_lib.EndReason.TERMINATED, trajectory_lib.EndReason.TRUNCATED)
    if ended and len(steps) > 0 and not steps[-1].last and not _is_over(shown[-1]):
        steps.append(_unseen(len(steps), shown[-1], end.reason))
    elif shown and (shown[-1].action is None or steps[-1].last) and not end.in_flight_decision:
        # What the agent said when it gave no action, failed to, or was asked after the end.
        end = dataclasses.replace(end, in_flight_decision=_last_words(shown[-1]))
    elif shown and not steps[-1].last and not end.action_in_flight:
        end = dataclasses.replace(end, **shown[-1].in_flight())
    end = dataclasses.replace(end, violations=tuple(violations), recording_errors=tuple(unreadable))
    times = [time for step in steps for time in (step.start_time, step.end_time) if time]
    return trajectory_lib.EpisodeTrajectory(
        info,
        tuple(steps),
        end,
        start_time=min(times, default=None),
        end_time=max(times, default=None),
    )


def _is_over(record: Record) -> bool:
    return record.terminated or record.truncated


def _unseen(
    index: int, before: Record, reason: trajectory_lib.EndReason
) -> trajectory_lib.StepRecord:
    """Returns the last step of an episode whose last record is missing: nobody knows its reward."""
    terminated = reason is trajectory_lib.EndReason.TERMINATED
    return trajectory_lib.StepRecord(
        index=index,
        step_type=StepType.LAST,
        observation={},
        action=before.action,
        discount=0.0 if terminated else 1.0,
        decision=before.decision(),
    )


def _last_words(record: Record) -> trajectory_lib.Decision | None:
    return (
        record.decision() if record.has_stats or _plain(record.fields.get("agent_info")) else None
    )


def _is(value: Any, wanted: bool | str) -> bool:
    """Returns whether a value, whatever it may be, is a truth value or a text."""
    return isinstance(value, (bool, np.bool_, str)) and bool(value == wanted)


def _plain(value: Any) -> Mapping[str, Any]:
    if isinstance(value, OpaqueRecord):
        return value.fields
    return value if isinstance(value, Mapping) else {}


def _message(message: Any) -> Any:
    """Returns a message as a plain mapping: AgentLab has classes that are dicts."""
    fields = _plain(message)
    return dict(fields.get("items", fields)) if fields else message


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else None


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, (list, tuple)):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return base.text_of(content)
