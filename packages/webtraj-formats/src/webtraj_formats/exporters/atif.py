"""ATIF, the Agent Trajectory Interchange Format, v1.8 or v1.7: one JSON file per episode.

::

    <out>/<episode id>.json
    <out>/images/<sha256>.jpg      pictures, each stored once, referred to by path
    <out>/blobs/<sha256>.bin       other bytes, likewise

An episode becomes: its system prompt, if the first model call has one; a user step with the goal
and FIRST's observation; and an agent step for each later step, with the action as its tool call and
the observation that it led to. The fields of an observation are in the step's `extra`; its pictures
are in `observation.results` as well. Reward and discount are also in `extra`.

The root's `extra` has `task`, `seed`, `site`, `environment`, `reward` (the total), `end_reason` and
`outcome`; everything else known about the episode is in its `webtraj` object.

`webtraj import --from atif` reads it back. These survive: the number and types of steps; webtraj's
own actions, and actions as webtraj text; rewards, discounts and end; thoughts; the model, text,
token ids, logprobs and counts of a step's last model call; pictures; observations after FIRST as
plain JSON; times, to a microsecond; which steps were lost (`webtraj.step_indices`), and the
recording errors. FIRST's observation comes back as a message. Other actions come
back as the call `act`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import orjson
import pydantic

import webtraj
from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import (
    FilesBeside,
    answer,
    end_fields,
    filled_fields,
    image_kind,
    is_blank,
    pictures_in,
    plain,
    tool_call,
    unicode_text,
)
from webtraj.trajectory import Decision, EpisodeTrajectory, ModelCall, StepRecord, name_of_end

__all__ = ["SCHEMA_VERSION", "AtifExporter", "Trajectory"]

# ATIF v1.8 and v1.7 as pydantic models that check all of their rules.
#
# Fields and rules match the format's own models (Harbor 0.26 and 0.22). Unknown keys are allowed
# only under `extra`. Version 1.8 added sounds, which webtraj does not write.

SCHEMA_VERSION = "ATIF-v1.8"

_AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_MODELS_OWN = ("metrics", "reasoning_content")
_Extra = dict[str, Any] | None


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class ImageSource(_Model):
    """The file of a picture."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class AudioSource(_Model):
    """The file of a sound."""

    media_type: Literal[
        "audio/wav", "audio/mpeg", "audio/mp4", "audio/aac", "audio/ogg", "audio/flac",
        "audio/webm", "audio/aiff",
    ]  # fmt: skip
    path: str
    duration_sec: float | None = pydantic.Field(default=None, ge=0)


class ContentPart(_Model):
    """A part of a message."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: ImageSource | AudioSource | None = None

    @pydantic.model_validator(mode="after")
    def _fits_its_type(self) -> Self:
        kinds: dict[str, type] = {"text": type(None), "image": ImageSource, "audio": AudioSource}
        if not isinstance(self.source, kinds[self.type]):
            raise ValueError(f"a part of type {self.type!r} has another source")
        if (self.text is not None) != (self.type == "text"):
            raise ValueError(f"a part of type {self.type!r} has text, or lacks it")
        return self


class ToolCall(_Model):
    """An action."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: _Extra = None


class SubagentTrajectoryRef(_Model):
    """A reference to a subagent's trajectory."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: _Extra = None

    @pydantic.model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("a reference needs a trajectory_id or a trajectory_path")
        return self


class ObservationResult(_Model):
    """The result of one action."""

    source_call_id: str | None = None
    content: str | list[ContentPart] | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: _Extra = None


class Observation(_Model):
    """The results of a step's actions."""

    results: list[ObservationResult]


class Metrics(_Model):
    """The cost and the tokens of model calls."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: _Extra = None


class Step(_Model):
    """One turn."""

    step_id: int = pydantic.Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[ContentPart]
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = pydantic.Field(default=None, ge=0)
    extra: _Extra = None

    @pydantic.field_validator("timestamp")
    @classmethod
    def _is_iso(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.datetime.fromisoformat(value)
        return value

    @pydantic.model_validator(mode="after")
    def _has_only_what_its_source_may(self) -> Self:
        absent: tuple[str, ...] = ()
        if self.source != "agent":
            absent = _AGENTS_OWN
        elif self.llm_call_count == 0:
            absent = _MODELS_OWN
        for name in absent:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} must be absent: source={self.source!r}, "
                    f"llm_call_count={self.llm_call_count}"
                )
        return self


class Agent(_Model):
    """The agent."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: _Extra = None


