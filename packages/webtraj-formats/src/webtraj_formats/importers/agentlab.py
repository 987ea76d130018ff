"""Experiment folders of BrowserGym and AgentLab, and studies made of them.

Folders whose names start with `_` or `.` were run again and are skipped.

Record k of an experiment holds the observation shown at k, the action chosen at k, and the reward
that came *with* observation k, as the result of action k-1. So record 0 is FIRST, and step k takes
its action from record k-1. The last record has no action; if the agent cut the episode short, the
end is on the record where it gave no action.

Rewards are kept as recorded. The outcome is derived from them only if the environment terminated
the episode: a total of 1 or more is a success. Other ends are described in `EpisodeEnd`: an
environment that raised (a record without an observation), an agent that raised (a record without an
action), an interrupted run, or a run without a summary, as when the process died.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Found, Problem, Skipped, Source
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    ErrorInfo,
    ModelCall,
    Outcome,
    Phase,
    StepRecord,
    StepType,
    reward_value,
)
from webtraj_formats.importers.pickles import read_pickle

__all__ = ["Record", "STEP_NAMES", "read", "recognises", "to_trajectory"]

# The classes named in step files of BrowserGym and AgentLab.

STEP_NAMES = frozenset(
    f"{home}.{name}"
    for home, names in {
        "browsergym.experiments.loop": ("StepInfo", "StepTimestamps"),
        "agentlab.experiments.loop": ("StepInfo", "StepTimestamps"),
        "browsergym.experiments.agent": ("AgentInfo",),
        "agentlab.llm.llm_utils": (
            "Discussion", "BaseMessage", "SystemMessage", "HumanMessage", "AIMessage",
        ),
        "openai.types.chat.chat_completion": ("ChatCompletion", "Choice"),
        "openai.types.chat.chat_completion_message": ("ChatCompletionMessage",),
        "openai.types.chat.chat_completion_message_tool_call": (
            "ChatCompletionMessageToolCall", "Function",
        ),
        "openai.types.completion_usage": ("CompletionUsage",),
        "anthropic.types.message": ("Message",),
        "anthropic.types.text_block": ("TextBlock",),
        "anthropic.types.tool_use_block": ("ToolUseBlock",),
        "anthropic.types.usage": ("Usage",),
    }.items()
    for name in names
)  # fmt: skip
"""The classes allowed in step files. The arguments of an experiment may name any class."""


# One record of an experiment, a `StepInfo`, and how records become an episode's steps.

_USAGE = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens")


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A `StepInfo`, with the files that belong to it."""

    number: int
    fields: Mapping[str, Any]
    pictures: Mapping[str, bytes]
    goal: Any

    @property
    def empty(self) -> bool:
        """Whether there is no observation because the environment failed."""
        return self.fields.get("obs") is None

    @property
    def observation(self) -> Any:
        """The observation, including the parts stored in separate files."""
        observation = self.fields.get("obs")
        if not isinstance(observation, Mapping):
            return observation
        goal = {"goal_object": self.goal} if observation.get("goal_object", ()) is None else {}
        return {**observation, **goal, **self.pictures}

    @property
    def reward(self) -> float:
        """The reward as a number; NaN if it is not one."""
        return reward_value(self.fields.get("reward"))

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
    def over(self) -> bool:
        """Whether the environment ended the episode here."""
        return self.terminated or self.truncated

    @property
    def has_stats(self) -> bool:
        """Whether the agent was asked for an action here."""
        return self.fields.get("stats") is not None

    def results(self) -> dict[str, Any]:
        """Return the fields that came with the observation and have no place in a step."""
        names = ("task_info", "raw_reward")
        results = {name: self.fields[name] for name in names if self.fields.get(name) is not None}
        return {
            "step": self.number,
            **results,
            "profiling": base.fields_of(self.fields, "profiling"),
        }

    def time(self, name: str) -> float | None:
        """Return one of the record's times, in seconds since the epoch; None if unknown."""
        value = base.fields_of(self.fields, "profiling").get(name)
        return base.time_of(value) or None  # 0 means unknown.

    def decision(self) -> Decision | None:
        """Return the decision behind the action of this record; None if the agent was not asked."""
        said = base.fields_of(self.fields, "agent_info")
        stats = self.fields.get("stats")
        if not said and stats is None and self.action is None:
            return None
        metadata = {
            name: value
            for name, value in said.items()
            if name not in ("think", "chat_messages") and not base.is_nothing(value)
        }
        call = self._model_call(said, stats)
        return Decision(
            action=self.action,
            thought=base.text_of(said, "think"),
            model_calls=() if call is None else (call,),
            metadata=metadata if base.is_nothing(stats) else {**metadata, "stats": stats},
        )

    def in_flight(self) -> dict[str, Any]:
        """Return the `EpisodeEnd` fields for an action without a recorded result."""
        if self.action is None:
            return {}
        return {
            "action_in_flight": True,
            "in_flight_action": self.action,
            "in_flight_decision": self.decision(),
        }

    def _model_call(self, said: Mapping[str, Any], stats: Any) -> ModelCall | None:
        messages = said.get("chat_messages")
        messages = base.fields_of(messages).get("messages", messages)
        if not isinstance(messages, (list, tuple)) or not messages:
            return None
        shaped = [base.images_as_bytes(_message(message)) for message in messages]
        reply = shaped.pop() if _is(base.fields_of(shaped[-1]).get("role"), "assistant") else None
        extra = base.fields_of(said, "extra_info")
        model = base.fields_of(extra, "chat_model_args").get("model_name")
        counts = {
            name: int(count)
            for name in _USAGE
            if (count := base.number(base.fields_of(stats).get(name))) is not None
            and math.isfinite(count)
        }
        began, ended = self.time("agent_start"), self.time("agent_stop")
        return ModelCall(
            model=base.text_of(model),
            messages=tuple(shaped),
            response=reply,
            text=_text(reply),
            usage=counts,
            start_time=began,
            latency=ended - began if began and ended else None,
        )


