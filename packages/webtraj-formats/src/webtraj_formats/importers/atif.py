"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8: JSON files.

Each agent step becomes a step. Its tool calls are the action; its observation, with the messages
until the next agent step, is the result of the action. Everything before the first agent step is
FIRST's observation::

    {"results": [...], "messages": [{"source", "message", ...}], "screenshot": b"..."}

A single tool call that a dialect can read becomes that action; another stays
`{"name", "arguments"}`, and several become a list. A step with text but no tool call is a message
to the user. Steps copied from an earlier trajectory (`is_copied_context`) are messages, not
actions.

ATIF itself has no rewards, ends or tasks. They are read from these keys of `extra`, if present: at
the root `task`, `seed`, `site`, `environment`, `reward`, `end_reason`, `outcome`, `viewport` (two
numbers); in a step `reward`, `discount`. All other extras of a step go into its observation, those
of the root into `EpisodeInfo.metadata`. From the root's `webtraj`, which webtraj's export writes,
come the numbers of the steps, if some are missing, and the recording errors. Without an
`end_reason` an episode is CLOSED, because its end is unknown. Trajectories of subagents become
separate episodes, with this one as parent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Found, Problem, Skipped, Source
from webtraj.environments import actions
from webtraj.environments.actions.dialects import make_dialect
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ModelCall,
    Outcome,
    StepRecord,
    StepType,
)

__all__ = ["read", "recognises"]

# The steps of ATIF: an agent's actions, messages and observations.

_VIEWPORT = (1280, 720)
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_CALLED = ("computer", "computer_use_preview")
"""Names of the computer-use tool, whose arguments are an action by themselves."""


class Pictures:
    """Reads the pictures that a trajectory refers to, from its own folder."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self.missing = 0
        """The number of pictures not found."""

    def read(self, path: str) -> bytes | None:
        """Return a picture's bytes. If it is missing, count it and return None."""
        parts = PurePosixPath(path)
        if not parts.is_absolute() and ".." not in parts.parts:
            try:
                data = self._source.read(self._folder / parts)
            except (errors.WebtrajError, ValueError):  # ValueError: not a valid file name.
                data = b""
            if base.is_image(data):
                return data
        self.missing += 1
        return None


