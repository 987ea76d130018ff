"""Logs of Inspect, the UK AI Security Institute's evaluation framework: `.eval` files.

::

    <out>/<time>_<name>_<id>.eval      one log per policy, of at most `per_file` episodes

An episode is a sample. Its id is the task with the seed, and repeated attempts are its epochs. The
messages are the goal, and for each step the agent's reply, with the action as a tool call, and its
result: the address, the error and the pictures. The transcript has each model call as it was made,
each action, and the verdict.

Scores: `outcome` is C for a success and I for a failure of the agent; `reward` is the reward. An
episode without a verdict or reward is unscored, and one that the machinery broke has an error
instead of scores, never 0.

inspect_ai writes the files and reads them back. Needs the extra `inspect`.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import functools
import hashlib
import math
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import webtraj
from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import (
    answer,
    as_list,
    filled_fields,
    image_kind,
    inside,
    message_parts,
    note_lost,
    pictures_in,
    plain,
    to_json,
    token_counts,
    tool_call,
    unicode_text,
)
from webtraj.trajectory import (
    LAST_TIME,
    Ending,
    EndReason,
    EpisodeEnd,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    ending_of,
    has_succeeded,
    is_broken,
    is_scored,
    name_of_end,
)

__all__ = ["InspectExporter"]

_NO_MODEL = "none/none"
"""Inspect's name for no model."""
_STOPS = {
    Ending.WHOLE: "stop",
    Ending.CALLED: "tool_calls",
    Ending.CUT: "max_tokens",
    Ending.FILTERED: "content_filter",
}
_SAMPLING = (
    "temperature", "top_p", "top_k", "max_tokens", "seed", "frequency_penalty", "presence_penalty",
)  # fmt: skip
_ROLES = ("system", "user", "assistant")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InspectExporter:
    """Writes `.eval` files."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ("inspect-ai",)

    images: bool = True
    """Whether to keep pictures."""
    per_file: int = 500
    """The most episodes of a file; a file's episodes are in memory together."""

    def __post_init__(self) -> None:
        if self.per_file < 1:
            raise errors.InvalidInputError(f"per_file={self.per_file}; expected at least 1.")

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        library = _library()
        waiting: dict[str, list[dict[str, Any]]] = {}
        epochs: Counter[tuple[str, str]] = Counter()
        numbers: Counter[str] = Counter()

        def write(policy: str) -> None:
            samples = waiting.pop(policy)
            _write(library, job, policy, numbers[policy], samples)
            numbers[policy] += 1

        for episode in job.episodes:
            policy = episode.info.policy
            note_lost(episode, functools.partial(job.ledger.note, episode.episode_id), _SAMPLING)
            sample = _Sample(episode, job.ledger, self.images).sample()
            epochs[policy, sample["id"]] += 1
            sample["epoch"] = epochs[policy, sample["id"]]
            waiting.setdefault(policy, []).append(sample)
            job.ledger.wrote(episode)
            if len(waiting[policy]) == self.per_file:
                write(policy)
        for policy in list(waiting):
            write(policy)


def _library() -> Any:
    try:
        import inspect_ai.log
    except ImportError as error:
        raise errors.missing_dependency(
            "Inspect logs need inspect-ai", "inspect", package="webtraj-formats"
        ) from error
    return inspect_ai.log