def to_trajectory(
    info: EpisodeInfo,
    records: Sequence[Record],
    end: EpisodeEnd,
    unreadable: Sequence[str],
) -> EpisodeTrajectory:
    """Return the episode of a series of records.

    Args:
        info: The episode's info.
        records: The readable records, in order. A gap between records is a gap between steps.
        end: The episode's end.
        unreadable: Errors of the records that could not be read.
    """
    shown = [record for record in records if not record.empty]
    steps, violations = [], []
    for i, record in enumerate(shown):
        is_last = record.over and i == len(shown) - 1
        if record.over and not is_last:
            violations.append(f"record {record.number} is the end, and {record.number + 1} follows")
        # If the record before could not be read, the action is unknown.
        before = shown[i - 1] if i and shown[i - 1].number == record.number - 1 else None
        step_type = StepType.LAST if is_last else StepType.MID
        steps.append(
            StepRecord(
                index=record.number - shown[0].number,
                step_type=step_type if i else StepType.FIRST,
                observation=record.observation,
                action=before.action if before else None,
                reward=record.fields.get("reward") if i else None,
                discount=(0.0 if record.terminated and is_last else 1.0) if i else None,
                start_time=record.time("env_start"),
                end_time=record.time("env_stop"),
                decision=before.decision() if before else None,
            )
        )
    ended = end.reason in (EndReason.TERMINATED, EndReason.TRUNCATED)
    if ended and len(steps) > 0 and not steps[-1].last and not shown[-1].over:
        # The last record is missing: its observation and reward are unknown.
        steps.append(
            StepRecord(
                index=steps[-1].index + 1,
                step_type=StepType.LAST,
                observation={},
                action=shown[-1].action,
                discount=0.0 if end.reason is EndReason.TERMINATED else 1.0,
                decision=shown[-1].decision(),
            )
        )
    elif shown and (shown[-1].action is None or steps[-1].last) and not end.in_flight_decision:
        # The agent gave no action, failed, or was asked after the end; keep what it said.
        last = shown[-1]
        said = last.has_stats or base.fields_of(last.fields, "agent_info")
        end = dataclasses.replace(end, in_flight_decision=last.decision() if said else None)
    elif shown and not steps[-1].last and not end.action_in_flight:
        end = dataclasses.replace(end, **shown[-1].in_flight())
    end = dataclasses.replace(end, violations=tuple(violations), recording_errors=tuple(unreadable))
    times = [time for step in steps for time in (step.start_time, step.end_time) if time]
    return EpisodeTrajectory(
        info,
        tuple(steps),
        end,
        start_time=min(times, default=None),
        end_time=max(times, default=None),
    )