class FinalMetrics(_Model):
    """Totals."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = pydantic.Field(default=None, ge=0)
    extra: _Extra = None


class Trajectory(_Model):
    """A whole file."""

    schema_version: Literal["ATIF-v1.7", "ATIF-v1.8"]
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: list[Step] = pydantic.Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: _Extra = None
    subagent_trajectories: list[Trajectory] | None = None

    @pydantic.model_validator(mode="after")
    def _has_only_what_its_version_has(self) -> Self:
        if self.schema_version == "ATIF-v1.7":
            for step in self.steps:
                if any(part.type == "audio" for part in _all_parts(step)):
                    raise ValueError(f"step {step.step_id} has audio, which ATIF-v1.7 lacks")
        return self

    @pydantic.model_validator(mode="after")
    def _counts_its_steps(self) -> Self:
        for i, step in enumerate(self.steps):
            if step.step_id != i + 1:
                raise ValueError(f"steps[{i}].step_id is {step.step_id}; expected {i + 1}")
        return self

    @pydantic.model_validator(mode="after")
    def _names_its_subagents_apart(self) -> Self:
        names = [inner.trajectory_id for inner in self.subagent_trajectories or ()]
        if None in names or len(set(names)) < len(names):
            raise ValueError("each of the subagents needs a trajectory_id of its own")
        return self

    @pydantic.model_validator(mode="after")
    def _answers_its_own_calls(self) -> Self:
        for step in self.steps:
            made = {call.tool_call_id for call in step.tool_calls or ()}
            for result in step.observation.results if step.observation else ():
                if result.source_call_id is not None and result.source_call_id not in made:
                    raise ValueError(
                        f"step {step.step_id} has a result of the call "
                        f"{result.source_call_id!r}, which it did not make"
                    )
        return self


# Converting the steps of an episode to ATIF, as the module docstring describes.

Tell = Callable[[str, str], None]
"""Records a field, and what was done with its value."""

_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_OWN_KEYS = frozenset({"reward", "discount", "results", "messages", "observation", "decision"})
"""Keys of `extra`, or of an imported step, that an observation may not use."""
_BULKY = ("messages", "response")
_DECIDED = ("memory", "parse_error", "metadata")


class StepWriter:
    """Converts the steps of one episode."""

    def __init__(self, files: FilesBeside, tell: Tell, keep_messages: bool) -> None:
        self._files = files
        self._tell = tell
        self._keep_messages = keep_messages

    def plain(self, value: Any) -> Any:
        """Return a value as JSON data, with its bytes written to files."""
        return plain(value, self._beside)

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record's fields as JSON data."""
        return {name: self.plain(value) for name, value in fields.items()}

    def steps(self, episode: EpisodeTrajectory) -> list[dict[str, Any]]:
        """Return the steps, without their ids."""
        steps = list(episode.steps)
        made = list(self._system_prompt(steps))
        if steps and steps[0].first:
            made.append(self._first(episode.info.goal, steps.pop(0)))
        else:
            # ATIF does not allow an empty trajectory, and the goal is known.
            made.append({"source": "user", "message": unicode_text(episode.info.goal)})
            what = "a step of the user with the goal is put first"
            self._tell("steps", f"the episode has no FIRST step; {what}")
        made += [self._turn(step) for step in steps]
        return made

    def _system_prompt(self, steps: list[StepRecord]) -> Iterator[dict[str, Any]]:
        calls = (call for step in steps if step.decision for call in step.decision.model_calls)
        message = next((call.messages[0] for call in calls if call.messages), None)
        if isinstance(message, Mapping) and message.get("role") == "system":
            content = message.get("content")
            if isinstance(content, str):
                yield {"source": "system", "message": unicode_text(content)}

    def _first(self, goal: str, step: StepRecord) -> dict[str, Any]:
        parts = self._pictures(step.observation)
        message: Any = unicode_text(goal)
        if parts:
            message = [{"type": "text", "text": message}, *parts]
        extra = self._observation_fields(step.observation)
        if step.ignored_action is not None:
            extra["ignored_action"] = self.plain(step.ignored_action)
        return {"source": "user", "message": message, **self._time(step), **_some(extra=extra)}

    def _turn(self, step: StepRecord) -> dict[str, Any]:
        calls = [] if step.action is None else [self._tool_call(step)]
        extra = self._observation_fields(step.observation)
        if not calls and (decided := self._decision_fields(step)):
            extra["decision"] = decided
        for name in ("reward", "discount"):
            if (value := getattr(step, name)) is not None:
                extra[name] = self._number(value, f"steps.{name}")
        results = [{"content": parts}] if (parts := self._pictures(step.observation)) else []
        if results and calls:
            results[0]["source_call_id"] = calls[0]["tool_call_id"]
        return {
            "source": "agent",
            **self._time(step),
            **self._message_fields(step.decision),
            **_some(tool_calls=calls, extra=extra),
            **({"observation": {"results": results}} if results else {}),
        }

    def _tool_call(self, step: StepRecord) -> dict[str, Any]:
        name, arguments = tool_call(step.action, self._beside)
        extra = self._decision_fields(step)
        if isinstance(step.action, str):
            extra["text"] = self.plain(step.action)
        if step.start_time is not None:
            extra["start_time"] = self.plain(step.start_time)
        return {
            "tool_call_id": f"call_{step.index}",
            "function_name": name,
            "arguments": arguments,
            **_some(extra=extra),
        }

    def _decision_fields(self, step: StepRecord) -> dict[str, Any]:
        """Return the fields of the decision behind an action that ATIF has no place for."""
        decision = step.decision
        if decision is None:
            return {}
        chosen = self.plain(decision.action)
        said = {name: self.plain(getattr(decision, name)) for name in _DECIDED}
        said["chosen"] = None if chosen == self.plain(step.action) else chosen
        return {name: value for name, value in said.items() if not is_blank(value)}

    def _message_fields(self, decision: Decision | None) -> dict[str, Any]:
        """Return the message, reasoning and model call fields of a decision."""
        if decision is None:
            return {"message": "", "llm_call_count": 0}
        calls = decision.model_calls
        step: dict[str, Any] = {"message": "", "llm_call_count": len(calls)}
        if decision.thought:
            step["reasoning_content"] = unicode_text(decision.thought)
        if not calls:
            if decision.thought:  # The format forbids a thought with a count of 0.
                del step["llm_call_count"]
            return step
        call = answer(calls) or calls[-1]
        step["message"] = unicode_text(call.text)
        if call.model:
            step["model_name"] = unicode_text(call.model)
        step["metrics"] = self._metrics(call, calls)
        return step

    def _metrics(self, call: ModelCall, calls: tuple[ModelCall, ...]) -> dict[str, Any]:
        metrics: dict[str, Any] = {}
        for name in _COUNTS:
            counts = [c.usage[name] for c in calls if type(c.usage.get(name)) is int]
            if counts:
                metrics[name] = sum(counts)
        for name in ("prompt_token_ids", "completion_token_ids", "logprobs"):
            if values := self.plain(getattr(call, name)):
                if all(type(value) in (int, float) for value in values):
                    metrics[name] = values
                else:
                    self._tell(
                        f"steps.decision.model_calls.{name}",
                        "holds what is not a finite number, and is in metrics.extra",
                    )
        extra = self._rest(call, placed={*metrics, "model", "text"})
        if len(calls) > 1:
            others = (other for other in calls if other is not call)
            extra["other_calls"] = [self._rest(other, placed=()) for other in others]
        return {**metrics, **_some(extra=extra)}

    def _rest(self, call: ModelCall, placed: Collection[str]) -> dict[str, Any]:
        """Return the remaining fields of a model call."""
        rest = {}
        for name, value in filled_fields(call, placed).items():
            if name in _BULKY and not self._keep_messages:
                self._tell(f"steps.decision.model_calls.{name}", "left out, as asked")
            else:
                rest[name] = self.plain(value)
        return rest

    def _observation_fields(self, observation: Any) -> dict[str, Any]:
        """Return an observation as keys of `extra`."""
        if observation is None:
            return {}
        if isinstance(observation, Mapping):
            if all(type(key) is str for key in observation) and not _OWN_KEYS & set(observation):
                # The results already have the screenshot, where readers look for it.
                shot = observation.get("screenshot")
                shown = isinstance(shot, bytes) and image_kind(shot)
                kept = {k: v for k, v in observation.items() if not (shown and k == "screenshot")}
                values = self.plain(kept)
                if "$" not in values:
                    return dict(values)
            self._tell("steps.observation", "has keys of other meaning; it is in extra.observation")
        return {"observation": self.plain(observation)}

    def _pictures(self, value: Any) -> list[dict[str, Any]]:
        """Return the pictures in an observation as message parts, the screenshot first."""
        found: dict[bytes, None] = {}
        if isinstance(value, Mapping):
            found.update(dict.fromkeys(pictures_in(value.get("screenshot"))))
        found.update(dict.fromkeys(pictures_in(value)))
        return [self._beside(data) for data in found]

    def _beside(self, data: bytes) -> Any:
        kind = image_kind(data)
        if kind is not None:
            source = {"media_type": kind[1], "path": self._files.put(data)}
            return {"type": "image", "source": source}
        if not data:
            return {"$": "bytes", "v": ""}
        return {"type": "file", "path": self._files.put(data), "size": len(data)}

    def _number(self, value: Any, field: str) -> Any:
        number = self.plain(value)
        if type(number) not in (int, float):
            self._tell(field, "is not a finite number; it is there as plain JSON")
        return number

    def _time(self, step: StepRecord) -> dict[str, str]:
        if step.end_time is None:
            return {}
        try:
            time = datetime.datetime.fromtimestamp(step.end_time, datetime.UTC)
        except (ValueError, OverflowError, OSError):
            self._tell("steps.end_time", f"{step.end_time!r:.40} is no time of the calendar")
            return {}
        return {"timestamp": time.isoformat()}