class _Sample:
    """Converts one episode."""

    def __init__(self, episode: EpisodeTrajectory, ledger: base.Ledger, images: bool) -> None:
        self._episode = episode
        self._note = functools.partial(ledger.note, episode.episode_id)
        self._superseded = episode.episode_id in ledger.superseded
        self._images = images
        self._end = episode.end or EpisodeEnd(reason=EndReason.UNKNOWN)
        self._begun = _begin(episode)
        self._messages: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._usage: dict[str, Counter[str]] = {}
        self._output: dict[str, Any] = {}

    def sample(self) -> dict[str, Any]:
        """Return the sample, without its epoch."""
        episode, info = self._episode, self._episode.info
        for number, step in enumerate(episode.steps):
            if number == 0 and step.first:
                self._say("user", [info.goal, *self._observation_parts(step.observation)])
            else:
                self._turn(step)
        if not self._messages:
            self._say("user", [info.goal])
        if self._end.in_flight_decision is not None:
            for call in self._end.in_flight_decision.model_calls:
                self._model(call, episode.end_time, None)
        error, scores = self._error(), {}
        if error is None:
            scores = {} if self._superseded else self._scores()
        else:
            self._event("error", episode.end_time, error=error)
        for name, score in scores.items():
            self._event("score", episode.end_time, score=score, scorer=name)
        end = max(self._begun, _valid(episode.end_time) or self._begun)
        seed = "" if info.seed is None else f" seed {info.seed}"
        reason = episode.end_reason.name.lower()
        return {
            "id": unicode_text(f"{info.task}{seed}".strip() or info.episode_id),
            "uuid": info.episode_id,
            "input": unicode_text(info.goal),
            "target": "",
            "messages": self._messages,
            "output": self._output,
            "scores": scores or None,
            "metadata": {
                "episode_id": info.episode_id,
                **{name: plain(getattr(info, name)) for name in _IN_METADATA},
                "end_reason": reason,
                "outcome": episode.outcome.name.lower(),
                "superseded": self._superseded,
                "num_steps": episode.num_steps,
                **({"metadata": plain(info.metadata)} if info.metadata else {}),
            },
            "events": self._events,
            "model_usage": {name: dict(counts) for name, counts in self._usage.items()},
            "started_at": _iso(self._begun),
            "completed_at": _iso(end),
            "total_time": end - self._begun,
            "working_time": end - self._begun,
            "error": error,
            "limit": {"type": "custom", "limit": episode.num_steps} if episode.truncated else None,
        }

    def _turn(self, step: StepRecord) -> None:
        """Add a reply of the agent, and what its action led to."""
        decision = step.decision
        calls = decision.model_calls if decision else ()
        chosen = answer(calls)
        place = f"step {step.index}"
        self._event("span_begin", step.start_time, id=place, name=place, span_id=place)
        for call in calls:
            self._model(call, step.start_time, place)
        called: dict[str, Any] | None = None
        if step.action is not None:
            name, arguments = tool_call(step.action)
            identity = f"call_{step.index}"
            called = {"id": identity, "function": name, "arguments": arguments, "type": "function"}
        said: list[dict[str, Any]] = []
        if decision is not None and decision.thought:
            said.append({"type": "reasoning", "reasoning": unicode_text(decision.thought)})
        if chosen is not None and chosen.text:
            said.append(_text(chosen.text))
        reply: dict[str, Any] = {"tool_calls": [called]} if called else {}
        if chosen is not None and chosen.model:
            reply["model"] = unicode_text(chosen.model)
        self._message({"role": "assistant", "content": said, **reply})
        seen = list(self._parts(self._observation_parts(step.observation)))
        if called is None:
            self._message({"role": "user", "content": seen})
        else:
            self._tool(step, called, seen, place)
        self._event("span_end", step.end_time, id=place, span_id=place)

    def _tool(
        self, step: StepRecord, called: dict[str, Any], seen: list[dict[str, Any]], place: str
    ) -> None:
        refused = _refusal(step.observation)
        error = {"type": "unknown", "message": refused} if refused else None
        self._event(
            "tool", step.start_time, id=called["id"], function=called["function"],
            arguments=called["arguments"], result=seen, error=error, span_id=place,
            completed=_iso(_valid(step.end_time)), failed=bool(refused) or None,
        )  # fmt: skip
        self._message(
            {
                "role": "tool",
                "content": seen,
                "tool_call_id": called["id"],
                "function": called["function"],
                "error": error,
            }
        )

    def _model(self, call: ModelCall, otherwise: float | None, place: str | None) -> None:
        name = _model_name(call)
        counts = token_counts(call)
        usage = {
            "input_tokens": counts.get("input", 0),
            "output_tokens": counts.get("output", 0),
            "total_tokens": counts.get("input", 0) + counts.get("output", 0),
        }
        if "cache_read" in counts:
            usage["input_tokens_cache_read"] = counts["cache_read"]
        if "cache_write" in counts:
            usage["input_tokens_cache_write"] = counts["cache_write"]
        if counts:
            self._usage.setdefault(name, Counter()).update(usage)
        number = len(self._events)
        said = {
            "role": "assistant",
            "content": unicode_text(call.text),
            "id": self._id(f"r{number}"),
        }
        stop = _STOPS.get(ending_of(call.finish_reason), "unknown")
        choice = {"message": said, "stop_reason": stop}
        output: dict[str, Any] = {"model": name, "choices": [] if call.error else [choice]}
        if not call.error:
            output["completion"] = said["content"]
        output |= {"usage": usage if counts else None, "time": _valid(call.latency)}
        attempts = call.failed_attempts
        rest = {
            "policy_version": unicode_text(call.policy_version),
            "failed_attempts": [plain(filled_fields(attempt)) for attempt in attempts],
        }
        begun = _valid(call.start_time)
        done = None if begun is None else begun + (_valid(call.latency) or 0.0)
        self._event(
            "model", otherwise if begun is None else begun, model=name,
            input=[self._input_message(m, f"{number}.{at}") for at, m in enumerate(call.messages)],
            tools=[], tool_choice="auto", config=_config(call.sampling), output=output,
            error=unicode_text(call.error) or None, completed=_iso(done), span_id=place,
            working_time=_valid(call.latency),
            retries=len(attempts) - bool(call.error and attempts),
            metadata={name: value for name, value in rest.items() if value} or None,
        )  # fmt: skip
        if not call.error:
            self._output = output

    def _input_message(self, message: Any, number: str) -> dict[str, Any]:
        """Return a message to a model. A role that Inspect lacks becomes the user's."""
        given = message if isinstance(message, Mapping) else {"content": message}
        role = given.get("role")
        parts = [*message_parts(given.get("content")), *as_list(given.get("tool_calls"))]
        return {
            "role": role if role in _ROLES else "user",
            "content": list(self._parts(parts)),
            "id": self._id(f"m{number}"),
        }

    def _observation_parts(self, observation: Any) -> list[Any]:
        """Return what an observation shows, as parts of a message."""
        if observation is None:
            return []
        url = inside(observation, "url")
        if not isinstance(url, str):
            return list(pictures_in(observation)) or [observation]
        self._note("steps.observation", "only its address, error and pictures are kept")
        refused = _refusal(observation)
        shown = dict.fromkeys(pictures_in(observation.get("screenshot")))
        return [url, *([refused] if refused else []), *shown]

    def _parts(self, parts: Iterable[Any]) -> Iterator[dict[str, Any]]:
        for part in parts:
            if isinstance(part, str):
                yield _text(part)
            elif isinstance(part, bytes) and (kind := image_kind(part)):
                if self._images:
                    data = base64.b64encode(part).decode()
                    yield {"type": "image", "image": f"data:{kind[1]};base64,{data}"}
                else:
                    yield _text(f"[{kind[1]}, {len(part)} bytes]")
            else:
                yield _text(to_json(part))

    def _say(self, role: str, parts: Iterable[Any]) -> None:
        self._message({"role": role, "content": list(self._parts(parts))})

    def _message(self, message: dict[str, Any]) -> None:
        self._messages.append({**message, "id": self._id(f"{len(self._messages)}")})

    def _event(self, kind: str, time: float | None, **fields: Any) -> None:
        at = max(self._begun, _valid(time) or self._begun)
        self._events.append(
            {
                "event": kind,
                "uuid": self._id(f"e{len(self._events)}"),
                "timestamp": _iso(at),
                "working_start": at - self._begun,
                **{name: value for name, value in fields.items() if value is not None},
            }
        )

    def _id(self, place: str) -> str:
        return _hash(f"{self._episode.episode_id}/{place}")

    def _error(self) -> dict[str, str] | None:
        """Return what broke the episode; None if nothing did."""
        end = self._end
        outcome, found = end.outcome, end.error
        if has_succeeded(outcome, end.reason) is not None:
            return None
        cancelled = outcome is Outcome.CANCELLED or end.reason is EndReason.CANCELLED
        if not (is_broken(outcome, end.reason) or cancelled or found is not None):
            return None
        message = name_of_end(outcome, end.reason)
        if found is not None:
            message = f"{message}: {found.type}: {found.message}"
        elif end.detail:
            message = f"{message}: {end.detail}"
        traceback = unicode_text(found.traceback) if found is not None else ""
        return {
            "message": unicode_text(message),
            "traceback": traceback,
            "traceback_ansi": traceback,
        }

    def _scores(self) -> dict[str, dict[str, Any]]:
        episode = self._episode
        decided = [item for item in self._end.judgements if item.outcome is not Outcome.UNKNOWN]
        verdict = decided[-1] if decided else None
        scores: dict[str, dict[str, Any]] = {}
        success = has_succeeded(episode.outcome, episode.end_reason)
        if success is not None:
            scores["outcome"] = {"value": "C" if success else "I"}
            if verdict is not None and verdict.reason:
                scores["outcome"]["explanation"] = unicode_text(verdict.reason)
        reward = None
        if is_scored(episode.outcome, episode.end_reason):
            reward = episode.total_reward if verdict is None else verdict.reward
        if reward is not None and math.isfinite(reward):
            scores["reward"] = {"value": float(reward)}
        elif reward is not None:
            self._note("steps.reward", "is not a finite number; the sample has no reward")
        return scores


