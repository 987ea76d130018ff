"""ATIF v1.8, the Agent Trajectory Interchange Format, as models that check all of its rules.

Fields and rules are those of the format's own models (Harbor 0.25). Nothing that the format does
not know may stand in a file but under `extra`.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal, Self

import pydantic

__all__ = ["SCHEMA_VERSION", "Trajectory", "check"]

SCHEMA_VERSION = "ATIF-v1.8"

_AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_MODELS_OWN = ("metrics", "reasoning_content")
_Extra = dict[str, Any] | None


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class ImageSource(_Model):
    """Where a picture is."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class AudioSource(_Model):
    """Where a sound is."""

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
    """Names the trajectory of a subagent."""

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
    """What one action led to."""

    source_call_id: str | None = None
    content: str | list[ContentPart] | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: _Extra = None


class Observation(_Model):
    """What the actions of a step led to."""

    results: list[ObservationResult]


class Metrics(_Model):
    """What a model call cost, and its tokens."""

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
    """Who acted."""

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

    schema_version: Literal["ATIF-v1.8"]
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


def check(data: Any) -> Trajectory:
    """Returns a trajectory, given as parsed JSON, if it follows ATIF v1.8.

    Raises:
        pydantic.ValidationError: It does not.
    """
    return Trajectory.model_validate(data)