class StepReader:
    """Converts the steps of one trajectory to observations, actions and decisions."""

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
        """Return the observation after a step: its results, and the messages until the next."""
        extra, placed = base.fields_of(step, "extra"), _reward_fields(step)
        observation = {key: value for key, value in extra.items() if key not in placed}
        results = base.fields_of(step, "observation").get("results")
        if isinstance(results, list):
            observation["results"] = [self._content(result) for result in results]
        if after:
            observation["messages"] = [self._message(message) for message in after]
        picture = _first_picture([observation.get("results"), observation.get("messages")])
        return observation if picture is None else {"screenshot": picture, **observation}

    def read_decision(self, step: Mapping[str, Any]) -> tuple[Any, Decision]:
        """Return the action of an agent step, and the decision behind it."""
        calls = step.get("tool_calls")
        calls = [base.fields_of(call) for call in calls] if isinstance(calls, list) else []
        said = base.text_of_parts(step.get("message"))
        action = self._action(calls, said)
        call, unplaced = self._model_call(step, said)
        metadata = {
            "message": self._content(step.get("message")),
            "tool_calls": calls,
            "metrics": unplaced,
            **{key: step[key] for key in ("reasoning_effort", "llm_call_count") if key in step},
        }
        decision = Decision(
            action=action,
            thought=base.text_of(step, "reasoning_content"),
            model_calls=() if call is None else (call,),
            metadata={key: value for key, value in metadata.items() if value not in ("", [], {})},
        )
        return action, decision

    def _action(self, calls: list[Mapping[str, Any]], said: str) -> Any:
        if not calls:
            try:
                return actions.SendMessage(said) if said else None
            except errors.InvalidInputError:  # Too long for a message.
                return said
        read = [self._call(call) for call in calls]
        return read[0] if len(read) == 1 else read

    def _call(self, call: Mapping[str, Any]) -> Any:
        """Return a tool call as an action if a dialect can read it; else its name and arguments."""
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
    ) -> tuple[ModelCall | None, dict[str, Any]]:
        """Return a step's model call, and the metrics that have no place in it."""
        metrics = base.fields_of(step, "metrics")
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
        call = ModelCall(
            model=base.text_of(step, "model_name") or self._model,
            text=said,
            usage=usage,
            **placed,
        )
        taken = usage.keys() | {key for key, value in placed.items() if value}
        return call, {key: value for key, value in metrics.items() if key not in taken}

    def _message(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Return a non-agent step unchanged, except for its pictures."""
        return {key: self._content(value) for key, value in step.items() if key != "step_id"}

    def _content(self, value: Any) -> Any:
        """Return a value with the paths of pictures replaced by their bytes."""
        if isinstance(value, list):
            return [self._content(item) for item in value]
        if not isinstance(value, dict):
            return value
        if value.get("type") == "image":
            inner = base.fields_of(value, "source")
            path = base.text_of(inner.get("path", value.get("path")))
            picture = self._pictures.read(path) if path else None
            return value if picture is None else {**value, "data": picture}
        return {key: self._content(item) for key, item in value.items()}


def _reward_fields(of: Mapping[str, Any]) -> dict[str, float]:
    """Return the reward and discount from the extras of a step or a trajectory."""
    extra = base.fields_of(of, "extra")
    names = [name for name in ("reward", "discount") if type(extra.get(name)) in (int, float)]
    return {name: extra[name] for name in names}


def _seconds(timestamp: Any) -> float | None:
    """Return an ISO time in seconds since the epoch; None if it is invalid or before 1970."""
    try:
        time = datetime.datetime.fromisoformat(base.text_of(timestamp))
    except ValueError:
        return None
    return base.time_of((time if time.tzinfo else time.replace(tzinfo=datetime.UTC)).timestamp())


def _last_time(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the latest timestamp of several steps."""
    times = (_seconds(step.get("timestamp")) for step in steps)
    return max((time for time in times if time is not None), default=None)


def _first_picture(value: Any) -> bytes | None:
    inside: Iterable[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        if value.get("type") == "image" and isinstance(value.get("data"), bytes):
            return bytes(value["data"])
        inside = value.values()
    return next(filter(None, map(_first_picture, inside)), None)


def _ids(values: Any) -> tuple[int, ...]:
    sound = isinstance(values, list) and all(type(value) is int for value in values)
    return tuple(values) if sound else ()


def _numbers(values: Any) -> tuple[float, ...]:
    sound = isinstance(values, list) and all(type(value) in (int, float) for value in values)
    return tuple(map(float, values)) if sound else ()


SYSTEM = "atif"
NEWEST = (1, 8)
"""The newest supported version."""

_VERSION = re.compile(r"ATIF-v([0-9]{1,4})\.([0-9]{1,4})")
_MAX_SUBAGENTS = 8
"""The deepest nesting of subagents."""
_TOLD = ("task", "seed", "site", "environment", "reward", "end_reason", "outcome", "viewport")
_PLACED = ("agent", "steps", "extra", "subagent_trajectories")


def recognises(path: Path) -> bool:
    """Return whether a file claims to be ATIF, or a folder holds such files."""
    return base.any_readable(path, _is_wanted, _check_version)


def _check_version(source: Source, path: Path) -> None:
    with contextlib.suppress(errors.UnsupportedSchemaError):  # A newer ATIF is still ATIF.
        _version(base.parse_json(source.read(path), path.name), path.name)


def read(source: Source) -> Iterator[Found]:
    """Yield the episodes of a file, or of all files in a folder."""

    def read_file(path: Path, where: str) -> Iterator[Found]:
        content = source.read(path)
        pictures = Pictures(source, path.parent)
        parts = (base.digest(content),)
        yield from _read(source, base.parse_json(content, where), where, parts, pictures)
        if pictures.missing:
            yield Skipped(where, f"{pictures.missing} of its pictures were not found")

    return source.each(_is_wanted, read_file)


def _is_wanted(name: str) -> bool:
    return name.endswith(".json")


def _read(
    source: Source,
    data: Any,
    where: str,
    parts: tuple[str, ...],
    pictures: Pictures,
    parent: str = "",
) -> Iterator[Found]:
    """Yield the episode of one trajectory, then those of its subagents."""
    sha256 = base.digest(*(part.encode() for part in parts)) if len(parts) > 1 else parts[0]
    identity = base.episode_id(SYSTEM, sha256)
    try:
        _version(data, where)
        imported = base.provenance(SYSTEM, where, parts[0], schema_version=data["schema_version"])
        found: EpisodeTrajectory | Skipped | None = source.already(identity, where)
        if found is None:
            missing = pictures.missing
            episode = _Trajectory(data, where, pictures).episode(identity, imported, parent)
            found = source.place(episode, where, whole=pictures.missing == missing)
        identity = found.episode_id
        yield found
    except base.UNREADABLE as error:
        yield base.problem(where, error)
        return
    subagents = data.get("subagent_trajectories") or ()
    if subagents and len(parts) > _MAX_SUBAGENTS:
        yield Problem(where, errors.CorruptDataError(f"{where!r} nests subagents too deeply."))
        return
    for i, inner in enumerate(subagents if isinstance(subagents, list) else ()):
        below = f"{where}#{i}"
        yield from _read(source, inner, below, (*parts, str(i)), pictures, identity)


def _version(data: Any, where: str) -> None:
    """Check that the version of ATIF data is supported.

    Raises:
        CorruptDataError: The data is not ATIF.
        UnsupportedSchemaError: The version is newer.
    """
    said = data.get("schema_version") if isinstance(data, dict) else None
    match = _VERSION.fullmatch(said) if isinstance(said, str) else None
    if match is None:
        raise errors.CorruptDataError(
            f"{where!r} is not ATIF: its schema_version is {said!r:.40}; expected ATIF-v1.8 "
            "or older."
        )
    if (int(match[1]), int(match[2])) > NEWEST:
        raise errors.UnsupportedSchemaError(
            f"{where!r} is {said}; this webtraj reads up to ATIF-v{NEWEST[0]}.{NEWEST[1]}. "
            "Upgrade webtraj."
        )


class _Trajectory:
    """Converts one trajectory to an episode."""

    def __init__(self, data: Mapping[str, Any], where: str, pictures: Pictures) -> None:
        steps = data.get("steps")
        if not isinstance(steps, list) or not steps or not all(map(_is_step, steps)):
            raise errors.CorruptDataError(
                f"{where!r} needs a list of steps, each with the source system, user or agent."
            )
        self._data = data
        self._steps: list[dict[str, Any]] = steps
        self._extra = base.fields_of(data, "extra")
        self._ours = base.fields_of(self._extra, "webtraj")
        agent = base.fields_of(data, "agent")
        self._agent = agent
        self._reader = StepReader(
            pictures, base.text_of(agent, "model_name"), self._extra.get("viewport")
        )

    def episode(self, identity: str, imported: Mapping[str, Any], parent: str) -> EpisodeTrajectory:
        """Return the episode."""
        before, turns = self._turns()
        reason, outcome = self._end()
        ended = reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
        times = [_seconds(step.get("timestamp")) for step in self._steps]
        first = self._reader.observation({}, before)
        steps = [StepRecord(0, StepType.FIRST, first, end_time=_last_time(before))]
        for i, (step, after) in enumerate(turns):
            is_last = i == len(turns) - 1 and ended
            said = _reward_fields(step)
            discount = said.get("discount", 1.0)
            if is_last:  # The discount must agree with the episode's end.
                discount = 0.0 if reason is EndReason.TERMINATED else discount or 1.0
            action, decision = self._reader.read_decision(step)
            steps.append(
                StepRecord(
                    index=i + 1,
                    step_type=StepType.LAST if is_last else StepType.MID,
                    observation=self._reader.observation(step, after),
                    action=action,
                    reward=said.get("reward"),
                    discount=discount,
                    end_time=_last_time([step, *after]),
                    decision=decision,
                )
            )
        steps = self._number_steps(self._with_total(steps))
        known = [time for time in times if time is not None]
        return EpisodeTrajectory(
            self._info(identity, imported, parent, before),
            tuple(steps),
            EpisodeEnd(
                reason=reason,
                outcome=outcome,
                detail="" if ended else "ATIF does not tell how it ended",
                recording_errors=self._recording_errors(),
            ),
            start_time=min(known, default=None),
            end_time=max(known, default=None),
        )

    def _turns(
        self,
    ) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
        """Return the steps before the first agent step, and then the steps of each agent step."""
        before: list[dict[str, Any]] = []
        turns: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        for step in self._steps:
            if step["source"] == "agent" and step.get("is_copied_context") is not True:
                turns.append((step, []))
            else:
                (turns[-1][1] if turns else before).append(step)
        return before, turns

    def _end(self) -> tuple[EndReason, Outcome]:
        reason = EndReason.__members__.get(str(self._extra.get("end_reason")).upper())
        outcome = Outcome.__members__.get(str(self._extra.get("outcome")).upper())
        return reason or EndReason.CLOSED, outcome or Outcome.UNKNOWN

    def _with_total(self, steps: list[StepRecord]) -> list[StepRecord]:
        """Return the steps. If none has a reward, the last gets the trajectory's."""
        total = _reward_fields(self._data).get("reward")
        if total is None or len(steps) < 2 or any(step.reward is not None for step in steps):
            return steps
        last = steps[-1]
        return [*steps[:-1], dataclasses.replace(last, reward=total)]

    def _number_steps(self, steps: list[StepRecord]) -> list[StepRecord]:
        """Return the steps with their numbers from webtraj's export, if it wrote any."""
        numbers = _ids(self._ours.get("step_indices"))
        if len(numbers) != len(steps) or numbers[0] != 0 or numbers[-1] >= 2**63:
            return steps
        if any(after <= before for before, after in itertools.pairwise(numbers)):
            return steps
        return [dataclasses.replace(step, index=n) for step, n in zip(steps, numbers, strict=True)]

    def _recording_errors(self) -> tuple[str, ...]:
        found = base.fields_of(self._ours, "end").get("recording_errors")
        return tuple(map(base.text_of, found)) if isinstance(found, list) else ()

    def _info(
        self,
        identity: str,
        imported: Mapping[str, Any],
        parent: str,
        before: list[dict[str, Any]],
    ) -> EpisodeInfo:
        seed = self._extra.get("seed")
        name, version = (base.text_of(self._agent, key) for key in ("name", "version"))
        users = [step for step in before if step["source"] == "user"]
        rest = {key: value for key, value in self._data.items() if key not in _PLACED}
        return EpisodeInfo(
            episode_id=identity,
            task=base.text_of(self._extra, "task"),
            goal=base.text_of_parts(users[0].get("message")) if users else "",
            site=base.text_of(self._extra, "site"),
            seed=seed if type(seed) is int else None,
            environment=base.text_of(self._extra, "environment"),
            versions={name: version} if name and version else {},
            policy=name,
            parent_episode_id=parent,
            metadata={
                "imported": imported,
                "agent": dict(self._agent),
                "atif": rest,
                **{key: value for key, value in self._extra.items() if key not in _TOLD},
            },
        )


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and step.get("source") in ("system", "user", "agent")