_IN_METADATA = (
    "task", "site", "seed", "policy", "environment", "group_id", "attempt", "retry_of", "versions",
)  # fmt: skip


def _write(
    library: Any, job: base.Job, policy: str, number: int, samples: list[dict[str, Any]]
) -> None:
    """Write a log, and read it back.

    Raises:
        StorageError: It reads back differently.
    """
    made = library.EvalLog.model_validate(_log(job.name, policy, number, samples))
    created = made.eval.created[:19].replace(":", "-")
    task = re.sub(r"[^A-Za-z0-9-]+", "-", made.eval.task)
    path = job.folder / f"{created}_{task}_{made.eval.task_id}.eval"
    made.samples = [library.condense_sample(sample) for sample in made.samples]
    library.write_eval_log(made, str(path))
    _without_times(path)
    read = library.read_eval_log(str(path))
    if _kernels(read.samples) != _kernels(made.samples):
        raise base.unequal(path.name, "a sample")


def _kernels(samples: list[Any]) -> dict[str, Any]:
    """Return the parts of each sample that must survive, by sample, since Inspect reorders them."""
    kept = {"id", "epoch", "messages", "scores", "error", "metadata", "attachments"}
    return {sample.uuid: sample.model_dump(include=kept) for sample in samples}


def _log(name: str, policy: str, number: int, samples: list[dict[str, Any]]) -> dict[str, Any]:
    usage: dict[str, Counter[str]] = {}
    for sample in samples:
        for model, counts in sample["model_usage"].items():
            usage.setdefault(model, Counter()).update(counts)
    models = Counter(
        event["model"]
        for sample in samples
        for event in sample["events"]
        if event["event"] == "model" and "error" not in event
    )
    log_id = _hash(f"{name}/{policy}/{number}/" + "/".join(s["uuid"] for s in samples))
    ids = list(dict.fromkeys(sample["id"] for sample in samples))
    started = min(sample["started_at"] for sample in samples)
    completed = max(sample["completed_at"] for sample in samples)
    metrics = _metrics(samples)
    return {
        "status": "success",
        "eval": {
            "created": started,
            "eval_id": log_id,
            "run_id": log_id,
            "task": unicode_text(name),
            "task_id": log_id,
            "solver": unicode_text(policy) or None,
            "dataset": {"name": unicode_text(name), "samples": len(ids), "sample_ids": ids},
            "model": models.most_common(1)[0][0] if models else _NO_MODEL,
            "config": {"epochs": max(sample["epoch"] for sample in samples)},
            "packages": {"webtraj": webtraj.__version__},
            "metadata": {"policy": unicode_text(policy), "models": dict(models)},
            "scorers": [{"name": metric["name"]} for metric in metrics] or None,
        },
        "results": {
            "total_samples": len(samples),
            "completed_samples": sum(sample["error"] is None for sample in samples),
            "scores": metrics,
        },
        "stats": {"started_at": started, "completed_at": completed, "model_usage": usage},
        "samples": samples,
    }