def _some(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


_IN_EXTRA = ("task", "seed", "site", "environment")
_PLACED = ("goal", "policy", *_IN_EXTRA)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtifExporter:
    """Writes ATIF files."""

    version: ClassVar[int] = 2
    libraries: ClassVar[tuple[str, ...]] = ()

    messages: bool = True
    """Whether to keep the model calls' messages and raw replies in `metrics.extra`."""
    schema_version: Literal["1.7", "1.8"] = "1.8"
    """The version of the format; for readers that do not know the newest."""

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        files = FilesBeside(job.folder)
        for episode in job.episodes:
            tell = functools.partial(job.ledger.note, episode.episode_id)
            data = _trajectory(episode, StepWriter(files, tell, self.messages), tell)
            data["schema_version"] = f"ATIF-v{self.schema_version}"
            data["extra"]["superseded"] = episode.episode_id in job.ledger.superseded
            name = f"{episode.episode_id}.json"
            path = job.folder / name
            path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
            _check(orjson.loads(path.read_bytes()), data, name, files)
            job.ledger.wrote(episode)


def _trajectory(episode: EpisodeTrajectory, writer: StepWriter, tell: Tell) -> dict[str, Any]:
    steps = writer.steps(episode)
    info, end = episode.info, episode.end
    model = next((step["model_name"] for step in steps if "model_name" in step), None)
    totals = _totals(step.get("metrics", {}) for step in steps)
    reason = episode.end_reason.name.lower()
    why = name_of_end(episode.outcome, episode.end_reason)
    return _without_none(
        {
            "schema_version": SCHEMA_VERSION,
            "session_id": info.episode_id,
            "trajectory_id": info.episode_id,
            "agent": _without_none(
                {
                    "name": unicode_text(info.policy) or "unknown",
                    "version": unicode_text(info.versions.get(info.policy, "unknown")),
                    "model_name": model,
                }
            ),
            "steps": [{"step_id": i + 1, **step} for i, step in enumerate(steps)],
            "notes": None if episode.finished else f"The episode did not come to its end: {why}.",
            "final_metrics": {**totals, "total_steps": len(steps)},
            "extra": {
                **{name: plain(getattr(info, name)) for name in _IN_EXTRA},
                **_total_reward(episode),
                "end_reason": reason,
                "outcome": episode.outcome.name.lower(),
                "webtraj": {
                    "version": webtraj.__version__,
                    "info": writer.fields(filled_fields(info, _PLACED)),
                    "end": None if end is None else writer.fields(end_fields(end)),
                    **_step_indices(episode),
                    "start_time": plain(episode.start_time),
                    "end_time": plain(episode.end_time),
                },
            },
        }
    )


def _total_reward(episode: EpisodeTrajectory) -> dict[str, Any]:
    """Return the total reward, or nothing if the episode was not scored."""
    total = episode.total_reward
    return {} if total is None else {"reward": plain(total)}


def _step_indices(episode: EpisodeTrajectory) -> dict[str, Any]:
    """Return the steps' indices if some are missing, since nothing else shows a gap."""
    indices = [step.index for step in episode.steps]
    if episode.lost_step is None:
        return {}
    if not episode.steps[0].first:  # A step of the user stands before it.
        indices = [0, *(index + 1 for index in indices)]
    return {"step_indices": indices}


def _totals(metrics: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    known = list(metrics)
    return {
        f"total_{name}": sum(item.get(name, 0) for item in known)
        for name in _COUNTS
        if any(name in item for item in known)
    }


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}


def _check(found: Any, data: Mapping[str, Any], name: str, files: FilesBeside) -> None:
    """Check a file that was read back.

    Raises:
        StorageError: It differs from what was written, or is not valid ATIF.
    """
    if found != data:
        raise base.unequal(name, "content")
    try:
        trajectory = Trajectory.model_validate(found)
    except pydantic.ValidationError as error:
        raise errors.StorageError(
            f"{name!r} does not follow {data['schema_version']}: {error!s:.500}. Nothing was "
            "exported. Please report this as a bug."
        ) from error
    for step in trajectory.steps:
        for part in _all_parts(step):
            if part.source is not None and part.source.path not in files:
                raise base.unequal(part.source.path, "a picture")


def _all_parts(step: Step) -> Iterator[ContentPart]:
    """Yield the parts of a step's message and of its observation."""
    results = step.observation.results if step.observation else []
    for content in (step.message, *(result.content for result in results)):
        if isinstance(content, list):
            yield from content
