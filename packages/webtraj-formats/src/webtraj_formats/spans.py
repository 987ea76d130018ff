"""An episode's OpenTelemetry spans, by the GenAI semantic conventions: one trace per episode.

Spans, with the recorded times::

    invoke_agent <policy>           the episode
      reset                         the first timestep
      step                          from one observation to the next
        chat <model>                each model call of the decision
        execute_tool <action>       the action in the environment

Attributes are those of the conventions (`gen_ai.*`, `error.type`), and `webtraj.*` for what they
lack: task, seed, reward, discount, outcome, end reason. Verdicts are `gen_ai.evaluation.result`
events. What was said (goal, messages, arguments, results, reasons) is written only on request
(`content`), and pictures only as their hash.

Trace and span ids follow from the episode's id, so sending an episode again adds nothing new to a
backend, and an episode has the same ids live and in a file. Where the spans go is not decided here:
`exporters.otel` writes them to a file, `webtraj-integrations` sends them. Needs the extra `otel`.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

import webtraj
from webtraj import errors
from webtraj.datasets.exporters.plain import (
    as_list,
    image_kind,
    inside,
    message_parts,
    plain,
    token_counts,
    tool_call,
    unicode_text,
)
from webtraj.trajectory import (
    LAST_TIME,
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Judgement,
    ModelCall,
    Outcome,
    StepRecord,
    ended_in_error,
    is_scored,
    name_of_end,
    reward_value,
)

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as error:
    raise errors.missing_dependency(
        "OpenTelemetry needs opentelemetry-sdk", "otel", package="webtraj-formats"
    ) from error

__all__ = [
    "EpisodeIds",
    "EpisodeSpans",
    "SAMPLING",
    "first_time",
    "spans_maker",
]

_MOST_TEXT = 500
"""The most characters of an error's message in a span's status."""
_NO_MODEL = "webtraj"
"""`gen_ai.provider.name` of an agent that called no model."""
SAMPLING = {
    "temperature": float, "top_p": float, "top_k": float, "max_tokens": int, "seed": int,
    "frequency_penalty": float, "presence_penalty": float,
}  # fmt: skip
"""Sampling parameters with an attribute of their own, and its type."""


class EpisodeIds(IdGenerator):
    """Generates ids from an episode's id and a span's position in the episode."""

    def __init__(self) -> None:
        self._next = threading.local()

    def name(self, episode_id: str, place: str) -> None:
        """Set the ids of the next span that this thread starts."""
        self._next.ids = (_hash(f"trace/{episode_id}", 16), _hash(f"{episode_id}/{place}", 8))

    def generate_trace_id(self) -> int:
        """See `IdGenerator.generate_trace_id`."""
        trace_id: int = self._next.ids[0]
        return trace_id

    def generate_span_id(self) -> int:
        """See `IdGenerator.generate_span_id`."""
        span_id: int = self._next.ids[1]
        return span_id


def _hash(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size]) or 1


class EpisodeSpans:
    """The spans of one episode, made as its steps come.

    Args:
        provider: Makes the spans, and decides where they go.
        info: The episode's info.
        start_time: When it began.
        content: Whether to include texts, such as messages and arguments.
        ids: The provider's id generator, if it is an `EpisodeIds`.
        within: The context of the episode's span. By default, the span begins a trace.
        superseded: Whether another try of its row counts; None if it is not known.
    """

    def __init__(
        self,
        provider: trace.TracerProvider,
        info: EpisodeInfo,
        start_time: float | None,
        *,
        content: bool = False,
        ids: EpisodeIds | None = None,
        within: Context | None = None,
        superseded: bool | None = None,
    ) -> None:
        self._superseded = superseded
        self._tracer = provider.get_tracer("webtraj", webtraj.__version__)
        self.info = info
        self._content = content
        self._ids = ids
        self._clock = _nanoseconds(start_time)
        self._calls: list[ModelCall] = []
        self._reward: float | None = None
        self._num_steps = 0
        self._root = self._start(
            "", "invoke_agent", Context() if within is None else within, self._clock or 0,
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": info.episode_id},
        )  # fmt: skip

    def step(self, step: StepRecord) -> None:
        """Write the spans of a step that has just been recorded."""
        ended = _nanoseconds(step.end_time)
        acted = _nanoseconds(step.start_time)
        if self._clock is None:  # No time is known before: the step begins with its action.
            self._clock = acted or ended or 0
        start = self._clock
        end = max(start, ended or acted or start)
        if step.first:
            start = min(max(start, acted or start), end)
        if step.reward is not None and not step.first:
            self._reward = (self._reward or 0.0) + reward_value(step.reward)
        self._num_steps += not step.first
        span = self._start(
            f"steps/{step.index}",
            "reset" if step.first else "step",
            self._within(self._root),
            start,
            {
                "gen_ai.conversation.id": self.info.episode_id,
                "webtraj.step.index": step.index,
                "webtraj.step.type": step.step_type.name.lower(),
                "webtraj.reward": None if step.reward is None else _finite(step.reward),
                "webtraj.discount": None if step.discount is None else _finite(step.discount),
                "webtraj.parse_failed": bool(step.decision and step.decision.parse_error) or None,
            },
        )
        inner = self._within(span)
        acted = end if acted is None else min(max(acted, start), end)
        self._chats(f"steps/{step.index}", step.decision, inner, start, acted)
        if not step.first and step.action is not None:
            self._tool(step, inner, acted, end)
        span.end(end)
        self._clock = max(self._clock, end)

    def end(self, end: EpisodeEnd | None, end_time: float | None) -> None:
        """Write what is left, and the span of the whole episode."""
        info, root = self.info, self._root
        end = end or EpisodeEnd(reason=EndReason.UNKNOWN)
        clock = self._clock or 0
        self._chats("in_flight", end.in_flight_decision, self._within(root), clock, clock)
        calls = self._calls
        usage = [_usage(call) for call in calls]
        name = unicode_text(info.policy)
        root.update_name(f"invoke_agent {name}" if name else "invoke_agent")
        known = {
            "gen_ai.provider.name": next((c.provider for c in calls if c.provider), _NO_MODEL),
            "gen_ai.request.model": next((c.model for c in calls if c.model), None),
            "gen_ai.agent.name": name or None,
            "gen_ai.agent.version": info.versions.get(info.policy),
            "webtraj.task": info.task or None,
            "webtraj.site": info.site or None,
            "webtraj.seed": info.seed if _is_int64(info.seed) else None,
            "webtraj.environment": info.environment or None,
            "webtraj.group_id": info.group_id or None,
            "webtraj.attempt": info.attempt,
            "webtraj.retry_of": info.retry_of or None,
            "webtraj.superseded": self._superseded,
            "webtraj.num_steps": self._num_steps,
            "webtraj.end_reason": end.reason.name.lower(),
            "webtraj.outcome": end.outcome.name.lower(),
            "webtraj.reward": (
                _finite(self._reward) if is_scored(end.outcome, end.reason) else None
            ),
        }
        for key in sorted({key for counts in usage for key in counts}):
            known[key] = sum(counts.get(key, 0) for counts in usage)
        if self._content and info.goal:
            known["gen_ai.input.messages"] = _json([_message({"content": info.goal})])
        root.set_attributes(_without_nulls(known))
        last = max(clock, _nanoseconds(end_time) or clock)
        for judgement in end.judgements:
            self._verdict(judgement, last)
        self._end_status(end)
        root.end(last)

    def _end_status(self, end: EpisodeEnd) -> None:
        """Set the error status of an episode that broke. An agent's failure is not an error."""
        if end.error is not None:
            _fail(self._root, end.error.type, end.error.message)
        elif ended_in_error(end.outcome, end.reason) or end.reason is EndReason.CANCELLED:
            _fail(self._root, name_of_end(end.outcome, end.reason), end.detail)

    def _chats(
        self, place: str, decision: Decision | None, within: Context, start: int, before: int
    ) -> None:
        """Write the model calls of a decision, in the time from `start` to `before`."""
        for number, call in enumerate(decision.model_calls if decision else ()):
            self._calls.append(call)
            begun = _nanoseconds(call.start_time)
            begun = start if begun is None else begun
            latency = call.latency
            if latency is not None and 0 <= latency < LAST_TIME:
                start = begun + int(latency * 1e9)
            else:
                start = max(before, begun)
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": call.provider or "_OTHER",
                "gen_ai.request.model": call.model or None,
                "gen_ai.conversation.id": self.info.episode_id,
                "gen_ai.response.finish_reasons": [call.finish_reason]
                if call.finish_reason
                else None,
                "webtraj.policy_version": call.policy_version or None,
                **_sampling_attributes(call.sampling),
                **_response(call.response),
                **_usage(call),
            }
            if self._content:
                attributes["gen_ai.input.messages"] = _json([_message(m) for m in call.messages])
                if call.text:
                    said = {
                        "role": "assistant",
                        "content": call.text,
                        "finish_reason": call.finish_reason,
                    }
                    attributes["gen_ai.output.messages"] = _json([_message(said)])
            name = unicode_text(f"chat {call.model}".strip())
            span = self._start(
                f"{place}/calls/{number}", name, within, begun, attributes, SpanKind.CLIENT
            )
            for attempt in call.failed_attempts:
                told = {
                    "error.type": unicode_text(attempt.error) or "_OTHER",
                    "http.response.status_code": attempt.status,
                    "webtraj.latency": _finite(attempt.latency),
                }
                failed_at = _nanoseconds(attempt.start_time)
                span.add_event(
                    "webtraj.failed_attempt",
                    {name: value for name, value in told.items() if value is not None},
                    begun if failed_at is None else failed_at,
                )
            if call.error:
                _fail(span, "model_error", call.error)
            span.end(start)

    def _tool(self, step: StepRecord, within: Context, start: int, end: int) -> None:
        name, arguments = tool_call(step.action, _hash_part)
        url = inside(step.observation, "url")
        error = inside(step.observation, "last_action", "error")
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": f"call_{step.index}",
            "gen_ai.conversation.id": self.info.episode_id,
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json(arguments)
            result = {"url": url, "error": error}
            if said := {key: value for key, value in result.items() if isinstance(value, str)}:
                attributes["gen_ai.tool.call.result"] = _json(said)
        span = self._start(
            f"steps/{step.index}/action", f"execute_tool {name}", within, start, attributes
        )
        if isinstance(error, str) and error:
            kind = inside(step.observation, "last_action", "error_kind")
            # The message may quote the page, so it counts as content.
            _fail(span, str(kind or "_OTHER"), error if self._content else "")
        span.end(end)

    def _verdict(self, judgement: Judgement, last: int) -> None:
        known: dict[str, Any] = {
            "gen_ai.evaluation.name": unicode_text(judgement.judge),
            "gen_ai.evaluation.score.value": _finite(judgement.reward),
            "gen_ai.evaluation.score.label": judgement.outcome.name.lower(),
            "gen_ai.evaluation.explanation": judgement.reason if self._content else None,
            "webtraj.judge.version": judgement.version or None,
        }
        if judgement.outcome is Outcome.JUDGE_ERROR:
            known["error.type"] = "judge_error"
        time = _nanoseconds(judgement.time)
        self._root.add_event("gen_ai.evaluation.result", _without_nulls(known), time or last)

    def _start(
        self,
        place: str,
        name: str,
        within: Context,
        start: int,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> trace.Span:
        if self._ids is not None:
            self._ids.name(self.info.episode_id, place)
        known = _without_nulls(attributes)
        return self._tracer.start_span(name, within, kind, known, start_time=start)

    def _within(self, span: trace.Span) -> Context:
        return trace.set_span_in_context(span, Context())


def _fail(span: trace.Span, kind: str, message: str) -> None:
    span.set_attribute("error.type", unicode_text(kind))
    span.set_status(Status(StatusCode.ERROR, unicode_text(message)[:_MOST_TEXT] or None))


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known values, in types that OpenTelemetry accepts."""
    return {
        key: unicode_text(value) if isinstance(value, str) else value
        for key, value in values.items()
        if value is not None
    }


def _nanoseconds(time: float | None) -> int | None:
    """Return a time in nanoseconds since the epoch; None if it is not known or not a time."""
    return int(time * 1e9) if time is not None and 0 <= time < LAST_TIME else None


def _finite(number: Any) -> float | None:
    value = reward_value(number)
    return value if number is not None and math.isfinite(value) else None


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _number(value: Any, kind: type[int] | type[float]) -> int | float | None:
    """Return a number that an attribute can hold; None for any other value."""
    if not isinstance(value, (int, float)):
        return None
    try:
        made = kind(value)
    except (OverflowError, ValueError):  # Not finite, or too large.
        return None
    return made if (_is_int64(made) if kind is int else math.isfinite(made)) else None


def _sampling_attributes(sampling: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in SAMPLING.items():
        value = _number(sampling.get(name), kind)
        if value is not None:
            found[f"gen_ai.request.{name}"] = value
    stop = sampling.get("stop")
    stop = [stop] if isinstance(stop, str) else stop
    if isinstance(stop, (list, tuple)) and stop and all(isinstance(item, str) for item in stop):
        found["gen_ai.request.stop_sequences"] = [unicode_text(item) for item in stop]
    return found


def _response(response: Any) -> dict[str, Any]:
    found = response if isinstance(response, Mapping) else {}
    return {
        f"gen_ai.response.{name}": found[name]
        for name in ("id", "model")
        if isinstance(found.get(name), str) and found[name]
    }


_COUNTS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read.input_tokens",
    "cache_write": "cache_creation.input_tokens",
}


def _usage(call: ModelCall) -> dict[str, int]:
    counts = token_counts(call)
    return {f"gen_ai.usage.{_COUNTS[name]}": count for name, count in counts.items()}


def _message(message: Any) -> dict[str, Any]:
    """Return a message in the form of the conventions: a role and parts."""
    given = message if isinstance(message, Mapping) else {"content": message}
    role = str(given.get("role") or "user")
    if role == "tool":
        response = plain(given.get("content"), _hash_part)
        parts = [{"type": "tool_call_response", "id": given.get("tool_call_id"),
                  "response": response}]  # fmt: skip
    else:
        parts = list(_parts(given.get("content")))
        for call in as_list(given.get("tool_calls")):
            parts.append(_call_part(call))
    made = {"role": role, "parts": parts}
    if "finish_reason" in given:
        made["finish_reason"] = given["finish_reason"]
    return made


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    for part in message_parts(content):
        if isinstance(part, str):
            yield {"type": "text", "content": part}
        elif isinstance(part, bytes):
            yield _hash_part(part)
        else:
            kind = part.get("type") if isinstance(part, Mapping) else None
            yield {"type": str(kind or "json"), "content": plain(part, _hash_part)}


def _call_part(call: Any) -> dict[str, Any]:
    found = call if isinstance(call, Mapping) else {}
    function = found.get("function")
    function = function if isinstance(function, Mapping) else {}
    return {
        "type": "tool_call",
        "id": found.get("id"),
        "name": function.get("name"),
        "arguments": plain(function.get("arguments"), _hash_part),
    }


def _hash_part(data: bytes) -> dict[str, Any]:
    """Return a part that names bytes by their hash, like the dataset's blobs."""
    kind = image_kind(data)
    return {
        "type": "uri",
        "modality": "image" if kind else "file",
        "mime_type": kind[1] if kind else "application/octet-stream",
        "uri": f"urn:sha256:{hashlib.sha256(data).hexdigest()}",
    }


def _json(value: Any) -> str:
    return orjson.dumps(plain(value, _hash_part)).decode()


def spans_maker(resource: Resource, *, content: bool) -> Callable[..., list[ReadableSpan]]:
    """Return a function that returns a recorded episode's spans.

    Raises:
        InvalidInputError: The environment disables OpenTelemetry.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        raise errors.InvalidInputError(
            "OTEL_SDK_DISABLED=true turns OpenTelemetry off, so no traces can be made. Unset it."
        )
    kept, ids = InMemorySpanExporter(), EpisodeIds()
    provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(SimpleSpanProcessor(kept))

    def spans_of(
        episode: EpisodeTrajectory, *, superseded: bool | None = None
    ) -> list[ReadableSpan]:
        made = EpisodeSpans(
            provider, episode.info, first_time(episode), content=content, ids=ids,
            superseded=superseded,
        )  # fmt: skip
        for step in episode.steps:
            made.step(step)
        made.end(episode.end, episode.end_time)
        spans = list(kept.get_finished_spans())
        kept.clear()
        return spans

    return spans_of


def first_time(episode: EpisodeTrajectory) -> float | None:
    """Return the first time of an episode that is known."""
    times = [episode.start_time]
    for step in episode.steps:
        times += [call.start_time for call in step.decision.model_calls] if step.decision else []
        times += [step.start_time, step.end_time]
    return next((time for time in times if _nanoseconds(time) is not None), None)