def _metrics(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for name, metric in (("outcome", "accuracy"), ("reward", "mean")):
        values = [
            {"C": 1.0, "I": 0.0}.get(score["value"], score["value"])
            for sample in samples
            if (score := (sample["scores"] or {}).get(name)) is not None
        ]
        if values:
            value = {"name": metric, "value": math.fsum(values) / len(values)}
            found.append(
                {
                    "name": name,
                    "scorer": name,
                    "scored_samples": len(values),
                    "unscored_samples": len(samples) - len(values),
                    "metrics": {metric: value},
                }
            )
    return found


def _without_times(path: Path) -> None:
    """Set the times in a ZIP file to 1980, so that the same episodes give the same bytes."""
    data = bytearray(path.read_bytes())
    with contextlib.closing(zipfile.ZipFile(path)) as archive:
        entries, at = archive.infolist(), archive.start_dir
    for entry in entries:
        struct.pack_into("<HH", data, entry.header_offset + 10, 0, 33)
        struct.pack_into("<HH", data, at + 12, 0, 33)
        at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    path.write_bytes(data)


def _refusal(observation: Any) -> str:
    """Return the error of an action that the page refused; empty if there is none."""
    error = inside(observation, "last_action", "error")
    return unicode_text(error) if isinstance(error, str) else ""


def _model_name(call: ModelCall) -> str:
    return unicode_text("/".join(name for name in (call.provider, call.model) if name)) or _NO_MODEL


def _config(sampling: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name in _SAMPLING
        if isinstance(value := sampling.get(name), (int, float)) and math.isfinite(value)
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": unicode_text(text)}


def _begin(episode: EpisodeTrajectory) -> float:
    """Return the first time that is known; 0 if none is."""
    times = [episode.start_time, *(t for s in episode.steps for t in (s.start_time, s.end_time))]
    return next((time for time in map(_valid, times) if time is not None), 0.0)


def _valid(time: float | None) -> float | None:
    return time if time is not None and 0 <= time < LAST_TIME else None


def _iso(time: float | None) -> str | None:
    if time is None:
        return None
    return datetime.datetime.fromtimestamp(time, datetime.UTC).isoformat()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:22]