def _is(value: Any, wanted: bool | str) -> bool:
    """Return whether a value of any type equals a bool or a text."""
    return isinstance(value, (bool, np.bool_, str)) and bool(value == wanted)


def _message(message: Any) -> Any:
    """Return a message as a plain mapping; some AgentLab classes are dicts."""
    fields = base.fields_of(message)
    items = fields.get("items")
    return dict(items if isinstance(items, Mapping) else fields) if fields else message


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, (list, tuple)):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return base.text_of(content)


SYSTEM = "agentlab"

_STEP = re.compile(r"step_([0-9]{1,9})\.pkl\.gz")
_FOLDER = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}-[0-9]{2}-[0-9]{2}_(.+)_on_(.+)_(-?[0-9]+)(_[0-9]+)?"
)
_PICTURE = "screenshot{kind}_step_{number}.{ext}"
_INTERRUPTED = ("Early termination??", "Last step in episode was not terminated or truncated.")
_ERROR = re.compile(r"(?:[^\n]*\n)?(?P<type>[A-Za-z_][\w.]*):\n(?P<message>.*)", re.DOTALL)


def recognises(path: Path) -> bool:
    """Return whether a folder is an experiment, or holds any."""
    return path.is_dir() and next(_experiments(path, []), None) is not None


def read(source: Source) -> Iterator[Found]:
    """Yield the episodes of all experiments in a folder."""
    if not source.path.is_dir():
        raise errors.InvalidInputError(
            f"{str(source.path)!r} is not a folder. Name an experiment's folder, or one that holds "
            "experiments."
        )
    superseded: list[Path] = []
    for folder in _experiments(source.path, superseded):
        try:
            yield from _Experiment(source, folder).read()
        except base.UNREADABLE as error:
            yield base.problem(base.relative(source.root, folder), error)
    for folder in superseded:
        where = base.relative(source.root, folder)
        yield Skipped(where, "its name begins with '_' or '.': it was run again")


def _experiments(path: Path, superseded: list[Path]) -> Iterator[Path]:
    if (path / "exp_args.pkl").is_file() or (path / "step_0.pkl.gz").is_file():
        yield path
        return
    try:
        folders = sorted(item for item in path.iterdir() if item.is_dir())
    except PermissionError:
        return
    for folder in folders:
        if folder.name.startswith(("_", ".")):
            superseded += [folder] if (folder / "exp_args.pkl").is_file() else []
        elif not folder.is_symlink():
            yield from _experiments(folder, superseded)


class _Experiment:
    """Reads one experiment's folder as an episode."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._where = base.relative(source.root, folder)
        self._problems: list[Problem] = []
        self._content: dict[str, bytes] = {}
        self._hidden = False
        """Whether a step can be read once more classes are allowed."""

    def read(self) -> Iterator[Found]:
        """Yield the results for the folder."""
        names = sorted(path.name for path in self._folder.iterdir() if path.is_file())
        for name in names:
            if _is_read(name):
                self._keep(name)
        parts: list[bytes] = []
        for name, content in sorted(self._content.items()):
            parts += name.encode(errors="surrogateescape"), content
        sha256 = base.digest(*parts)
        identity = base.episode_id(SYSTEM, sha256)
        if known := self._source.already(identity, self._where):
            yield known
            return
        summary, arguments = self._summary(), self._arguments()
        records = self._records()
        if self._hidden or (self._problems and not records and self._has_steps()):
            # Not read whole, it would look like another episode, and keep a later import out.
            yield from self._problems
            return
        if not records and "summary_info.json" not in self._content:
            yield from self._problems
            if not self._problems:
                yield Skipped(self._where, "it was prepared, but never ran")
            return
        left = [name for name in names if name not in self._content]
        more: dict[str, Any] = {"files_left": left} if left else {}
        imported = base.provenance(SYSTEM, self._where, sha256, **more)
        info = self._info(identity, arguments, summary, records, imported)
        end = self._end(summary, records)
        unreadable = [str(problem.error) for problem in self._problems]
        yield to_trajectory(info, records, end, unreadable)
        yield from self._problems

    def _keep(self, name: str) -> None:
        try:
            self._content[name] = self._source.read(self._folder / name)
        except errors.WebtrajError as error:
            self._complain(name, error)

    def _complain(self, name: str, error: errors.WebtrajError | str) -> None:
        if isinstance(error, str):
            error = errors.CorruptDataError(error)
        where = name if self._where == "." else f"{self._where}/{name}"
        self._problems.append(Problem(where, error))

    def _unpickle(self, name: str, *, any_name: bool = False) -> Any:
        if name not in self._content:
            return None
        limits = self._source.limits
        try:
            content = self._content[name]
            if name.endswith(".gz"):
                content = base.gunzip(content, name, limits.file_bytes)
            names = STEP_NAMES | frozenset(self._source.allow_classes)
            return read_pickle(content, name, names=names, any_name=any_name, limits=limits)
        except errors.WebtrajError as error:
            self._complain(name, error)
            return None

    def _summary(self) -> Mapping[str, Any] | None:
        """Return the summary; None if it is missing or unreadable."""
        content = self._content.get("summary_info.json", b"")
        if not content.strip():  # Created, but never filled.
            return None
        try:
            summary = json.loads(content)
        except (ValueError, RecursionError) as error:
            summary = error
        if isinstance(summary, dict):
            return summary
        self._complain("summary_info.json", f"summary_info.json is not an object: {summary}")
        return None

    def _arguments(self) -> Mapping[str, Any]:
        """Return the experiment's arguments; the folder's name fills gaps."""
        match = _FOLDER.fullmatch(self._folder.name)
        named: dict[str, Any] = {}
        if match is not None:
            named = {
                "agent_args": OpaqueRecord("", {"agent_name": match[1]}),
                "env_args": OpaqueRecord("", {"task_name": match[2], "task_seed": int(match[3])}),
            }
        return {**named, **base.fields_of(self._unpickle("exp_args.pkl", any_name=True))}

    def _records(self) -> list[Record]:
        """Return the readable records, in order."""
        numbers = sorted(int(m[1]) for name in self._content if (m := _STEP.fullmatch(name)))
        goal = self._unpickle("goal_object.pkl.gz") if numbers else None
        records = []
        for number in numbers:
            name = f"step_{number}.pkl.gz"
            step = self._unpickle(name)
            if isinstance(step, OpaqueRecord) and step.type_name.endswith(".StepInfo"):
                records.append(Record(number, step.fields, self._pictures(number), goal))
            elif step is not None:
                self._complain(name, f"{name!r} holds no StepInfo, as a step should.")
            else:
                self._hidden = self._hidden or self._is_hidden(name)
        for before, after in itertools.pairwise([-1, *numbers]):
            first, last = before + 1, after - 1
            if first <= last:
                name = f"step_{first}.pkl.gz"
                to = "is" if first == last else f"and those to step {last} are"
                self._complain(name, f"{name!r} {to} missing among the steps.")
        return records

    def _has_steps(self) -> bool:
        return any(_STEP.fullmatch(name) for name in self._content)

    def _is_hidden(self, name: str) -> bool:
        """Return whether an unreadable file becomes readable when all classes are allowed."""
        said = len(self._problems)
        found = self._unpickle(name, any_name=True)
        del self._problems[said:]
        return found is not None

    def _pictures(self, number: int) -> dict[str, bytes]:
        found = {}
        for key, kind in (("screenshot", ""), ("screenshot_som", "_som")):
            for ext in ("png", "jpg"):
                name = _PICTURE.format(kind=kind, number=number, ext=ext)
                picture = self._content.get(name)
                if picture is None or key in found:
                    continue
                if base.is_image(picture):
                    found[key] = picture
                else:
                    self._complain(name, f"{name!r} is not a picture.")
        return found

    def _info(
        self,
        identity: str,
        arguments: Mapping[str, Any],
        summary: Mapping[str, Any] | None,
        records: list[Record],
        imported: dict[str, Any],
    ) -> EpisodeInfo:
        environment = base.fields_of(arguments, "env_args")
        seed = environment.get("task_seed")
        first = records[0].observation if records else None
        metadata = {
            "imported": imported,
            "arguments": dict(arguments),
            "steps": [record.results() for record in records],
        }
        return EpisodeInfo(
            episode_id=identity,
            task=base.text_of(environment, "task_name"),
            goal=_goal(first),
            seed=seed if type(seed) is int else None,
            environment="browsergym",
            versions=self._versions(),
            policy=base.text_of(arguments, "agent_args", "agent_name"),
            metadata=metadata if summary is None else {**metadata, "summary": dict(summary)},
        )

    def _versions(self) -> dict[str, str]:
        lines = self._content.get("package_versions.txt", b"").decode(errors="replace").splitlines()
        pairs = (line.strip().partition("==") for line in lines)
        return {name: version for name, found, version in pairs if found}

    def _end(self, summary: Mapping[str, Any] | None, records: list[Record]) -> EpisodeEnd:
        last = records[-1] if records else None
        known = summary or {}
        if last is not None and last.terminated:
            whole = len(records) == last.number + 1
            total = sum(record.reward for record in records[1:]) if whole else None
            return EpisodeEnd(reason=EndReason.TERMINATED, outcome=base.outcome_of(total))
        if last is not None and last.truncated:
            detail = "the agent gave no action" if last.has_stats else ""
            return EpisodeEnd(reason=EndReason.TRUNCATED, detail=detail)
        in_flight = records[-2] if last is not None and last.empty and len(records) > 1 else None
        flight: dict[str, Any] = {} if in_flight is None else in_flight.in_flight()
        if known.get("terminated") or known.get("truncated"):
            error = errors.CorruptDataError(f"{self._where!r} has no record of its last step.")
            self._problems.append(Problem(self._where, error))
            # What its steps do not show is no outcome.
            ended = EndReason.TERMINATED if known.get("terminated") else EndReason.TRUNCATED
            return EpisodeEnd(reason=ended)
        said = base.text_of(known, "err_msg")
        if said.rstrip().endswith(_INTERRUPTED):
            return EpisodeEnd(reason=EndReason.CANCELLED, detail=said, **flight)
        if said:
            in_environment = last is None or last.empty
            return EpisodeEnd(
                reason=EndReason.ERRORED,
                phase=Phase.STEP if in_flight else None,
                error=_error(said, base.text_of(known, "stack_trace")),
                outcome=Outcome.ENV_ERROR if in_environment else Outcome.AGENT_ERROR,
                **flight,
            )
        detail = "its summary says nothing of an end" if known else (
            "there is no summary: its process died, or was still running"
        )  # fmt: skip
        closed = EndReason.CLOSED if known else EndReason.CRASHED
        return EpisodeEnd(reason=closed, detail=detail, **flight)


def _is_read(name: str) -> bool:
    known = ("exp_args.pkl", "goal_object.pkl.gz", "summary_info.json", "package_versions.txt")
    picture = name.startswith("screenshot_") and name.endswith((".png", ".jpg"))
    return name in known or picture or _STEP.fullmatch(name) is not None


def _goal(observation: Any) -> str:
    seen = base.fields_of(observation)
    parts = seen.get("goal_object")
    # If the goal has pictures, the older field holds a warning instead.
    told = base.text_of_parts(parts) if isinstance(parts, (list, tuple)) else ""
    return told or base.text_of(seen, "goal")


def _error(said: str, traceback: str) -> ErrorInfo:
    match = _ERROR.fullmatch(said)
    if match is None:
        return ErrorInfo(type="Exception", message=said, traceback=traceback)
    return ErrorInfo(type=match["type"], message=match["message"], traceback=traceback)
